"""Errors of schedule primitives: the common form of messages, and checks that many share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.errors import ScheduleError
from autosched.te.operations.operation import Operation
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

_THREAD_TAGS = frozenset(
    [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"]
    + ["vthread", "vthread.x", "vthread.y", "vthread.z", "cthread"]
)


def refusal(
    primitive: str, stage: Stage | Operation | str, axis: IterVar | str | None, why: str
) -> ScheduleError:
    """The ScheduleError `primitive: stage S, axis i: why`, which the caller raises."""
    name = stage if isinstance(stage, str) else getattr(stage, "name", "?")
    if isinstance(axis, IterVar):
        axis = axis.var.name
    at = "" if axis is None or axis == "" else f", axis {axis}"
    return ScheduleError(f"{primitive}: stage {name}{at}: {why}")


def names(axes: Iterable[IterVar]) -> str:
    """The names of the axes as a bracketed list, for messages."""
    return "[" + ", ".join(iv.var.name for iv in axes) + "]"


def leaf_position(primitive: str, stage: Stage, iv: IterVar) -> int:
    """The position of `iv` among the leaf loops; ScheduleError when it is not one of them."""
    if not isinstance(iv, IterVar):
        raise refusal(primitive, stage, None, f"expected an axis, found {iv!r}")
    place = stage.leaf_place(iv)
    if place is not None:
        return place
    if iv in stage.all_iter_vars:
        why = "it has been split or fused already"
    else:
        why = "it is not an axis of this stage"
    raise refusal(primitive, stage, iv, f"{why}; its loops are {names(stage.leaf_iter_vars)}")


def check_kind(primitive: str, stage: Stage, iv: IterVar, allowed: Iterable[str]) -> None:
    """ScheduleError unless the kind of `iv` is one of `allowed`."""
    kinds = tuple(allowed)
    if iv.kind not in kinds:
        raise refusal(
            primitive, stage, iv, f"a {iv.kind} axis, only {', '.join(kinds)} axes are allowed"
        )


def check_thread_tag(primitive: str, stage: Stage, iv: IterVar, thread: IterVar) -> None:
    """ScheduleError unless `thread`, to which axis `iv` is to be bound, has a known thread tag."""
    if thread.thread_tag not in _THREAD_TAGS:
        known = ", ".join(sorted(_THREAD_TAGS))
        why = f"unknown thread tag {thread.thread_tag!r}; the tags are {known}"
        raise refusal(primitive, stage, iv, why)


def check_tensor(primitive: str, tensor: object) -> None:
    """ScheduleError unless `tensor` is a tensor."""
    if not isinstance(tensor, Tensor):
        why = f"{primitive}: expected a tensor, {found(tensor)}"
        if isinstance(tensor, Operation):
            why += "; those of an operation are its `outputs`"
        raise ScheduleError(why)
