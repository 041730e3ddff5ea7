"""The results of a run as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, log

from autosched.display.html import table_html

_HEAD = ("task", "best", "95% interval", "rate", "trials", "valid", "remarks")
_CURVE = (120, 24)  # pixels


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a task as texts; `curve` has the best seconds after each trial, for a plot."""

    task: str
    best: str
    interval: str
    rate: str
    trials: int
    valid: int
    remarks: Sequence[str]
    curve: Sequence[float]


def results_html(found: Sequence[Found], reason: str) -> str:
    """A table of the tasks, each with its curve; `reason` is why the run ended."""
    rows = []
    for each in found:
        times = (each.task, each.best, each.interval, each.rate)
        remarks = "; ".join(filter(None, each.remarks))
        rows.append((*times, str(each.trials), str(each.valid), remarks))
    curves = [curve_svg(each.curve, f"best of {each.task} over trials") for each in found]
    return f"<div>{table_html(_HEAD, rows, reason, curves)}</div>"


def curve_svg(values: Sequence[float], title: str) -> str:
    """A small chart of falling values on a logarithmic scale; empty for less than two values.

    The line has the colour of the text around it.
    """
    known = [(trial, value) for trial, value in enumerate(values) if isfinite(value)]
    if len(known) < 2:
        return ""
    width, height = _CURVE
    low, high = log(min(v for _, v in known)), log(max(v for _, v in known))
    scale = (height - 4) / max(high - low, 1e-9)
    across = width / max(1, len(values) - 1)
    points = " ".join(f"{k * across:.1f},{2 + (high - log(v)) * scale:.1f}" for k, v in known)
    return (
        f'<svg width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
    )
