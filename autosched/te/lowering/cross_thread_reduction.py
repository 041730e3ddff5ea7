"""Lowering of reductions that the threads of a block compute together.

for k.outer: if ...: normal_reduce_temp0[0] = combine(normal_reduce_temp0[0], source)
tvm_thread_allreduce(1, normal_reduce_temp0[0], True, reduce_temp0[0], threadIdx.x)
if threadIdx.x == 0: output[...] = reduce_temp0[0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.lowering.loop_nest import (
    Building,
    Level,
    Values,
    guards,
    make_loop_nest,
    ragged_axes,
    wrap,
    wrap_all,
)
from autosched.te.lowering.reduction_update import store_in_order
from autosched.te.operations.conditions import in_turn
from autosched.te.operations.operation import ComputeOp
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.constants import is_one
from autosched.tir.dtype import DType, handle
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, IterKind, IterVar, Reduce
from autosched.tir.op import const, eq
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    ProducerStore,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import combine, free_vars, substitute

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

_ZERO = (IntImm(0),)


def make_cross_thread_reduction(stage: Stage, op: ComputeOp, building: Building) -> Stmt:
    """The statement of a reduction that has at least one loop bound to threads.

    Ansor drops the guards on data axes, and those on a reduction all of whose loops are bound;
    here they are kept. ScheduleError for a reduction with an init, one bound to threads other than
    threadIdx, and one whose loops are fused with data axes.
    """
    reduces = [body for body in op.body if isinstance(body, Reduce)]
    if reduces[0].init:
        raise ScheduleError(
            f"schedule_ops: stage {op.name}: a reduction with init cannot be bound to threads"
        )
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    bound = _bound_reduction_axes(stage)
    _check_axes(stage, op, values, bound)
    common: list[Level] = []
    normal: list[Level] = []
    for iv, level in zip(stage.leaf_iter_vars, nest, strict=True):
        (normal if iv.kind == IterKind.REDUCE and iv not in bound else common).append(level)
    table = {iv.var: value for iv, value in values.items()}
    checks = make_bound_check(stage, building.domains, values, False, (), building.facts)
    if ragged_axes(stage, building.domains):
        checks = [substitute(c, table) for c in checks]
    condition = substitute(reduces[0].condition, table)
    if not is_one(condition):
        checks += in_turn(condition)
    sources = [substitute(r.source[r.value_index], table) for r in reduces]
    results = [
        decl_buffer((1,), r.dtype, f"reduce_temp{k}", "local") for k, r in enumerate(reduces)
    ]
    partial: list[Buffer] = []
    steps: list[Stmt] = []
    if normal or checks:
        partial = [
            decl_buffer((1,), r.dtype, f"normal_reduce_temp{k}", "local")
            for k, r in enumerate(reduces)
        ]
        steps = _accumulate(reduces, sources, partial, [*normal, guards(checks)])
        sources = [BufferLoad(buffer, _ZERO) for buffer in partial]
    steps.append(_allreduce(reduces[0], sources, results, list(bound.values())))
    steps.append(_store_results(stage, op, building, values, results, list(bound.values())))
    body = seq(*steps)
    for k in reversed(range(len(results))):
        body = _allocate(results[k], body)
        if partial:
            body = _allocate(partial[k], body)
    return wrap_all(common, body)


def _bound_reduction_axes(stage: Stage) -> dict[IterVar, IterVar]:
    bound: dict[IterVar, IterVar] = {}
    for iv in stage.leaf_iter_vars:
        attr = stage.iter_var_attrs.get(iv)
        if iv.kind == IterKind.REDUCE and attr is not None and attr.bind_thread is not None:
            bound[iv] = attr.bind_thread
    return bound


def _check_axes(stage: Stage, op: ComputeOp, values: Values, bound: dict[IterVar, IterVar]) -> None:
    """ScheduleError unless bound loops run on threadIdx and are not fused with data axes."""
    for iv, thread in bound.items():
        if not thread.thread_tag.startswith("threadIdx."):
            raise ScheduleError(
                f"schedule_ops: stage {op.name}, axis {iv.var.name} bound to {thread.thread_tag}: "
                "a reduction is shared by the threads of a block only; bind it to a threadIdx"
            )
    reducing = [values[iv] for iv in stage.leaf_iter_vars if iv.kind == IterKind.REDUCE]
    inside = {v for value in reducing for v in free_vars(value)}
    for iv in op.axis:
        if not inside.isdisjoint(free_vars(values[iv])):
            raise ScheduleError(
                f"schedule_ops: stage {op.name}, axis {iv.var.name}: it is fused with a reduction "
                "axis bound to threads, which would reduce different elements; fuse data axes and "
                "reduction axes apart"
            )


def _allocate(buffer: Buffer, body: Stmt) -> Stmt:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body)


def _accumulate(
    reduces: Sequence[Reduce],
    sources: Sequence[Expr],
    partial: Sequence[Buffer],
    nest: Sequence[Level],
) -> list[Stmt]:
    """The statements of one thread's part of the reduction: initialisation, then the loops."""
    combiner = reduces[0].combiner
    parts = [r.value_index for r in reduces]
    current: list[Expr] = list(combiner.lhs)
    source: list[Expr] = list(combiner.rhs)
    for k, part in enumerate(parts):
        current[part], source[part] = BufferLoad(partial[k], _ZERO), sources[k]
    combined = combine(combiner, tuple(current), tuple(source))
    init: list[Stmt] = [
        BufferStore(buffer, combiner.identity[k], _ZERO)
        for buffer, k in zip(partial, parts, strict=True)
    ]
    updates = [
        BufferStore(buffer, combined[k], _ZERO) for buffer, k in zip(partial, parts, strict=True)
    ]
    return [*init, wrap_all(nest, store_in_order(updates, [current[k] for k in parts]))]


def _allreduce(
    reduce: Reduce, sources: Sequence[Expr], results: Sequence[Buffer], threads: list[IterVar]
) -> Stmt:
    arguments: tuple[Expr, ...] = (
        const(len(results), DType("uint32")),
        *sources,
        TRUE,
        *(BufferLoad(buffer, _ZERO) for buffer in results),
        *(thread.var for thread in threads),
    )
    call = Evaluate(Call(handle, "tvm_thread_allreduce", arguments))
    return AttrStmt(reduce.combiner, "reduce_scope", IntImm(0), call)


def _store_results(
    stage: Stage,
    op: ComputeOp,
    building: Building,
    values: Values,
    results: Sequence[Buffer],
    threads: list[IterVar],
) -> Stmt:
    """The statement in which the first thread stores the results within the data axes' bounds."""
    reducing = {iv for iv in stage.all_iter_vars if iv.kind == IterKind.REDUCE}
    conditions = make_bound_check(stage, building.domains, values, False, reducing, building.facts)
    table = {iv.var: value for iv, value in values.items()}
    if stage.store_predicate is not None:
        conditions.append(substitute(stage.store_predicate, table))
    conditions += [eq(thread.var, const(0, thread.var.dtype)) for thread in threads]
    indices = tuple(iv.var for iv in op.axis)
    stores = [
        ProducerStore(tensor, BufferLoad(buffer, _ZERO), indices)
        for tensor, buffer in zip(op.outputs, results, strict=True)
    ]
    return wrap(guards(conditions), substitute_stmt(seq(*stores), table))
