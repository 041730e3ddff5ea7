"""Leave out records whose times are impossible, because they are forged or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.measure.plausible import ABOVE_PEAK, has_rate, least_of, least_operations
from autosched.measure.records import Record
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count

if TYPE_CHECKING:  # commands that only read records do not load what measures
    from autosched.measure.measurer import Measurer


class Doubts:
    """Finds the records of a file with impossible times: shorter than any kernel can take."""

    def __init__(self) -> None:
        self._least: dict[str, float] = {}
        self._fastest: dict[str, float] = {}
        self._doubted: Counter[str] = Counter()

    def about(self, record: Record) -> bool:
        """Whether the record is not believed, which is counted. Failures are always believed."""
        key = record.task["key"]
        if key not in self._least:
            self._least[key] = least_of(record.task)
        cost = record.result.cost
        if cost >= self._least[key]:
            return False
        self._doubted[key] += 1
        self._fastest[key] = min(cost, self._fastest.get(key, cost))
        return True

    def tell(self, path: Path, warning: Tell) -> None:
        """Call `warning` for each task of the file with records that were not believed."""
        for key, number in self._doubted.items():
            warning(
                f"{path}: {count(number, 'record')} of task {key} not believed and left out: "
                f"{self._fastest[key]:.3g} s a call, and no kernel of it takes less than "
                f"{self._least[key]:.3g} s; delete the lines"
            )


def believed(path: Path, records: Iterable[Record], warning: Tell) -> list[Record]:
    """The records without those of impossible times, for which `warning` is called.

    Failures stay. Where the best record is left out, the next best one takes its place.
    """
    doubts = Doubts()
    kept = [record for record in records if not doubts.about(record)]
    doubts.tell(path, warning)
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
