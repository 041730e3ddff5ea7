"""Whole tuning runs, for the command line and `autosched.tune`, and the use of their records."""
