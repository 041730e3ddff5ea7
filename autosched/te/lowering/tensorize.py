"""Stages whose inner loops are done by a tensor intrinsic.

    for i: for j.outer: <intrinsic on C[i, j.outer*8 : +8], A[i, ...], ...>

The stage's body over the tensorized loops must be the intrinsic's, with its axes for the last
axes of the region.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from autosched.arith import IntSet
from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.bounds.message_passing import pass_up_domain
from autosched.te.bounds.region import Regions
from autosched.te.lowering.buffer_binding import bind_scope
from autosched.te.lowering.loop_nest import (
    Building,
    Values,
    guards,
    make_loop_nest,
    substitution,
    wrap_all,
)
from autosched.te.lowering.reduction_update import split_point
from autosched.te.lowering.tensorize_match import Match
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.buffer import Buffer
from autosched.tir.expr import IntImm, IterKind, IterVar, Range
from autosched.tir.op import all_, const, eq, likely
from autosched.tir.stmt import IfThenElse, Stmt, nop, seq
from autosched.tir.walk import free_vars, substitute

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def tensorized_position(stage: Stage) -> int | None:
    """The position of the tensorized loop among the leaves, None when there is none."""
    for position, iv in enumerate(stage.leaf_iter_vars):
        attr = stage.iter_var_attrs.get(iv)
        if attr is not None and attr.iter_kind == IterKind.TENSORIZED:
            return position
    return None


def make_tensorized(stage: Stage, op: ComputeOp, building: Building, position: int) -> Stmt:
    """The statement of a stage tensorized from loop `position` inwards.

    ScheduleError when the loops do not compute what the intrinsic does, or only partly.
    """
    leaves = stage.leaf_iter_vars
    axis = leaves[position]
    intrin = stage.iter_var_attrs[axis].tensor_intrin
    assert isinstance(intrin, TensorIntrin)
    where = f"tensorize: stage {op.name}, axis {axis.var.name}, intrinsic {intrin.name}"
    values: Values = {}
    nest = make_loop_nest(stage, building, 0, False, (), values)
    for iv in leaves[position:]:
        building.markers.pop(iv, None)
    checks = make_bound_check(stage, building.domains, values, False, (), building.facts)
    inner = {iv.var for iv in leaves[position:]}
    for check in checks:
        if not free_vars(check).isdisjoint(inner):
            raise ScheduleError(f"{where}: {check!r} would be needed inside the intrinsic")
    conditions = [likely(check) for check in checks]
    if stage.store_predicate is not None:
        conditions.append(substitute(stage.store_predicate, substitution(values)))
    match = Match(op, intrin, _inner_domains(stage, building, values, position), where)
    body = bind_all(match.bindings(), intrin.body)
    common, reducing = split_point(stage, op)
    outside = [iv for iv in leaves[common:position] if iv in reducing and not _is_one(building, iv)]
    if not outside:
        return wrap_all([*nest[:position], guards(conditions)], body)
    if intrin.reduce_update is None:
        raise ScheduleError(
            f"{where}: the reduction goes on outside of the intrinsic, which has no reduce_update"
        )
    update = bind_all(match.bindings(), intrin.reduce_update)
    if intrin.reduce_init is None:
        first = all_(*(eq(values[iv], const(0, iv.var.dtype)) for iv in outside))
        update = IfThenElse(first, body, update)
    init: Stmt = nop()
    if intrin.reduce_init is not None:
        own = {iv: values[iv] for iv in leaves[:common]}
        init_nest = make_loop_nest(stage, building, common, True, reducing, own)
        checks = make_bound_check(stage, building.domains, own, True, reducing, building.facts)
        region = _inner_domains(stage, building, own, position)
        init = wrap_all(
            [*init_nest[: position - common], guards([likely(check) for check in checks])],
            bind_all(match.output_bindings(region), intrin.reduce_init),
        )
    rest = wrap_all([*nest[common:position], guards(conditions)], update)
    return wrap_all(nest[:common], seq(init, rest))


def _is_one(building: Building, iv: IterVar) -> bool:
    extent = building.domains[iv].extent
    return isinstance(extent, IntImm) and extent.value == 1


def bind_all(bindings: Iterable[tuple[Buffer, Tensor, Sequence[Range]]], body: Stmt) -> Stmt:
    """`body` with the intrinsic's buffers standing for regions of tensors."""
    for declared, tensor, region in bindings:
        body = bind_scope(declared, tensor, region, body)
    return body


def _inner_domains(
    stage: Stage, building: Building, values: Values, position: int
) -> dict[IterVar, Range]:
    """The part of each root axis that the tensorized loops run through."""
    domains = building.domains
    sets: dict[IterVar, IntSet] = {}
    for k, iv in enumerate(stage.leaf_iter_vars):
        point = k < position
        sets[iv] = IntSet.single_point(values[iv]) if point else IntSet.from_range(domains[iv])
    pass_up_domain(stage, domains, sets)
    regions = Regions()
    return {iv: regions.cover(sets[iv], domains[iv]) for iv in stage.op.root_iter_vars}
