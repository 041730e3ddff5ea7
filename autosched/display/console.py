"""Consoles that show text as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import IO, Any

from rich.console import Console

from autosched.words import escaped, visible


class _Console(Console):
    """A console whose reader may go away, as `head` does: what it prints is lost from then on."""

    def on_broken_pipe(self) -> None:
        """In place of ending the process, which has more to do than to print."""
        lose(self.file)


def lose(stream: IO[str]) -> None:
    """What is written to the stream goes nowhere from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def literal_console(**options: Any) -> Console:
    """A console that shows text as it is: file names may hold `[red]` or `:x:`.

    It respects NO_COLOR and drops colours where the stream is not a terminal.
    """
    console = _Console(soft_wrap=True, highlight=False, markup=False, emoji=False, **options)
    if console.width < 1:  # COLUMNS=0: not known
        console.width = shutil.get_terminal_size().columns
    return console


def lines_only(text: str) -> str:
    """What all that goes to a terminal becomes before: what it would obey is shown as `\\x1b`."""
    return visible(text, keep="\n\t")


def tell(console: Console, text: str) -> None:
    """Lines, lost where nothing can be written; what the stream cannot have, or obeys, as codes."""
    try:
        console.print(escaped(lines_only(text), getattr(console.file, "encoding", None)))
    except OSError:
        # rich would print the line with the next one; a capture takes it away.
        with contextlib.suppress(OSError), console.capture():
            pass
