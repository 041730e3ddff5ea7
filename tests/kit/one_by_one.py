"""The feature rows of a single candidate, in both feature sets."""

from __future__ import annotations

from autosched.driver import lower_for_features
from autosched.errors import ScheduleError
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, AUTOSCHED_1, Rows, feature_set
from autosched.state.steps import Step
from autosched.task import Task

SETS = (ANSOR, AUTOSCHED_1)


def rows_of_both(task: Task, steps: tuple[Step, ...]) -> dict[str, Rows | None]:
    """The rows of `rows_of_steps` for each feature set; None for an illegal candidate.

    The check of the GPU limits, which is half of the time, is the same for both sets and is done
    once.
    """
    try:
        rows = rows_of_steps(task.dag, steps, task.target, ANSOR)
    except ScheduleError:
        return {ANSOR: None, AUTOSCHED_1: None}
    features = feature_set(AUTOSCHED_1)
    func = lower_for_features(task.dag, steps, task.target, features.as_ansor, verified=False)
    values, buffers = features.with_buffers(func, task.target)
    return {ANSOR: rows, AUTOSCHED_1: Rows(values, tuple(buffers))}
