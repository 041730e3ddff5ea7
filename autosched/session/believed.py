"""Leaving out records whose times are impossible: forged, or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.measure.plausible import ABOVE_PEAK, has_rate, least_of, least_operations
from autosched.measure.records import Record
from autosched.task import Task
from autosched.words import count

if TYPE_CHECKING:  # commands that only read records do not load what measures
    from autosched.measure.measurer import Measurer

Tell = Callable[[str], None]


def believed(path: Path, records: Iterable[Record], warning: Tell) -> list[Record]:
    """The records without those that no kernel can be as fast as; `warning` is told of them.

    Failures stay. What is taken instead is the next best.
    """
    least: dict[str, float] = {}
    doubted: dict[str, list[Record]] = {}
    kept = []
    for record in records:
        key = record.task["key"]
        if key not in least:
            least[key] = least_of(record.task)
        if record.result.cost < least[key]:
            doubted.setdefault(key, []).append(record)
        else:
            kept.append(record)
    for key, found in doubted.items():
        fastest = min(record.result.cost for record in found)
        warning(
            f"{path}: {count(len(found), 'record')} of task {key} not believed and left out: "
            f"{fastest:.3g} s a call, and no kernel of it takes less than {least[key]:.3g} s; "
            "delete the lines"
        )
    return kept


def below_peak(
    task: Task, records: Iterable[Record], measurer: Measurer, warning: Tell
) -> list[Record]:
    """The records of a task that claim at most twice the peak that is measured now."""
    known = list(records)
    cost = min((record.result.cost for record in known), default=float("inf"))
    if cost == float("inf") or task.target.is_gpu or not has_rate(task):
        return known
    operations = least_operations(task)
    peak = measurer.peak(task, operations / cost)
    if not peak or operations / cost <= ABOVE_PEAK * peak:
        return known
    kept = [r for r in known if operations / r.result.cost <= ABOVE_PEAK * peak]
    warning(
        f"{task.name}: {count(len(known) - len(kept), 'record')} not believed and left out: "
        f"{operations / cost / 1e9:.4g} GFLOP/s, and the peak measured now is {peak / 1e9:.4g}; "
        "delete the lines, or run it again when the cores are free"
    )
    return kept
