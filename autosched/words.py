"""Wording that messages share."""

from __future__ import annotations

import os
import shlex


def count(number: int, noun: str) -> str:
    """`1 record`, `2 records`, `2 sketches`."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{ending}"


def last_line(message: str) -> str:
    """The line of an error message that says what went wrong."""
    return (message.strip().splitlines() or ["no message"])[-1]


def in_shell(path: str | os.PathLike[str]) -> str:
    """`path` as a word of a command line that can be copied into a shell."""
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
