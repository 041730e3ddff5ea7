"""The command line: `autosched`. One file per command."""

from __future__ import annotations

from autosched.process.garbage import never_collect, rarely_collect


def main() -> None:
    """Entry point of the console script; docs/configuration.md has the exit statuses."""
    from autosched.cli.interrupt import interrupts_leave

    interrupts_leave()
    rarely_collect()
    from autosched.cli.app import run

    try:
        run()
    finally:
        never_collect()
