"""Lowering of stages whose inner loops a tensor intrinsic replaces.

    for i: for j.outer: <intrinsic on C[i, j.outer*8 : +8], A[i, ...], ...>

Over the tensorized loops, the stage must compute what the intrinsic computes: the last axes of the
stage's region stand for the intrinsic's axes, and values that are invariant in these loops stand
for its scalar parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.arith import IntSet
from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import make_bound_check
from autosched.te.bounds.message_passing import pass_up_domain
from autosched.te.bounds.region import Regions
from autosched.te.lowering.intrin_calls import around_loops, bind_all, conditions_of
from autosched.te.lowering.loop_nest import Building, Values, make_loop_nest
from autosched.te.lowering.tensorize_match import Match
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.expr import IterKind, IterVar, Range
from autosched.tir.stmt import Stmt
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.tiles import SCOPE
from autosched.tir.walk import uses

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def tensorized_position(stage: Stage) -> int | None:
    """The position of the tensorized loop among the leaf loops; None when there is none."""
    for position, iv in enumerate(stage.leaf_iter_vars):
        attr = stage.iter_var_attrs.get(iv)
        if attr is not None and attr.iter_kind == IterKind.TENSORIZED:
            return position
    return None


def make_tensorized(stage: Stage, op: ComputeOp, building: Building, position: int) -> Stmt:
    """The statement of a stage whose leaf loops from `position` inwards are tensorized.

    ScheduleError when the loops do not compute what the intrinsic computes, or need a guard inside
    of it.
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
        if uses(check, inner):
            raise ScheduleError(
                f"{where}: the condition {check!r} would be needed inside the intrinsic"
            )
    match = Match(op, intrin, _inner_domains(stage, building, values, position), where)
    if any(buffer.scope == SCOPE for buffer in intrin.buffers[len(intrin.inputs) :]):
        _check_one_block(op, building, match, where)

    def bind(_: Values, body: Stmt) -> Stmt:
        return bind_all(match.bindings(), substitute_stmt(body, match.scalars))

    def bind_outputs(own: Values, body: Stmt) -> Stmt:
        region = _inner_domains(stage, building, own, position)
        return bind_all(match.output_bindings(region), substitute_stmt(body, match.scalars))

    return around_loops(
        stage,
        op,
        building,
        intrin,
        position,
        nest,
        values,
        conditions_of(stage, checks, values),
        bind,
        bind_outputs,
        where,
    )


def _check_one_block(op: ComputeOp, building: Building, match: Match, where: str) -> None:
    """ScheduleError where several blocks of sums would have to stay in the tiles."""
    for iv in op.axis:
        all_of, one = building.domains[iv].extent, match.region[iv].extent
        if not match.analyzer.can_prove_equal(all_of, one):
            raise ScheduleError(
                f"{where}: axis {iv.var.name} has extent {all_of!r}, the block of sums that fits "
                f"the tiles {one!r}; compute {op.name} at the loop in which its block is stored"
            )


def _inner_domains(
    stage: Stage, building: Building, values: Values, position: int
) -> dict[IterVar, Range]:
    """The range of each root axis within one execution of the tensorized loops."""
    domains = building.domains
    sets: dict[IterVar, IntSet] = {}
    for k, iv in enumerate(stage.leaf_iter_vars):
        point = k < position
        sets[iv] = IntSet.single_point(values[iv]) if point else IntSet.from_range(domains[iv])
    pass_up_domain(stage, domains, sets)
    regions = Regions()
    return {iv: regions.cover(sets[iv], domains[iv]) for iv in stage.op.root_iter_vars}
