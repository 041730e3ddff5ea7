"""`python -m autosched`: the command line."""

import sys

# As with `autosched`, modules are not searched in the current folder, which is the user's.
if not sys.flags.safe_path:
    del sys.path[0]

from autosched.cli import main

main()
