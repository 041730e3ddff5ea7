"""`python -m autosched`: the command line."""

from autosched.cli import main

main()
