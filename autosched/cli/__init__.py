"""The command line: `autosched`. One file per command."""

from __future__ import annotations

import os
import sys

from autosched.needed import failed_import
from autosched.process.garbage import never_collect, rarely_collect


def main() -> None:
    """Entry point of the console script; docs/configuration.md has the exit statuses."""
    from autosched.cli.interrupt import interrupts_leave

    interrupts_leave()
    rarely_collect()
    # Looking for plugins in all installed packages takes 30 ms, and our models have none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")
    try:
        from autosched.cli.app import run

        run()
    except Exception as error:
        problem = failed_import(error)
        if problem is None:
            raise
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    finally:
        never_collect()
