"""Adaptation of steps that were tuned for one shape of an operator to another shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import AutoschedError, ConfigError, ScheduleError
from autosched.export.candidate import Candidate
from autosched.state.steps import SplitStep, Step
from autosched.task import Task
from autosched.workloads.workload import shape_of

Accept = Callable[[Candidate], None]
"""Raises AutoschedError for a candidate that cannot be built or computes wrong results."""


def nearest(wanted: Task, tuned: Sequence[Candidate], accept: Accept) -> Candidate:
    """A candidate for `wanted`: the adapted steps of the nearest of `tuned` that is legal for it.

    Shapes are near if their extents differ by small factors (`distance`). Raises ConfigError, with
    the reasons, if none is accepted.
    """
    reasons = []
    for candidate in sorted(tuned, key=lambda c: distance(wanted, c.task)):
        try:
            steps = adapted(wanted, candidate.steps)
            found = Candidate(wanted, steps, "", tuned_for=candidate.task.name)
            accept(found)
        except AutoschedError as error:
            reasons.append(f"that of {candidate.task.name}: {error}")
            continue
        return found
    raise ConfigError(f"no tuned schedule is legal for {wanted.name}: {'; '.join(reasons)}")


def distance(a: Task, b: Task) -> float:
    """The sum over all dimensions of all arrays of |log(ratio of the extents)|."""
    total = 0.0
    for x, y in zip(a.tensors, b.tensors, strict=True):
        pairs = zip(shape_of(x), shape_of(y), strict=True)
        total += sum(abs(math.log(p / q)) for p, q in pairs)
    return total


def adapted(task: Task, steps: Iterable[Step]) -> tuple[Step, ...]:
    """`steps` with the split extents of `task`'s loops. Raises ScheduleError if they do not fit.

    SP 2 0 512 [8, 16]    SP 2 0 500 [8, 16]
    """
    state = task.dag.init_state
    found: list[Step] = []
    for step in steps:
        try:
            if isinstance(step, SplitStep):
                iterator = state.stages[step.stage_id].iters[step.iter_id]
                step = replace(step, extent=iterator.extent)
            state = state.apply(step)
        except IndexError:
            raise ScheduleError(f"{step} names a loop that {task.name} does not have") from None
        found.append(step)
    return tuple(found)


def other_shape(task: Task, sizes: Mapping[str, int]) -> Task:
    """The task of the same built-in operator with other sizes.

    Raises ConfigError for a workload without named sizes, and for an unknown name.
    """
    workload: dict[str, Any] = task.workload.to_json()
    args = workload.get("args")
    if not isinstance(args, dict):
        raise ConfigError(
            f"{task.name} is not a built-in operator; only those can be built for other shapes"
        )
    unknown = [name for name in sizes if name not in args]
    if unknown:
        raise ConfigError(f"{unknown[0]}: {task.name} has {', '.join(args)}")
    other = Task.from_json_workload(
        {**workload, "args": {**args, **sizes}}, task.target, task.layout
    )
    return replace(other, chosen_inputs=task.chosen_inputs, lowering=task.lowering)
