"""Builds the loop nest of one stage as statements whose bodies are still open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.attach_path import Scans
from autosched.te.bounds.bound_check import BoundFacts, make_bound_check
from autosched.te.bounds.message_passing import pass_up_index
from autosched.te.bounds.thread_scope import WARP, is_virtual_thread, scope_name, thread_rank
from autosched.te.lowering.stage_memory import filled_rank
from autosched.te.operations.operation import ComputeOp
from autosched.te.relations import IterVarAttr
from autosched.tir.constants import is_one, is_zero
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range, Var
from autosched.tir.op import add, all_, cast, const, if_then_else
from autosched.tir.stmt import AttrStmt, For, ForKind, IfThenElse, Stmt, nop
from autosched.tir.walk import free_vars, loads, substitute

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

Domains = dict[IterVar, Range]
Values = dict[IterVar, Expr]
Level = list[AttrStmt | For | IfThenElse]

_NO_ATTR = IterVarAttr()
_KINDS = {
    IterKind.UNROLLED: ForKind.UNROLLED,
    IterKind.VECTORIZED: ForKind.VECTORIZED,
    IterKind.PARALLELIZED: ForKind.PARALLEL,
}


@dataclass(slots=True)
class Building:
    """The state that all stages share while the statement of a schedule is built.

    `domains` are the domains of all itervars, `facts` proofs about them. `scans` maps operations
    that compute first steps to the stages of their scans. `markers` maps each loop built so far to
    the attribute inside of it, where attached stages are inserted. `values` maps variables without
    a loop of their own to their values: variables of loops of extent 1, of loops that do not start
    at 0, and of loops bound to threads.
    """

    domains: Domains
    facts: BoundFacts
    scans: Scans = field(default_factory=dict)
    markers: dict[object, AttrStmt] = field(default_factory=dict)
    values: dict[Var, Expr] = field(default_factory=dict)

    def let(self, var: Var, value: Expr) -> None:
        """Record `value` as that of `var`, which has no loop, with known variables substituted."""
        self.values[var] = substitute(value, self.values)


def wrap(level: Sequence[AttrStmt | For | IfThenElse], body: Stmt) -> Stmt:
    """`body` inside the statements of `level`, the first one outermost; sets their bodies."""
    for stmt in reversed(level):
        if isinstance(stmt, IfThenElse):
            stmt.then_case = body
        else:
            stmt.body = body
        body = stmt
    return body


def wrap_all(levels: Iterable[Level], body: Stmt) -> Stmt:
    """`body` inside the statements of all levels, the first level outermost."""
    return wrap([stmt for level in levels for stmt in level], body)


def guards(conditions: Iterable[Expr]) -> Level:
    """An `if` with open body for every condition."""
    return [IfThenElse(condition, nop()) for condition in conditions]


def make_loop_nest(
    stage: Stage,
    building: Building,
    first: int,
    is_init: bool,
    skip: Collection[IterVar],
    values: Values,
) -> list[Level]:
    """The leaf loops of `stage` from position `first` on: one level of open statements for each.

    `values` receives the values of these loops, and then of all axes that they derive from. With
    `is_init`, for the initialisation of a reduction, the loops get fresh variables and no markers.
    Loops in `skip` get an empty level.
    """
    nest: list[Level] = []
    attrs = stage.iter_var_attrs
    for iv in stage.leaf_iter_vars[first:]:
        level: Level = []
        if iv in skip or iv.kind == IterKind.OPAQUE:
            values[iv] = iv.var
            nest.append(level)
            continue
        attr = attrs.get(iv, _NO_ATTR)
        thread = attr.bind_thread or iv
        dom = building.domains[iv]
        if not thread.thread_tag:
            values[iv] = _loop(iv, attr, dom, level, building, is_init)
        else:
            if not ragged_axes(stage, building.domains).isdisjoint(free_vars(dom.extent)):
                raise ScheduleError(
                    f"schedule_ops: stage {stage.op.name}, axis {iv.var.name}: its extent "
                    f"{dom.extent!r} depends on another axis, so that no number of threads can "
                    f"be bound to it; split it and bind the part of constant extent"
                )
            values[iv] = _thread(stage, iv, thread, level, building)
            if thread is not iv:
                building.let(iv.var, add(dom.min, cast(iv.var.dtype, thread.var)))
        if not is_init:
            marker = AttrStmt(iv, "loop_scope", iv.var, nop())
            building.markers[iv] = marker
            level.append(marker)
        nest.append(level)
    pass_up_index(stage, building.domains, values)
    _resolve_ragged(stage, building, nest, values)
    return nest


def ragged_axes(stage: Stage, domains: Domains) -> frozenset[Var]:
    """The data axes that the domains of the reduction axes mention; empty if it is not ragged."""
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        return frozenset()
    mentioned: set[Var] = set()
    for iv in op.reduce_axis:
        for dom in (domains[iv], iv.dom):  # that in the loops around, and that in the axes
            mentioned |= free_vars(dom.min) | free_vars(dom.extent) if dom else frozenset()
    return frozenset(iv.var for iv in op.axis if iv.var in mentioned)


def _resolve_ragged(stage: Stage, building: Building, nest: list[Level], values: Values) -> None:
    """Rewrite the extents of a ragged reduction's loops in terms of the loops around them.

    ScheduleError when such a loop is not inside all the loops that its extent depends on.
    """
    ragged = ragged_axes(stage, building.domains)
    if not ragged:
        return
    table = {v: e for v, e in substitution(values).items() if v in ragged}
    for iv, value in values.items():
        if iv.var not in ragged:
            values[iv] = substitute(value, table)
    inner: set[Var] = set()
    for iv, level in zip(reversed(stage.leaf_iter_vars), reversed(nest)):
        for stmt in level:
            if isinstance(stmt, For):
                inner.add(stmt.loop_var)
                extent = substitute(stmt.extent, table)
                if extent is not stmt.extent and next(loads(extent), None) is not None:
                    extent = _where_inside(stage, building, values, extent)
                if not inner.isdisjoint(free_vars(extent)):
                    raise ScheduleError(
                        f"schedule_ops: stage {stage.op.name}, axis {iv.var.name}: its extent "
                        f"{extent!r} depends on a loop that is not around it; reorder that loop "
                        "outwards, and fuse neither with the other"
                    )
                stmt.extent = extent


def _where_inside(stage: Stage, building: Building, values: Values, extent: Expr) -> Expr:
    """`extent`, which loads memory, or 0 where the data axes are outside of their domain."""
    reducing = [iv for iv in stage.all_iter_vars if iv.kind == IterKind.REDUCE]
    checks = make_bound_check(stage, building.domains, values, False, reducing, building.facts)
    return if_then_else(all_(*checks), extent, const(0, extent.dtype)) if checks else extent


def _loop(
    iv: IterVar,
    attr: IterVarAttr,
    dom: Range,
    level: Level,
    building: Building,
    is_init: bool,
) -> Expr:
    """Append the loop `iv` to `level` and return the value of `iv` inside of it."""
    var = Var(f"{iv.var.name}.init", iv.var.dtype) if is_init else iv.var
    for key, value in attr.pragmas:
        level.append(AttrStmt(iv, f"pragma_{key}", const(1) if value is None else value, nop()))
    extent = dom.extent
    result: Expr
    if is_one(extent):
        result = cast(var.dtype, dom.min)
        building.let(var, result)
    else:
        kind = _KINDS.get(attr.iter_kind, ForKind.SERIAL)
        zero = const(0, extent.dtype)
        if is_zero(dom.min):
            level.append(For(var, zero, extent, kind, nop()))
            result = var
        else:
            index = Var(f"{iv.var.name}.idx", iv.var.dtype)
            level.append(For(index, zero, extent, kind, nop()))
            result = add(dom.min, index)
            building.let(var, result)
    for tensor, offset in attr.prefetch:
        level.append(AttrStmt(tensor, "prefetch_scope", offset, nop()))
    return result


def _thread(stage: Stage, iv: IterVar, thread: IterVar, level: Level, building: Building) -> Expr:
    """Append to `level` the attribute of a loop bound to `thread`; return the value of `iv` in it.

    ScheduleError for virtual threads without a constant extent, and when the iterations on
    different threads would fill memory that each thread has for itself.
    """
    tag, dom = thread.thread_tag, building.domains[iv]
    extent = cast(thread.var.dtype, dom.extent)
    value = add(dom.min, cast(iv.var.dtype, thread.var))
    if is_virtual_thread(tag):
        if not isinstance(extent, IntImm) or extent.value < 1:
            raise ScheduleError(
                f"schedule_ops: stage {stage.op.name}, axis {iv.var.name} bound to {tag}: the axis "
                f"needs a constant extent, found {extent!r}"
            )
        level.append(AttrStmt(thread, "virtual_thread", extent, nop()))
        return value
    level.append(AttrStmt(thread, "thread_extent", extent, nop()))
    if is_one(extent):
        return dom.min
    rank = filled_rank(stage, building.scans)
    warp_index = rank == WARP and tag == "threadIdx.x"
    if rank > thread_rank(tag) and not warp_index:
        if stage.scope:
            scope, remedy = stage.scope, "attach the stage inside of the threads and"
        else:
            scope = scope_name(rank)
            remedy = "without set_scope a stage inside of threads is local, inside of blocks "
            remedy += "shared: set one that these threads share, or"
        raise ScheduleError(
            f"schedule_ops: stage {stage.op.name}, axis {iv.var.name} bound to {tag}: its "
            f"{extent!r} iterations would fill {scope} memory, of which each {tag} has its own; "
            f"{remedy} leave this loop serial"
        )
    return value


def substitution(values: Values) -> dict[Var, Expr]:
    """The substitution of itervars' variables by `values`, without those that stay as they are."""
    return {iv.var: value for iv, value in values.items() if value is not iv.var}
