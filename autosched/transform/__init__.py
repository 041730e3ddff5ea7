"""Lowering passes: one file each, run by `Sequential` under a `PassContext`."""
