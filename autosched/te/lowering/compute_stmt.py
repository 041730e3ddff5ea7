"""The statement that computes one stage: loops, conditions and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.lowering.cross_thread_reduction import make_cross_thread_reduction
from autosched.te.lowering.loop_nest import (
    Building,
    Level,
    Values,
    guards,
    make_loop_nest,
    ragged_axes,
    substitution,
    wrap,
    wrap_all,
)
from autosched.te.lowering.reduction_update import assignments, split_point
from autosched.te.lowering.tensorize import make_tensorized, tensorized_position
from autosched.te.operations.conditions import in_turn, may_fail
from autosched.te.operations.operation import ComputeOp
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, IterKind, IterVar, Reduce, Var
from autosched.tir.op import likely
from autosched.tir.stmt import ProducerStore, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import substitute

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def make_compute_stmt(stage: Stage, op: ComputeOp, building: Building) -> Stmt:
    """The statement that computes all outputs of `op`, the operation of `stage`."""
    position = tensorized_position(stage)
    if position is not None:
        return make_tensorized(stage, op, building, position)
    if not isinstance(op.body[0], Reduce):
        return _make_map(stage, op, building)
    if _is_cross_thread(stage):
        return make_cross_thread_reduction(stage, op, building)
    return _make_reduction(stage, op, building)


def _is_cross_thread(stage: Stage) -> bool:
    bound = False
    for iv in stage.leaf_iter_vars:
        attr = stage.iter_var_attrs.get(iv)
        if iv.kind == IterKind.REDUCE:
            bound = bound or (attr is not None and attr.bind_thread is not None)
        elif bound:
            raise ScheduleError(
                f"schedule_ops: stage {stage.op.name}, axis {iv.var.name}: a data axis inside a "
                "reduction axis bound to threads; reorder the data axes outwards"
            )
    return bound


def main_conditions(stage: Stage, building: Building, values: Values) -> Level:
    """The open `if`s around the stores: bound checks marked likely, then the store predicate."""
    checks = make_bound_check(stage, building.domains, values, False, (), building.facts)
    if ragged_axes(stage, building.domains):
        checks = [substitute(c, substitution(values)) for c in checks]
    conditions = [likely(c) for c in checks]
    if stage.store_predicate is not None:
        conditions.append(substitute(stage.store_predicate, substitution(values)))
    return guards(conditions)


def stores(op: ComputeOp, elements: Sequence[Expr], table: dict[Var, Expr]) -> list[ProducerStore]:
    """One store for each output of `op`, of `elements` at the axes, with `table` substituted."""
    indices = tuple(substitute(iv.var, table) for iv in op.axis)
    return [
        ProducerStore(tensor, substitute(e, table), indices)
        for tensor, e in zip(op.outputs, elements, strict=True)
    ]


def _make_map(stage: Stage, op: ComputeOp, building: Building) -> Stmt:
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    body = seq(*stores(op, op.body, substitution(values)))
    nest.append(main_conditions(stage, building, values))
    return wrap_all(nest, body)


def _make_reduction(stage: Stage, op: ComputeOp, building: Building) -> Stmt:
    reduce = op.body[0]
    assert isinstance(reduce, Reduce)
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    table = substitution(values)
    common, skip = split_point(stage, op)
    update = wrap(
        [
            *main_conditions(stage, building, values),
            *_condition(substitute(reduce.condition, table)),
        ],
        substitute_stmt(assignments(op, reduce), table),
    )
    return wrap_all(
        nest[:common],
        seq(
            _make_init(stage, op, building, values, common, skip),
            wrap_all(nest[common:], update),
        ),
    )


def _make_init(
    stage: Stage,
    op: ComputeOp,
    building: Building,
    values: Values,
    common: int,
    skip: set[IterVar],
) -> Stmt:
    reduce = op.body[0]
    assert isinstance(reduce, Reduce)
    own = {iv: values[iv] for iv in stage.leaf_iter_vars[:common]}
    nest = make_loop_nest(stage, building, common, True, skip, own)
    start = reduce.init or reduce.combiner.identity
    # As in Ansor, elements outside of the declared domain are initialised too, unless computing
    # the start value there may fail.
    anywhere = not any(map(may_fail, start))
    checks = make_bound_check(stage, building.domains, own, anywhere, skip, building.facts)
    nest.append(guards([likely(c) for c in checks]))
    elements = [start[r.value_index] for r in op.body if isinstance(r, Reduce)]
    return wrap_all(nest, seq(*stores(op, elements, substitution(own))))


def _condition(condition: Expr) -> Level:
    return [] if is_one(condition) else guards(in_turn(condition))
