"""Consoles that show text as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import IO, Any

from rich.console import Console

from autosched.words import escaped, visible


class _Console(Console):
    """A console whose reader may go away, as `head` does: its output is discarded from then on."""

    def on_broken_pipe(self) -> None:
        """Discard all output instead of ending the process, as rich does."""
        lose(self.file)


def lose(stream: IO[str]) -> None:
    """Discard everything that is written to the stream from now on."""
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
    """Text for a terminal: control characters that it would obey are shown, as `\\x1b`."""
    return visible(text, keep="\n\t")


def tell(console: Console, text: str) -> None:
    """Print lines; they are lost if nothing can be written.

    Characters that the stream cannot encode, or would obey, are shown as codes.
    """
    try:
        console.print(escaped(lines_only(text), getattr(console.file, "encoding", None)))
    except OSError:
        # rich would print the line together with the next one; a capture discards it.
        with contextlib.suppress(OSError), console.capture():
            pass
