"""Primitives that inline every stage of a kind; usually the first step of a schedule.

They inline stages that no primitive has changed yet (no loop split, no place chosen) and that
`compute_inline` accepts. Outputs, reductions and operations with several outputs are not inlined,
nor are stages that a scan, a te.extern or an intrinsic call reads. An inlined stage is recomputed
wherever it is read.

The examples show `B[i] = A[i] + 1` and `C[i] = B[i] * 2` over 16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.te.operations.graph import feed_graph
from autosched.te.operations.operation import ComputeOp
from autosched.te.relations import AttachType
from autosched.te.schedule.placement import compute_inline
from autosched.tir.constants import is_one, is_zero
from autosched.tir.expr import ProducerLoad, Reduce, Var

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def auto_inline_elementwise(schedule: Schedule) -> list[Stage]:
    """Inline the stages that read tensors at their own indices only; returns them.

    Element [i, j] of such a stage comes from elements [i, j] of what it reads, as in
    `A[i, j] + B[i, j]`.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s.auto_inline_elementwise():
        for j in range(16):
            C[j] = (A[j] + 1.0) * 2.0
    """
    return _inline_all(schedule, is_elementwise)


def auto_inline_broadcast(schedule: Schedule) -> list[Stage]:
    """Inline element-wise and broadcasting stages; returns them.

    Every read of such a stage is at some of its own indices, in their order: `A[i, j] * b[j]`.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s.auto_inline_broadcast():
        for j in range(16):
            C[j] = (A[j] + 1.0) * 2.0
    """
    return _inline_all(schedule, is_broadcast)


def auto_inline_injective(schedule: Schedule) -> list[Stage]:
    """Inline all stages that are not reductions, whatever their reads look like; returns them.

    They include transpositions, padding and gathers.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after s.auto_inline_injective():
        for j in range(16):
            C[j] = (A[j] + 1.0) * 2.0
    """
    return _inline_all(schedule, is_injective)


def is_injective(op: ComputeOp) -> bool:
    """True when no output of `op` is a reduction."""
    return not any(isinstance(e, Reduce) for e in op.body)


def is_elementwise(op: ComputeOp) -> bool:
    """True when `op` is not a reduction and reads tensors at exactly its own indices."""
    own = tuple(iv.var for iv in op.axis)
    return is_injective(op) and all(load.indices == own for load in op.distinct_loads)


def is_broadcast(op: ComputeOp) -> bool:
    """True when `op` is not a reduction and reads tensors at some of its indices, in their order.

    Index 0 of a dimension with one element is allowed beside them.
    """
    places = {iv.var: k for k, iv in enumerate(op.axis)}
    return is_injective(op) and all(_in_order(load, places) for load in op.distinct_loads)


def _in_order(load: ProducerLoad, places: dict[Var, int]) -> bool:
    last = -1
    for index, extent in zip(load.indices, load.producer.shape, strict=True):
        place = places.get(index) if isinstance(index, Var) else None
        if place is None and is_zero(index) and is_one(extent):
            continue
        if place is None or place <= last:
            return False
        last = place
    return True


def _inline_all(schedule: Schedule, wanted: Callable[[ComputeOp], bool]) -> list[Stage]:
    feed = feed_graph(stage.op for stage in schedule.stages)
    around = {stage.attach_stage for stage in (*schedule.stages, *schedule.groups)}
    inlined = []
    for stage in schedule.stages:
        op = stage.op
        if not isinstance(op, ComputeOp) or len(op.body) != 1 or not wanted(op):
            continue
        if stage.is_output or stage in around or _is_scheduled(stage):
            continue
        if all(isinstance(reader, ComputeOp) for reader in feed.get(op.output(0), ())):
            compute_inline(stage)
            inlined.append(stage)
    return inlined


def _is_scheduled(stage: Stage) -> bool:
    """True when a primitive has changed the stage's loops, place or storage."""
    return bool(
        stage.relations
        or stage.iter_var_attrs
        or stage.attach_type is not AttachType.GROUP_ROOT
        or stage.leaf_iter_vars != list(stage.op.root_iter_vars)
        or stage.scope
        or stage.is_double_buffered
        or stage.store_predicate is not None
    )
