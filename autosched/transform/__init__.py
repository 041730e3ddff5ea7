"""Lowering passes, one per file, run by `Sequential` under a `PassContext`."""
