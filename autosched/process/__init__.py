"""Worker processes and the handling of Ctrl-C, for measuring and searching."""
