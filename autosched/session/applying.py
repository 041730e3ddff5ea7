"""Leave out records whose steps no longer apply to their task."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.errors import ScheduleError
from autosched.measure.records import Record
from autosched.measure.standing import best_of
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count


def applying(task: Task, records: Iterable[Record], warning: Tell) -> list[Record]:
    """The records of a task, without valid ones whose steps do not apply to it.

    Such a record is of another version of autosched, or its line was edited, and nothing can be
    built from it. All are looked for only if the best one is such a record.
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


def _problem(task: Task, record: Record) -> str:
    """Why the steps of a record do not apply; empty where they do."""
    try:
        task.dag.infer_bound_of(record.steps)
    except ScheduleError as error:
        return str(error)
    return ""
