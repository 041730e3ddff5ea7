"""A chart as data: the traces that plotly.js draws, and the caption."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, inf, log10
from typing import Any, TypeVar

from autosched.words import seconds_text

Item = TypeVar("Item")

MOST_POINTS = 2000
"""The most marks of a chart: with more the page grows, and neighbouring marks look like one."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Traces and layout in plotly's terms; colours are names that the page gives values (`@best`).

    Without traces there is nothing to draw, and the caption says why.
    """

    name: str
    title: str
    caption: str
    traces: Sequence[dict[str, Any]] = ()
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340
    wide: bool = False

    def to_json(self) -> dict[str, Any]:
        """The data that the page's script draws."""
        return {"traces": list(self.traces), "layout": self.layout, "height": self.height}


def shown(text: object) -> str:
    """Escape text of a file: plotly takes `<b>` and `<a href>` for markup."""
    return html.escape(str(text))


def thinned(items: Sequence[Item], most: int = MOST_POINTS) -> list[Item]:
    """`most` of the items at even distances, the first and the last among them; all of fewer."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(k * step)] for k in range(most)]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """A linear axis with its title, which names the unit."""
    return {"title": {"text": title}, **more}


def log_axis(title: str, low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis from `low` to `high`, with ticks at 1, 2 and 5 or at powers of ten."""
    values = log_ticks(low, high)
    return {
        "title": {"text": title},
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickvals": values,
        "ticktext": [number(value) for value in values],
    }


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten from `low` to `high`; in short ranges also 2 and 5 times these."""
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    digits = (1,) if log10(high / low) > 2.5 else (1, 2, 5)
    return [d * 10.0**k for k in decades for d in digits if low <= d * 10.0**k <= high]


def number(value: float) -> str:
    """`0.05`, `3.1`, `328`, `12,300`: three digits, without exponents from 1e-4 to 1e7."""
    if value == 0 or not -inf < value < inf:
        return "0" if value == 0 else "unknown"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    digits = max(0, 2 - floor(log10(abs(value))))
    rounded = round(value, 2 - floor(log10(abs(value))))
    text = f"{rounded:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def time_text(seconds: float) -> str:
    """A time for people, as `811 µs`."""
    return seconds_text(seconds).replace(" us", " µs")


def percent(share: float) -> str:
    """A share for people, as `34%`, and `<1%` for less than that but not nothing."""
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"
