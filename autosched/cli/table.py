"""Plain text tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.cli.console import wrapped
from autosched.words import aligned, visible

_GAP = "  "
_INDENT = "    "


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    less_telling: Sequence[str] = (),
) -> list[str]:
    """The lines of a table, without empty columns; a head without words is left out, too.

    If it is wider than `width`, the columns of `less_telling` are dropped, in this order. If that
    is not enough, the first column gets lines of its own:

        matmul(M=512, N=512, K=512)
            808 us  330.4 GFLOP/s
    """
    rows = [[visible(cell) for cell in row] for row in rows]
    shown = [k for k in range(len(head)) if any(row[k] for row in rows)]
    for name in less_telling:
        if width is not None and _total(head, rows, shown) > width and head.index(name) in shown:
            shown.remove(head.index(name))
    if width is None or _total(head, rows, shown) <= width or len(shown) < 2:
        return [line for line in _lines([head, *rows], shown) if line]
    first, *others = shown
    body = [head, *rows]
    inner = [[line] for line in _lines(body, others)]
    if max(len(line) for (line,) in inner) > width - len(_INDENT):
        inner = [_packed([row[k] for k in others], width - len(_INDENT)) for row in body]
    return [
        line
        for row, lines in zip(body, inner, strict=True)
        for line in (*wrapped(row[first], width), *(_INDENT + line for line in lines if line))
    ]


def _packed(cells: Sequence[str], width: int) -> list[str]:
    """Pack the cells into lines, as many per line as fit."""
    lines: list[str] = []
    for cell in filter(None, cells):
        if lines and len(lines[-1]) + len(_GAP) + len(cell) <= width:
            lines[-1] += _GAP + cell
        else:
            lines += wrapped(cell, width)
    return lines


def _lines(rows: Sequence[Sequence[str]], shown: Sequence[int]) -> list[str]:
    return aligned([[row[k] for k in shown] for row in rows])


def _total(head: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[int]) -> int:
    return max(map(len, _lines([head, *rows], shown)))
