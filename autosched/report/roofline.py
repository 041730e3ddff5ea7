"""The roofline: the measured peak and bandwidths of the machine, and the candidates below them.

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for
multicore architectures. CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autosched.cpu_cores import hardware_threads
from autosched.measure.bandwidth import Bandwidth, bandwidths
from autosched.measure.cpu_runner import output_type
from autosched.measure.peak import peak_flops
from autosched.report.chart import Chart, log_axis, number, thinned, time_text
from autosched.report.runs import Run
from autosched.target import cpu_target
from autosched.words import count

_TITLE = "Roofline"
_MARKS = 400
_DASHES = ("solid", "dash", "dashdot", "dot")


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of a machine on some threads: operations a second, and bytes a second by level.

    `peak` is the rate of operations in registers, None for a type without a measured one.
    """

    peak: float | None
    dtype: str
    threads: int
    bandwidths: tuple[Bandwidth, ...]


def measured_roof(run: Run) -> Roof | None:
    """Measure this machine's roof on the threads of the task; None for a GPU or another machine."""
    if run.task is None or run.task.target.is_gpu or not run.here:
        return None
    return _measured(min(run.task.target.threads, hardware_threads()), output_type(run.task))


@lru_cache(maxsize=16)
def _measured(threads: int, dtype: str) -> Roof:
    target = cpu_target(threads)
    return Roof(peak_flops(target, dtype), dtype, threads, _bandwidths(threads))


@lru_cache(maxsize=8)
def _bandwidths(threads: int) -> tuple[Bandwidth, ...]:
    return tuple(bandwidths(cpu_target(threads)))


def roofline(run: Run, roof: Roof | None, why_none: str) -> Chart:
    """The chart of all candidates at the task's intensity, below the roof if there is one.

    `why_none` says why there is no roof.
    """
    if not run.flops or not run.bytes:
        why = run.problem or "its operations are not counted"
        return Chart("roofline", _TITLE, f"No roofline of {run.name}: {why}.")
    if run.best is None:
        return Chart("roofline", _TITLE, "No candidate has a time.")
    intensity = run.flops / run.bytes
    reached = run.rate(run.best.result.cost)
    rates = [run.rate(trial.cost) for trial in run.valid]
    traces: list[dict[str, Any]] = []
    left, right = intensity / 8, intensity * 8
    top, bottom = max([*rates, reached]), min([*rates, reached])
    if roof is not None:
        peak = roof.peak
        knees = [peak / level.bytes_per_second for level in roof.bandwidths] if peak else []
        left, right = min([left, *(k / 4 for k in knees)]), max([right, *(k * 4 for k in knees)])
        traces += _lines(roof, left, right)
        top = max(top, peak or 0.0)
        slowest = min((level.bytes_per_second for level in roof.bandwidths), default=bottom / left)
        bottom = min(bottom, slowest * intensity)
    marks = thinned(sorted(rates), _MARKS)
    traces += [_candidates(intensity, marks), _best(intensity, reached, run.best.result.cost)]
    layout = {
        "xaxis": log_axis("operations per byte of inputs and outputs", left, right),
        "yaxis": log_axis("GFLOP/s", bottom / 2e9, top * 1.6 / 1e9),
    }
    caption = _caption(run, roof, intensity, reached, why_none)
    if len(rates) > len(marks):
        caption += f" {len(marks):,} of {len(rates):,} candidates are drawn, from all speeds."
    return Chart("roofline", _TITLE, caption, traces, layout, 400, wide=True)


def _lines(roof: Roof, left: float, right: float) -> list[dict[str, Any]]:
    lines = []
    peak = roof.peak
    for place, level in enumerate(roof.bandwidths):
        rate = level.bytes_per_second
        end = right if peak is None else min(right, max(left, peak / rate))
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{level.level} {number(rate / 1e9)} GB/s",
                "x": [left, end],
                "y": [left * rate / 1e9, end * rate / 1e9],
                "line": {"width": 2, "color": f"@level{place}", "dash": _DASHES[place % 4]},
                "hoverinfo": "name",
            }
        )
    if peak is not None:
        fastest = max((level.bytes_per_second for level in roof.bandwidths), default=peak / left)
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"peak {number(peak / 1e9)} GFLOP/s",
                "x": [max(left, peak / fastest), right],
                "y": [peak / 1e9, peak / 1e9],
                "line": {"width": 2.5, "color": "@peak"},
                "hoverinfo": "name",
            }
        )
    return lines


def _candidates(intensity: float, rates: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "candidate",
        "x": [intensity] * len(rates),
        "y": [rate / 1e9 for rate in rates],
        "marker": {
            "symbol": "line-ew",
            "size": 18,
            "opacity": 0.75,
            "line": {"width": 1.5, "color": "@trial"},
        },
        "hovertemplate": "%{y:.4~g} GFLOP/s<extra>candidate</extra>",
    }


def _best(intensity: float, rate: float, seconds: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "best",
        "x": [intensity],
        "y": [rate / 1e9],
        "text": [time_text(seconds)],
        "marker": {"symbol": "star", "size": 14, "color": "@winner"},
        "hovertemplate": "%{text}, %{y:.4~g} GFLOP/s<extra>best</extra>",
    }


def _caption(run: Run, roof: Roof | None, intensity: float, reached: float, why_none: str) -> str:
    where = (
        f"Every candidate does {number(intensity)} operations for each byte of its inputs and "
        "outputs, which must move at least once"
    )
    if roof is None:
        return f"{where}; no roof is drawn: {why_none}."
    how = f"measured on {count(roof.threads, 'thread')} of this machine when the page was made"
    if roof.peak is None:
        return f"{where}; bandwidths are {how}, and no peak is known for {roof.dtype}."
    said = f"{where}; peak and bandwidths are {how}."
    if reached > roof.peak:
        said += (
            " The best is above the peak: that was measured too low (other programs ran), or the "
            "kernel saves operations."
        )
    if all(level.level != "memory" for level in roof.bandwidths):
        said += " Memory is not measured: a quarter of the free memory fits the caches."
    return said
