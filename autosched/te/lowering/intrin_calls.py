"""Lowering of tensor intrinsics: their statements inside the loops of a stage.

    for i: for k: <intrinsic on C[i, 0:8], A[i, 0:8], ...>

Serves operations that call an intrinsic in te.compute, and stages whose inner loops are replaced by
an intrinsic (`tensorize.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.bounds.thread_scope import is_virtual_thread
from autosched.te.lowering.buffer_binding import bind_scope, whole
from autosched.te.lowering.loop_nest import (
    Building,
    Level,
    Values,
    guards,
    make_loop_nest,
    substitution,
    wrap_all,
)
from autosched.te.lowering.reduction_update import split_point
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, IterKind, IterVar, Range
from autosched.tir.op import all_, const, eq, likely
from autosched.tir.stmt import IfThenElse, Stmt, nop, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import substitute

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

Bound = tuple[Buffer, Tensor, Sequence[Range]]
Bind = Callable[[Values, Stmt], Stmt]
"""Binds the buffers of an intrinsic's statement to tensor regions, given the values of the axes."""


def bind_all(bindings: Iterable[Bound], body: Stmt) -> Stmt:
    """`body` inside an attribute for each binding of a declared buffer to a tensor region."""
    for declared, tensor, region in bindings:
        body = bind_scope(declared, tensor, region, body)
    return body


def conditions_of(stage: Stage, checks: Sequence[Expr], values: Values) -> list[Expr]:
    """The guards of a stage: the bound `checks`, marked likely, then its store predicate."""
    conditions = [likely(check) for check in checks]
    if stage.store_predicate is not None:
        conditions.append(substitute(stage.store_predicate, substitution(values)))
    return conditions


def around_loops(
    stage: Stage,
    op: ComputeOp | TensorComputeOp,
    building: Building,
    intrin: TensorIntrin,
    position: int,
    nest: list[Level],
    values: Values,
    conditions: Sequence[Expr],
    bind: Bind,
    bind_outputs: Bind,
    where: str,
) -> Stmt:
    """The intrinsic's statements inside the first `position` loops of `nest`.

    Without reduction loops among these, it is the intrinsic's body alone. Otherwise reduce_init
    comes before the reduction loops and reduce_update inside of them; an intrinsic without
    reduce_init runs its body in their first iteration instead. ScheduleError, beginning with
    `where`, when one of these loops is bound to threads, when the intrinsic has no reduce_update,
    or no reduce_init where one of these loops was fused of data and reduction axes.
    """
    leaves = stage.leaf_iter_vars
    common, reducing = split_point(stage, op)
    outside = _reduction_loops(stage, building, position, where)
    if not outside:
        return wrap_all([*nest[:position], guards(conditions)], bind(values, intrin.body))
    if intrin.reduce_update is None:
        raise ScheduleError(
            f"{where}: the reduction goes on outside of the intrinsic, which has no reduce_update"
        )
    update = bind(values, intrin.reduce_update)
    if intrin.reduce_init is None:
        mixed = next((iv for iv in outside if iv not in reducing), None)
        if mixed is not None:
            raise ScheduleError(
                f"{where}: loop {mixed.var.name} was fused of data and reduction axes, so that its "
                "first iteration does not begin every element, and the intrinsic has no "
                "reduce_init; fuse data axes with data axes only"
            )
        first = all_(*(eq(values[iv], const(0, iv.var.dtype)) for iv in outside))
        update = IfThenElse(first, bind(values, intrin.body), update)
    init: Stmt = nop()
    if intrin.reduce_init is not None:
        own = {iv: values[iv] for iv in leaves[:common]}
        init_nest = make_loop_nest(stage, building, common, True, reducing, own)
        checks = make_bound_check(stage, building.domains, own, True, reducing, building.facts)
        init = wrap_all(
            [*init_nest[: position - common], guards([likely(check) for check in checks])],
            bind_outputs(own, intrin.reduce_init),
        )
    rest = wrap_all([*nest[common:position], guards(conditions)], update)
    return wrap_all(nest[:common], seq(init, rest))


def _reduction_loops(stage: Stage, building: Building, position: int, where: str) -> list[IterVar]:
    """The reduction loops among the first `position` that run more than once.

    ScheduleError, beginning with `where`, when one of them is bound to threads.
    """
    found = [
        iv
        for iv in stage.leaf_iter_vars[:position]
        if iv.kind == IterKind.REDUCE and not is_one(building.domains[iv].extent)
    ]
    for iv in found:
        attr = stage.iter_var_attrs.get(iv)
        thread = attr.bind_thread if attr is not None else None
        if thread is not None and not is_virtual_thread(thread.thread_tag):
            raise ScheduleError(
                f"{where}: reduction axis {iv.var.name} is bound to threads, which cannot combine "
                "what the intrinsic computes; bind a data axis"
            )
    return found


def make_intrin_calls(stage: Stage, op: TensorComputeOp, building: Building) -> Stmt:
    """The statement of a stage whose operation is a call of a tensor intrinsic.

    ScheduleError for reductions bound to threads and for loops that cannot contain the call.
    """
    intrin = op.call.intrin
    where = f"schedule_ops: stage {op.name}, intrinsic {intrin.name}"
    for iv in stage.leaf_iter_vars:
        attr = stage.iter_var_attrs.get(iv)
        if attr is None:
            continue
        if attr.iter_kind in (IterKind.TENSORIZED, IterKind.VECTORIZED):
            raise ScheduleError(
                f"{where}: loop {iv.var.name} is {attr.iter_kind}, but it contains the intrinsic; "
                "leave it serial, parallel or unrolled"
            )
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    checks = make_bound_check(stage, building.domains, values, False, (), building.facts)

    def bind(values: Values, body: Stmt) -> Stmt:
        call = op.call.map(lambda e: substitute(e, substitution(values)))
        pairs = zip(call.regions, intrin.buffers, strict=False)
        inputs = [(buffer, region.tensor, region.ranges) for region, buffer in pairs]
        return bind_outputs(values, bind_all(inputs, body))

    def bind_outputs(values: Values, body: Stmt) -> Stmt:
        call = op.call.map(lambda e: substitute(e, substitution(values)))
        body = substitute_stmt(body, dict(zip(intrin.scalar_params, call.scalars, strict=True)))
        return bind_all(_outputs(op, values), body)

    return around_loops(
        stage,
        op,
        building,
        intrin,
        len(stage.leaf_iter_vars),
        nest,
        values,
        conditions_of(stage, checks, values),
        bind,
        bind_outputs,
        where,
    )


def _outputs(op: TensorComputeOp, values: Values) -> list[Bound]:
    """The binding of each output buffer of the intrinsic to the region that one call fills."""
    point = [Range.of(const(1, iv.var.dtype), values[iv]) for iv in op.axis]
    buffers = op.call.intrin.buffers[len(op.call.regions) :]
    return [
        (buffer, tensor, (*point, *whole(tensor)[len(point) :]))
        for tensor, buffer in zip(op.outputs, buffers, strict=True)
    ]
