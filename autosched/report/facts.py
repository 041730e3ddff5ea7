"""The words and numbers of the page: the figures at its top, remarks, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autosched.measure.result import MeasureResult
from autosched.measure.standing import is_race
from autosched.measure.steady import DISTURBED, interval, scatter
from autosched.report.chart import number, percent, time_text
from autosched.report.curve import rate_text
from autosched.report.roofline import Roof
from autosched.report.runs import Run
from autosched.words import count, shortened

_NAMES = {"memory_bytes": "Memory", "cpu": "CPU", "cuda": "CUDA", "gpus": "GPUs"}
_SLOWER = 1.15  # worth a remark in a race: the times of steady kernels repeat within a few percent
_MOST_BYTES = 2**60
_LONG = 400  # characters of a value of an environment that a table shows


@dataclass(frozen=True, slots=True)
class Figure:
    """A number at the top of a run: its name, the number with its unit, and a line below it."""

    name: str
    value: str
    unit: str
    note: str


def figures(run: Run, roof: Roof | None) -> list[Figure]:
    """The figures of a run: best time, throughput, candidates and time spent."""
    trials, failed = len(run.trials), len(run.trials) - len(run.valid)
    counted = Figure(
        "Candidates", f"{trials:,}", "", f"{failed:,} failed" if failed else "none failed"
    )
    spent = sum(run.spent.values())
    if spent > 0:
        took = Figure("Time", *_duration(spent), "search, building, running, learning")
    else:
        total = sum(trial.record.result.total_seconds for trial in run.trials)
        took = Figure("Time", *(_duration(total) if total else ("unknown", "")), "to build and run")
    best = run.best
    if best is None:
        return [Figure("Best", "none", "", "no candidate has a time"), counted, took]
    low, high = interval(best.result.seconds)
    between = f"{time_text(low)} to {time_text(high)} (95%)"
    if low == high:
        between = f"of {count(len(best.result.seconds), 'measurement')}"
    seconds, seconds_unit = time_text(best.result.cost).split(" ")
    rate, _, unit = rate_text(run, best.result.cost).partition(" ")
    peak = roof.peak if roof is not None else None
    share = f"{percent(run.rate(best.result.cost) / peak)} of the measured peak" if peak else ""
    return [
        Figure("Best time", seconds, seconds_unit, between),
        Figure("Throughput", rate, unit, share or "of the best candidate"),
        counted,
        took,
    ]


def _check(result: MeasureResult) -> str:
    if not result.checked:
        return "Never compared with NumPy."
    return (
        f"Checked against NumPy: {result.seen.text}." if result.seen else "Checked against NumPy."
    )


def remarks(run: Run) -> list[str]:
    """Sentences about the best: how it was checked, raced and timed."""
    best = run.best
    if best is None:
        return []
    found = [_check(best.result)]
    if is_race(best):
        race = best.search["race"]
        ties = race.get("ties")
        tied = len(ties) if isinstance(ties, list) else 0
        rivals = len(race["against"]) if isinstance(race.get("against"), list) else 0
        those = f"of which {tied}" if tied < rivals else "which" if tied == 1 else "all of which"
        end = f", {those} may be as fast" if tied else ""
        found.append(f"The winner of a race against {count(rivals, 'other')}{end}.")
        before = race.get("found_seconds")
        if isinstance(before, float) and best.result.cost > _SLOWER * before > 0:
            found.append(
                f"It took {number(best.result.cost / before)} times as long in the race as when it "
                "was found: times of this run are unreliable."
            )
    if scatter(best.result.seconds) > DISTURBED:
        found.append(
            f"Its repeats differ by a factor of {number(scatter(best.result.seconds))}: other "
            "programs used the cores, or their clock changed."
        )
    if best.result.cache_flush:
        found.append("Timed with empty caches.")
    return found


def _duration(seconds: float) -> tuple[str, str]:
    for most, size, unit in ((120, 1, "s"), (7200, 60, "min")):
        if seconds < most:
            return number(seconds / size), unit
    return number(seconds / 3600), "h"


def environment(run: Run, roof: Roof | None) -> list[tuple[str, str]]:
    """Names and values of the machine and programs that the run was measured with."""
    rows = [("Measured on", run.machine + (", this machine" if run.here else ""))]
    if run.task is not None:
        target = run.task.target
        rows.append(("Target", str(target)))
        if target.caches:
            sizes = ", ".join(
                f"{name} {_size(size)}"
                for name, size in zip(("L1", "L2", "L3"), target.caches, strict=False)
            )
            rows.append(("Caches", sizes))
    for place, facts in enumerate(run.environments.values()):
        several = f" ({place + 1})" if len(run.environments) > 1 else ""
        named = [(name, value) for name, value in _facts(facts) if value != run.device]
        rows += [(name + several, value) for name, value in named]
    if not run.environments:
        rows.append(("Environment", "not recorded"))
    if roof is not None:
        measured = [
            f"{b.level} {number(b.bytes_per_second / 1e9)} GB/s with {_size(b.bytes_each)} a thread"
            for b in roof.bandwidths
        ]
        rows.append(("Bandwidths", ", ".join(measured)))
    return rows


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for key, value in facts.items():
        name = _NAMES.get(key, key[:40].replace("_", " ").capitalize())
        is_size = key == "memory_bytes" and type(value) is int and 0 <= value < _MOST_BYTES
        text = _size(value) if is_size else _value(value)
        rows.append((name, shortened(text, _LONG, "…")))
    return rows


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return "; ".join(map(_value, value)) if isinstance(value, list) else str(value)


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{number(size)} {unit}"
        size /= 1024
    return f"{number(size)} GiB"
