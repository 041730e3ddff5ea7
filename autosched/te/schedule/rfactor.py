"""rfactor: split a reduction into a partial one per iteration of a loop, and one over the parts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING

from autosched.arguments import found
from autosched.arith import Analyzer
from autosched.te.bounds.message_passing import make_bound_check, pass_down_domain, pass_up_index
from autosched.te.operations.conditions import in_turn, may_fail, within
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import Fuse, Rebase, Relation, Singleton, Split
from autosched.te.schedule.cache import declared_domain, plain_axes
from autosched.te.schedule.refusal import leaf_position, refusal
from autosched.tir.constants import is_one, is_zero
from autosched.tir.expr import Expr, IterKind, IterVar, Range, Reduce, Var
from autosched.tir.op import all_, if_then_else, likely
from autosched.tir.walk import free_vars, substitute

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def rfactor(
    schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int = 0
) -> Tensor | tuple[Tensor, ...]:
    """Compute a partial reduction for every value of reduction loop `axis`, then reduce those.

    Makes a tensor `<name>.rf` with the data axes and, at position `factor_axis` (negative: from
    the end), `axis`. The stage itself becomes `<name>.repl`, a reduction over that dimension; its
    loops are reset. Returns the new tensor, or a tuple when there are several outputs.

    before:
        for i in range(16):
            C[i] = 0.0
            for k in range(8):
                C[i] = C[i] + A[i, k]
    after ko, ki = s[C].split(k, factor=4); CF = s.rfactor(C, ki):
        realize(C.rf[0:4, 0:16], float32, "")
        for k.inner in range(4):
            for i in range(16):
                C.rf[k.inner, i] = 0.0
                for k.outer in range(2):
                    C.rf[k.inner, i] = C.rf[k.inner, i] + A[i, k.inner + k.outer * 4]
        for ax0 in range(16):
            C[ax0] = 0.0
            for k.inner.v in range(4):
                C[ax0] = C[ax0] + C.rf[k.inner.v, ax0]
    """
    stage = schedule[tensor]
    op, position = _checked(stage, axis, factor_axis)
    touched = _connected(stage, axis)
    for iv in op.axis:
        if iv in touched:
            raise refusal("rfactor", stage, axis, f"it is fused with data axis {iv.var.name}")
    domains = {iv: declared_domain(iv) for iv in op.reduce_axis if iv in touched}
    pass_down_domain(stage, domains, Analyzer(), allow_missing=True)
    dom = domains[axis]
    depends = (free_vars(dom.min) | free_vars(dom.extent)) & {iv.var for iv in op.axis}
    if depends:
        names = ", ".join(sorted(v.name for v in depends))
        raise refusal(
            "rfactor",
            stage,
            axis,
            f"its domain depends on {names}; split it and factor the part of constant extent",
        )
    low = dom.min
    if not is_zero(low):
        raise refusal("rfactor", stage, axis, f"its domain must start at 0, found {low!r}")
    factor_op = _factor_op(stage, op, axis, position, touched, domains)
    repl_op = _reduce_op(op, factor_op, axis, domains[axis], position)
    factor_stage = schedule.insert_stage(schedule.stages.index(stage), factor_op, stage.group)
    _keep_relations(factor_stage, [r for r in stage.relations if touched.isdisjoint(_members(r))])
    schedule.replace_ops({op: repl_op})
    stage.reset_loops(repl_op)
    outputs = factor_op.outputs
    return outputs[0] if len(outputs) == 1 else outputs


def _checked(stage: Stage, axis: IterVar, factor_axis: int) -> tuple[ComputeOp, int]:
    """The stage's operation and the (non-negative) position of the new axis.

    ScheduleError when rfactor is illegal.
    """
    op = stage.op
    leaf_position("rfactor", stage, axis)
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        raise refusal("rfactor", stage, axis, "the stage is not a reduction")
    if axis.kind != IterKind.REDUCE:
        raise refusal("rfactor", stage, axis, f"a {axis.kind} axis, not a reduction axis")
    if not isinstance(factor_axis, Integral) or isinstance(factor_axis, bool):
        why = f"factor_axis: expected an integer, {found(factor_axis)}"
        raise refusal("rfactor", stage, axis, why)
    ndim = len(op.axis)
    position = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
    if not 0 <= position <= ndim:
        raise refusal(
            "rfactor", stage, axis, f"factor_axis {factor_axis} is outside of {ndim} dimensions"
        )
    return op, position


def _members(relation: Relation) -> tuple[IterVar, ...]:
    """All iteration variables of a relation."""
    match relation:
        case Split():
            return (relation.parent, relation.outer, relation.inner)
        case Fuse():
            return (relation.outer, relation.inner, relation.fused)
        case Rebase():
            return (relation.parent, relation.rebased)
        case Singleton():
            return (relation.iter,)


def _connected(stage: Stage, axis: IterVar) -> set[IterVar]:
    """The set of `axis` and all itervars that chains of relations connect with it."""
    touched = {axis}
    size = 0
    while size != len(touched):
        size = len(touched)
        for relation in stage.relations:
            members = _members(relation)
            if not touched.isdisjoint(members):
                touched.update(members)
    return touched


def _factor_op(
    stage: Stage,
    op: ComputeOp,
    axis: IterVar,
    position: int,
    touched: set[IterVar],
    domains: dict[IterVar, Range],
) -> ComputeOp:
    leaves = [iv for iv in stage.leaf_iter_vars if iv in touched]
    values: dict[IterVar, Expr] = {}
    for iv in leaves:
        extent = domains[iv].extent
        one = is_one(extent)
        values[iv] = domains[iv].min if one else iv.var
    pass_up_index(stage, domains, values, allow_missing=True)
    untouched = {iv for iv in stage.all_iter_vars if iv not in touched}
    predicates = make_bound_check(stage, domains, values, True, untouched)
    roots: dict[Var, Expr] = {iv.var: values[iv] for iv in op.reduce_axis if iv in touched}
    axes = list(op.axis)
    axes.insert(position, IterVar(domains[axis], axis.var, IterKind.DATA_PAR))
    reduce_axes = [iv for iv in op.reduce_axis if iv not in touched]
    reduce_axes += [IterVar(domains[iv], iv.var, iv.kind) for iv in leaves if iv is not axis]
    first = op.body[0]
    assert isinstance(first, Reduce), "an operation with reduce axes"
    source = tuple(substitute(e, roots) for e in first.source)
    own = substitute(first.condition, roots)
    condition = within(predicates, own) if may_fail(own) else likely(all_(*predicates, own))
    parts: list[Expr] = []
    for e in op.body:
        assert isinstance(e, Reduce), "an operation with reduce axes"
        k = e.value_index
        if reduce_axes:
            parts.append(Reduce(first.combiner, source, tuple(reduce_axes), condition, k))
        else:  # no reduction is left: each source element is a partial result
            value = source[k]
            for asked in reversed(in_turn(condition)):
                value = if_then_else(asked, value, first.combiner.identity[k])
            parts.append(value)
    return ComputeOp(f"{op.name}.rf", axes, parts)


def _reduce_op(
    op: ComputeOp, factor_op: ComputeOp, axis: IterVar, domain: Range, position: int
) -> ComputeOp:
    axes = plain_axes(op.outputs[0].shape)
    over = IterVar(domain, Var(f"{axis.var.name}.v", axis.var.dtype), IterKind.REDUCE)
    indices: list[Expr] = [iv.var for iv in axes]
    indices.insert(position, over.var)
    first = op.body[0]
    assert isinstance(first, Reduce), "an operation with reduce axes"
    source = tuple(tensor[tuple(indices)] for tensor in factor_op.outputs)
    rename: dict[Var, Expr] = {old.var: new.var for old, new in zip(op.axis, axes, strict=True)}
    init = tuple(substitute(e, rename) for e in first.init)
    parts = [
        Reduce(first.combiner, source, (over,), None, e.value_index, init)
        for e in op.body
        if isinstance(e, Reduce)
    ]
    return ComputeOp(f"{op.name}.repl", axes, parts)


def _keep_relations(stage: Stage, relations: Sequence[Relation]) -> None:
    """Apply `relations`, whose axes the operation still has, to the newly made `stage`."""
    leaves = stage.leaf_iter_vars
    for relation in relations:
        match relation:
            case Split():
                position = leaves.index(relation.parent)
                leaves[position : position + 1] = (relation.outer, relation.inner)
                stage.all_iter_vars += (relation.outer, relation.inner)
            case Fuse():
                leaves[leaves.index(relation.outer)] = relation.fused
                leaves.remove(relation.inner)
                stage.all_iter_vars.append(relation.fused)
            case Singleton():
                leaves.insert(0, relation.iter)
                stage.all_iter_vars.append(relation.iter)
            case Rebase():
                leaves[leaves.index(relation.parent)] = relation.rebased
        stage.relations.append(relation)
