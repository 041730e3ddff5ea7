"""Wording that messages share."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """`1 record`, `2 records`, `2 sketches`."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{ending}"


def last_line(message: str) -> str:
    """The line of an error message that says what went wrong."""
    return (message.strip().splitlines() or ["no message"])[-1]
