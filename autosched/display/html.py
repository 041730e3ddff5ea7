"""Tables as HTML for notebooks, in the colours of the page: light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = 'style="text-align:left;padding:0.1em 0.8em 0.1em 0"'


def table_html(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    pictures: Sequence[str] = (),
) -> str:
    """A table of texts, which are escaped: names may hold anything.

    `pictures` are HTML for a last cell of each row.
    """
    title = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    last = [f"<td>{picture}</td>" for picture in pictures] or [""] * len(rows)
    lines = (_row("td", row, picture) for row, picture in zip(rows, last, strict=True))
    body = "".join(lines)
    return f"<table>{title}<thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[str], last: str = "") -> str:
    shown = "".join(f"<{tag} {_CELL}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{shown}{last}</tr>"
