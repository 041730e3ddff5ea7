"""Wording that messages share."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 record`, `2 records`, `2 sketches`."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{ending}"


def numbered(name: str, taken: Container[str]) -> str:
    """`name` with the least number behind it that makes it none of `taken`: `A_1`, `A_2`."""
    return next(each for k in itertools.count(1) if (each := f"{name}_{k}") not in taken)


def either(choices: Iterable[str]) -> str:
    """The choices as one allows them: `0 or 1`, `2, 4 or 6`."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, each column as wide as its widest cell, without spaces at the end."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def shortened(text: str, most: int, end: str = "...") -> str:
    """`text`, cut to at most `most` characters, of which `end` are the last."""
    return text if len(text) <= most else text[: most - len(end)] + end


def last_line(message: str) -> str:
    """The last line of an error message, which says what went wrong."""
    return (message.strip().splitlines() or ["no message"])[-1]


def told(error: BaseException) -> str:
    """An error as text: `KeyError: 'n'`, or the class alone if the error has no message."""
    text = str(error).strip()
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def missing(what: str, name: str, others: Mapping[str, str]) -> AttributeError:
    """The AttributeError that `what` has no attribute `name`, with the remedy in `others`."""
    remedy = f"; write {others[name]}" if name in others else ""
    return AttributeError(f"{what} has no attribute {name!r}{remedy}", name=name)


def in_shell(path: str | os.PathLike[str]) -> str:
    """`path` as one word of a shell command that can be copied."""
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def escaped(text: str, encoding: str | None = None) -> str:
    """`text` with `\\udcff` for what `encoding` (UTF-8) cannot encode; file names may have it."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def visible(text: str, keep: str = "") -> str:
    """`text` with `\\x1b` for invisible characters and terminal controls, except those in `keep`.

    Text from files may colour the terminal, overwrite other lines, or reverse the direction of the
    text. So control characters (line ends included), direction marks and zero-width characters are
    escaped.
    """
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else _code(found[0]), text)


_HIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)
"""Unicode's Cc, Zl, Zp and Cf except for the joiners, which scripts and emoji need."""


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()


def seconds_text(seconds: float) -> str:
    """A time as text, such as `1.23 ms`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rate_text(flops: float, peak: float | None = None) -> str:
    """A rate as text: `12.3 GFLOP/s (34% of peak)`; empty when the operations are not counted.

    The peak is measured. A share above 100% gets a note: the peak was measured too low, or the
    kernel saves operations.
    """
    if flops <= 0:
        return ""
    text = f"{flops / 1e9:.4g} GFLOP/s"
    if not peak:
        return text
    share = flops / peak
    if share > 1:
        return f"{text} ({share:.0%} of peak, measured too low, or the kernel saves operations)"
    return f"{text} ({f'{share:.0%}' if share >= 0.01 else '<1%'} of peak)"
