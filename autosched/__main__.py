"""`python -m autosched`: the command line."""

import sys

# As with `autosched`, the current folder is not searched for modules: it is the user's.
if not sys.flags.safe_path:
    del sys.path[0]

from autosched.cli import main

main()
