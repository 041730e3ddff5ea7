"""A whole tuning run, behind the command line and `autosched.tune`; the best of its records."""
