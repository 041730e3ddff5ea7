"""How many iterations a loop may have: its variable must be able to count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.tir.dtype import int32
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

MOST_ITERATIONS = int(int32.max_value)
"""Of a loop whose variable is an int32, as those of every task are."""


def can_count(iv: IterVar, length: int) -> bool:
    """Whether the variable of `iv` has `length` among its values."""
    return length <= iv.var.dtype.max_value


def too_long(stage: Stage, iv: IterVar, length: int, what: str, remedy: str) -> ScheduleError:
    """The error that `what` made a loop of so many iterations (raise it)."""
    dtype = iv.var.dtype
    return ScheduleError(
        f"infer_bound: stage {stage.op.name}, loop {iv.var.name}: {what} makes {length} "
        f"iterations, expected at most {dtype.max_value}, which {dtype} can count; {remedy}"
    )
