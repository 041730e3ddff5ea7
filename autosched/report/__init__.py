"""Show record files as one page of charts that opens without a network (docs/report.md)."""
