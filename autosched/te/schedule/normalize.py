"""Normalising a schedule before bounds are inferred: inline, rebase, legalise attach points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING

from autosched.te.bounds.thread_scope import is_virtual_thread
from autosched.te.operations.graph import replace_inputs, rewrite_body
from autosched.te.operations.operation import CONST_MATRIX, ComputeOp, Operation
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType, Fuse, Rebase, Split
from autosched.te.schedule.refusal import refusal
from autosched.tir.expr import Expr, IterKind, IterVar, ProducerLoad, Reduce, Var
from autosched.tir.op import cast, const
from autosched.tir.walk import substitute

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def normalize(schedule: Schedule) -> Schedule:
    """A copy of `schedule` ready for `infer_bound`; the schedule itself is unchanged.

    Inlined stages are substituted into their consumers. Every root axis that is still a loop is
    replaced by one that starts at 0. Stages attached to loops that were split or fused since are
    attached to the resulting loops. A reduction on threads that has stages attached inside gets its
    loops in the order of execution. Normalising twice equals normalising once.
    """
    return _normalized(schedule, for_features=False)


def normalize_for_feature_extraction(schedule: Schedule) -> Schedule:
    """Like `normalize`, but stages with the attribute `const_matrix` are inlined as 1.

    These are the constant matrices of a Winograd transform, whose reads should cost nothing.
    """
    return _normalized(schedule, for_features=True)


def _normalized(schedule: Schedule, for_features: bool) -> Schedule:
    new = schedule.copy()
    _inline(new, for_features)
    _check_threads(new)
    _rebase(new)
    _legalise_attach(new)
    _nest_thread_reductions(new)
    return new


def _inline(schedule: Schedule, for_features: bool) -> None:
    inlined = tuple([stage.attach_type is AttachType.INLINE for stage in schedule.stages])
    if not any(inlined):
        return
    for stage in compress(schedule.stages, inlined):
        _check_inlinable(stage)
    ops = _inlined_ops(tuple([stage.op for stage in schedule.stages]), inlined, for_features)
    for stage, op, gone in zip(schedule.stages, ops, inlined, strict=True):
        if op is not stage.op:
            stage.op = op
            schedule.stage_map[op] = stage
        if gone:
            stage.attach_type = AttachType.INLINED
    schedule.outputs = [schedule.stage_map[op].op for op in schedule.outputs]
    for stage in schedule.stages:
        above = stage.attach_stage
        if above is not None and above.attach_type is AttachType.INLINED:
            why = f"stage {stage.name} is computed inside it"
            raise refusal("compute_inline", above, None, why)
        for iv, attr in stage.iter_var_attrs.items():
            for tensor, _ in attr.prefetch:
                if schedule[tensor].attach_type is AttachType.INLINED:
                    why = f"{tensor.name} is inlined and has no memory; prefetch what it reads"
                    raise refusal("prefetch", stage, iv, why)


def _check_inlinable(stage: Stage) -> None:
    op = stage.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or isinstance(op.body[0], Reduce):
        raise refusal("compute_inline", stage, None, "only single-output maps can be inlined")
    if stage.store_predicate is not None:
        raise refusal("compute_inline", stage, None, "it has a store predicate")


@lru_cache(maxsize=16)  # candidates of one computation inline the same few sets of stages
def _inlined_ops(
    ops: Sequence[Operation], inlined: Sequence[bool], for_features: bool
) -> Sequence[Operation]:
    """`ops` with those marked in `inlined` substituted into their readers, in the same order.

    The inlined operations themselves remain in the result.
    """
    bodies: dict[Tensor, tuple[tuple[IterVar, ...], Expr]] = {}
    replaced: dict[Tensor, Tensor] = {}

    def load(e: Expr) -> Expr | None:
        if not isinstance(e, ProducerLoad):
            return None
        known = bodies.get(e.producer)
        if known is None:
            new = replaced.get(e.producer)
            return None if new is None else ProducerLoad(new, e.indices)
        axes, body = known
        table: dict[Var, Expr] = {
            axis.var: cast(axis.var.dtype, index)
            for axis, index in zip(axes, e.indices, strict=True)
        }
        return substitute(body, table)

    found = []
    for op, gone in zip(ops, inlined, strict=True):
        new = op
        if any(tensor in bodies or tensor in replaced for tensor in op.inputs):
            new = _rewritten(op, load, bodies, replaced)
            replaced.update(zip(op.outputs, new.outputs, strict=True))
        if gone:
            assert isinstance(new, ComputeOp)
            body = new.body[0]
            if for_features and CONST_MATRIX in new.attrs:
                body = const(1, body.dtype)
            bodies[new.output(0)] = bodies[op.outputs[0]] = (new.axis, body)
        found.append(new)
    return found


def _rewritten(
    op: Operation,
    load: Callable[[Expr], Expr | None],
    bodies: Mapping[Tensor, object],
    replaced: Mapping[Tensor, Tensor],
) -> Operation:
    if isinstance(op, ComputeOp):
        return rewrite_body(op, load)
    for tensor in op.inputs:
        if tensor in bodies:
            raise refusal(
                "compute_inline", tensor.op, None, f"{op.name} is not a te.compute and reads it"
            )
    return replace_inputs(op, replaced)


def _check_threads(schedule: Schedule) -> None:
    """ScheduleError when one thread index would run two loops of a stage.

    Real thread axes of the same tag are one hardware index; each virtual thread axis is its own.
    """
    for stage in schedule.stages:
        if stage.attach_type is AttachType.INLINED or not stage.iter_var_attrs:
            continue
        taken: dict[object, IterVar] = {}
        for iv in stage.leaf_iter_vars:
            attr = stage.iter_var_attrs.get(iv)
            if attr is None or attr.bind_thread is None:
                continue
            tag = attr.bind_thread.thread_tag
            index: object = attr.bind_thread if is_virtual_thread(tag) else tag
            other = taken.setdefault(index, iv)
            if other is iv:
                continue
            why = (
                f"{tag} runs loop {other.var.name} of the stage too, so that only iterations "
                f"where both are equal would run; fuse the two loops before bind, or bind one to "
                f"another {'te.thread_axis' if is_virtual_thread(tag) else 'thread tag'}"
            )
            raise refusal("bind", stage, iv, why)


def _rebase(schedule: Schedule) -> None:
    rebased: dict[tuple[Stage, IterVar], IterVar] = {}
    for stage in schedule.stages:
        if stage.attach_type is AttachType.INLINED:
            continue
        attrs = stage.iter_var_attrs
        for root in stage.op.root_iter_vars:
            place = stage.leaf_place(root)
            if place is None:
                continue
            attr = attrs.get(root)
            if attr is not None and attr.bind_thread is not None:
                continue
            new = IterVar(None, Var(root.var.name, root.var.dtype), root.kind)
            stage.relations.append(Rebase(root, new))
            stage.leaf_iter_vars[place] = new
            if attr is not None:
                attrs[new] = attr
            rebased[stage, root] = new
    for stage in (*schedule.stages, *schedule.groups):
        if stage.attach_stage is not None and stage.attach_ivar is not None:
            key = (stage.attach_stage, stage.attach_ivar)
            stage.attach_ivar = rebased.get(key, stage.attach_ivar)


def _legalise_attach(schedule: Schedule) -> None:
    for stage in (*schedule.stages, *schedule.groups):
        above, axis = stage.attach_stage, stage.attach_ivar
        if above is None or axis is None or above.leaf_place(axis) is not None:
            continue
        follow: dict[IterVar, IterVar] = {}
        for relation in above.relations:
            if isinstance(relation, Split):
                follow[relation.parent] = relation.inner
            elif isinstance(relation, Fuse):
                follow[relation.inner] = relation.fused
        while above.leaf_place(axis) is None and axis in follow:
            axis = follow[axis]
        stage.attach_ivar = axis


def _nest_thread_reductions(schedule: Schedule) -> None:
    """Move the unbound reduction loops of reductions on threads inside of all other loops.

    Lowering runs the loops in that order. Stages attached at one of the loops need the order when
    bounds are inferred, so only reductions with attached stages are changed.
    """
    around = {s.attach_stage for s in (*schedule.stages, *schedule.groups) if s.attach_stage}
    for stage in schedule.stages:
        if stage not in around or not isinstance(stage.op, ComputeOp):
            continue
        leaves, attrs = stage.leaf_iter_vars, stage.iter_var_attrs
        reducing = [iv for iv in leaves if iv.kind == IterKind.REDUCE]
        own = [iv for iv in reducing if iv not in attrs or attrs[iv].bind_thread is None]
        if len(own) < len(reducing):
            stage.leaf_iter_vars = [iv for iv in leaves if iv not in own] + own
