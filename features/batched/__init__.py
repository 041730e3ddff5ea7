"""The rows of `ansor-0.19` for thousands of candidates at once, as arithmetic on arrays."""
