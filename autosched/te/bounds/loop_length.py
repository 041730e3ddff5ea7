"""The largest number of iterations of a loop: its variable's type must be able to count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.tir.dtype import int32
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

MOST_ITERATIONS = int(int32.max_value)
"""The limit of a loop whose variable is an int32, as the loop variables of every task are."""


def can_count(iv: IterVar, length: int) -> bool:
    """Whether the type of the variable of `iv` can hold `length`."""
    return length <= iv.var.dtype.max_value


def length_error(stage: Stage, iv: IterVar, length: int, what: str, remedy: str) -> ScheduleError:
    """The error that `what` makes loop `iv` run `length` iterations; the caller raises it."""
    dtype = iv.var.dtype
    return ScheduleError(
        f"infer_bound: stage {stage.op.name}, loop {iv.var.name}: {what} makes {length} "
        f"iterations, expected at most {dtype.max_value}, which {dtype} can count; {remedy}"
    )
