"""The errors of steps that a loop state refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.state.iterator import Iterator
from autosched.state.steps import Step

if TYPE_CHECKING:
    from autosched.state.state import State


def refusal(state: State, step: Step, reason: str) -> ScheduleError:
    """Make the error that says which step failed on which stage, and why; the caller raises it."""
    known = 0 <= step.stage_id < len(state.stages)
    stage = f" ({state.stages[step.stage_id].name})" if known else ""
    return ScheduleError(
        f"step {len(state.steps)} {type(step).__name__} on stage {step.stage_id}{stage}: {reason}"
    )


def iterator_of(state: State, step: Step, iter_id: int) -> Iterator:
    """Iterator `iter_id` of the stage that `step` applies to; ScheduleError when there is none."""
    iters = state.stages[step.stage_id].iters
    if not 0 <= iter_id < len(iters):
        raise refusal(state, step, f"iterator {iter_id} does not exist, the stage has {len(iters)}")
    return iters[iter_id]
