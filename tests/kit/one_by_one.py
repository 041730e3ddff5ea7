"""The feature rows of a single candidate, which batches of them are compared with."""

from __future__ import annotations

from autosched.driver import lower_for_features
from autosched.errors import ScheduleError
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, AUTOSCHED_1, Rows, feature_set
from autosched.state.steps import Step
from autosched.task import Task

SETS = (ANSOR, AUTOSCHED_1)


def rows_of_one(
    task: Task, steps: tuple[Step, ...], features: str, ansor_limits: bool = True
) -> Rows | None:
    """The rows of `rows_of_steps`; None for an illegal candidate."""
    try:
        return rows_of_steps(task.dag, steps, task.target, features, ansor_limits)
    except ScheduleError:
        return None


def bits(rows: Rows | None) -> object:
    """What is equal for rows that do not differ by a bit."""
    return None if rows is None else (rows.values.shape, rows.values.tobytes(), rows.buffers)


def rows_of_both(task: Task, steps: tuple[Step, ...]) -> dict[str, Rows | None]:
    """The rows of `rows_of_steps` for each feature set; None for an illegal candidate.

    The check of the GPU limits, which is half of the time, is the same for both sets and is done
    once.
    """
    rows = rows_of_one(task, steps, ANSOR)
    if rows is None:
        return {ANSOR: None, AUTOSCHED_1: None}
    features = feature_set(AUTOSCHED_1)
    func = lower_for_features(task.dag, steps, task.target, features.as_ansor, verified=False)
    values, buffers = features.with_buffers(func, task.target)
    return {ANSOR: rows, AUTOSCHED_1: Rows(values, tuple(buffers))}
