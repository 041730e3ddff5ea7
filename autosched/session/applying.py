"""Leave out records whose steps do not apply to their task: nothing can be built from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from autosched.errors import ConfigError, ScheduleError
from autosched.measure.records import Record
from autosched.measure.standing import best_of
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count, visible


class Applying:
    """Tells whether the steps of records apply to their tasks, and remembers those that do not.

    Such a record is of another version of autosched, or its line was edited. A task that cannot be
    rebuilt has none: whoever needs the task says why.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task | None] = {}
        self._number: Counter[str] = Counter()
        self._problem: dict[str, str] = {}

    def __call__(self, record: Record) -> bool:
        """Whether the steps apply. A record for which they do not is counted."""
        key = str(record.task["key"])
        if key not in self._tasks:
            self._tasks[key] = _rebuilt(record)
        task = self._tasks[key]
        problem = task and _problem(task, record)
        if not problem:
            return True
        self._number[key] += 1
        self._problem.setdefault(key, problem)
        return False

    def tell(self, path: Path | str, warning: Tell) -> None:
        """Call `warning` for each task of the file with records that were found, and forget them.

        They are those that would have been the best, or among those that are asked for.
        """
        for key, number in self._number.items():
            task = self._tasks[key]
            assert task is not None
            warning(
                f"{path}: {count(number, 'record')} of {task.name} passed over whose steps do not "
                f"apply to it ({visible(self._problem[key])}); delete the lines"
            )
        self._number.clear()


def applying(task: Task, records: Iterable[Record], warning: Tell) -> list[Record]:
    """The records of a task, without valid ones whose steps do not apply to it.

    All are looked for only if the best one is such a record.
    """
    known = list(records)
    best = best_of(known)
    if best is None or not _problem(task, best):
        return known
    kept = [r for r in known if not r.result.valid or not _problem(task, r)]
    warning(
        f"{task.name}: {count(len(known) - len(kept), 'record')} left out whose steps do not apply "
        f"to it, the best among them ({_problem(task, best)}); delete the lines"
    )
    return kept


def _rebuilt(record: Record) -> Task | None:
    try:
        return Task.from_json(record.task, to_run=False)
    except ConfigError:
        return None


def _problem(task: Task, record: Record) -> str:
    """Why the steps of a record do not apply; empty where they do."""
    try:
        task.dag.infer_bound_of(record.steps)
    except ScheduleError as error:
        return str(error)
    return ""
