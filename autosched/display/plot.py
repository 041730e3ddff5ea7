"""The tuning curve of a run as a chart of plotly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.needed import needed_for
from autosched.words import seconds_text

# Colours of the curves. Text and grid are grey without a background, for light and dark pages.
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")
_TEXT = "#808080"
_GRID = "rgba(128, 128, 128, 0.25)"
_CLEAR = "rgba(0, 0, 0, 0)"


def tuning_curve(rows: Sequence[dict[str, Any]]) -> Any:
    """A plotly.graph_objects.Figure: the best time over trials, every trial, failures at the top.

    `rows` are those of `display.frame`. Raises ConfigError without plotly.
    """
    graph_objects = needed_for("plot", "plotly.graph_objects", "plotly")
    figure = graph_objects.Figure()
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(row["key"], []).append(row)
    worst = max((row["seconds"] for row in rows if row["valid"]), default=1.0)
    for number, own in enumerate(tasks.values()):
        colour, name = _COLOURS[number % len(_COLOURS)], own[0]["task"]
        for trace in _traces(own, name, colour, worst):
            figure.add_trace(graph_objects.Scatter(legendgroup=name, **trace))
    axis = {"gridcolor": _GRID, "zeroline": False}
    times = {"type": "log", "exponentformat": "SI", "minexponent": 0, "ticksuffix": "s"}
    figure.update_layout(
        xaxis={"title": "trial", **axis},
        yaxis={"title": "time per call", **times, **axis},
        font={"color": _TEXT},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        legend={"orientation": "h"},
        margin={"t": 30},
    )
    return figure


def _traces(
    rows: Sequence[dict[str, Any]], name: str, colour: str, worst: float
) -> list[dict[str, Any]]:
    """The best so far, the valid trials and the failed ones of a task."""
    valid = [row for row in rows if row["valid"]]
    failed = [row for row in rows if not row["valid"]]
    known = [row for row in rows if row["best_seconds"] == row["best_seconds"]]  # not NaN
    best = {
        "name": name,
        "mode": "lines",
        "x": [row["trial"] for row in known],
        "y": [row["best_seconds"] for row in known],
        "line": {"shape": "hv", "color": colour},
        "hoverinfo": "skip",
    }
    trials = {
        "name": "trials",
        "mode": "markers",
        "x": [row["trial"] for row in valid],
        "y": [row["seconds"] for row in valid],
        "marker": {"color": colour, "opacity": 0.5, "size": 6},
        "text": [seconds_text(row["seconds"]) for row in valid],
        "hoverinfo": "x+text",
        "showlegend": False,
    }
    failures = {
        "name": "failures",
        "mode": "markers",
        "x": [row["trial"] for row in failed],
        "y": [1.5 * worst for _ in failed],
        "marker": {"color": colour, "symbol": "x-thin-open", "size": 8},
        "text": [f"{row['stage']} {row['kind']}" for row in failed],
        "hoverinfo": "x+text",
        "showlegend": False,
    }
    return [best, trials, *([failures] if failed else [])]
