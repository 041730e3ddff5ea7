"""cache_read and cache_write: stages that keep a copy of a tensor in another storage scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.arguments import found
from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.te.bounds.message_passing import (
    make_bound_check,
    pass_down_domain,
    pass_down_index,
    pass_up_index,
)
from autosched.te.operations.conditions import may_fail, within
from autosched.te.operations.graph import replace_inputs
from autosched.te.operations.operation import ComputeOp, Operation, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.placement import STORAGE_SCOPES
from autosched.te.schedule.refusal import check_tensor, refusal
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, IterKind, IterVar, Range, Reduce, Var
from autosched.tir.op import all_, const, if_then_else
from autosched.tir.walk import substitute

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule
    from autosched.te.schedule.stage import Stage


def _check_scope(primitive: str, stage: Stage, scope: str) -> None:
    if not isinstance(scope, str) or scope not in STORAGE_SCOPES:
        known = ", ".join(sorted(STORAGE_SCOPES))
        raise refusal(primitive, stage, None, f"unknown scope {scope!r}; the scopes are {known}")


def cache_read(
    schedule: Schedule,
    tensor: Tensor,
    scope: str,
    readers: Tensor | Operation | Sequence[Tensor | Operation],
) -> Tensor:
    """Copy `tensor` into a new tensor `<name>.<scope>` that `readers` read instead.

    The new stage comes right after the tensor's and is at the root; place it with compute_at.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after AL = s.cache_read(A, "local", [B]):
        realize(A.local[0:16], float32, "local")
        for ax0 in range(16):
            A.local[ax0] = A[ax0]
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A.local[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    """
    check_tensor("cache_read", tensor)
    stage = schedule[tensor]
    _check_scope("cache_read", stage, scope)
    source = schedule.current_tensor(tensor)
    given = [readers] if isinstance(readers, Tensor | Operation) else readers
    if not isinstance(given, Sequence) or isinstance(given, str):
        why = f"expected the tensors that read it, e.g. [C], {found(readers)}"
        raise refusal("cache_read", stage, None, why)
    reading = list(dict.fromkeys(schedule[reader] for reader in given))
    if not reading:
        raise refusal("cache_read", stage, None, f"no reader of {source.name} given")
    for reader in reading:
        if source not in reader.op.inputs:
            raise refusal("cache_read", reader, None, f"it does not read {source.name}")
        if isinstance(reader.op, ScanOp) and source in reader.op.update:
            why = "the scan keeps what its update stores; s.cache_write gives the update a memory"
            raise refusal("cache_read", stage, None, why)
    axes = plain_axes(source.shape)
    cache = ComputeOp(
        _cache_name(schedule, source, scope), axes, (source[tuple(iv.var for iv in axes)],)
    )
    new = {source: cache.output(0)}
    table = {reader.op: replace_inputs(reader.op, new) for reader in reading}
    is_state = any(isinstance(s.op, ScanOp) and source in s.op.state for s in schedule.stages)
    # A state's earlier steps exist only inside the scan: its cache belongs to its readers' group.
    group = reading[0].group if is_state else stage.group
    cache_stage = schedule.insert_stage(schedule.stages.index(stage) + 1, cache, group)
    cache_stage.scope = scope
    schedule.replace_ops(table)
    return cache.output(0)


def plain_axes(shape: Sequence[Expr]) -> list[IterVar]:
    """Data axes ax0, ax1, ... over `shape`."""
    return [
        IterVar(Range.of(extent), Var(f"ax{k}", extent.dtype), IterKind.DATA_PAR)
        for k, extent in enumerate(shape)
    ]


def _cache_name(schedule: Schedule, tensor: Tensor, scope: str) -> str:
    taken = {stage.op.name for stage in schedule.stages}
    base = tensor.name
    while f"{base}.{scope}" in taken:
        base += ".d"
    return f"{base}.{scope}"


def cache_write(schedule: Schedule, tensors: Tensor | Sequence[Tensor], scope: str) -> Any:
    """Compute an operation into new tensors `<name>.<scope>`; its own stage becomes a copy.

    `tensors` are all outputs of the operation; one tensor gives one back, a list gives a list. The
    current loops of the stage become the axes of the cache, so that a split or reorder before
    cache_write changes its layout. The cache stage is inserted right before the stage, at the root.

    before:
        for i in range(16):
            C[i] = 0.0
            for k in range(8):
                C[i] = C[i] + A[i, k]
    after CL = s.cache_write(C, "local"):
        realize(C.local[0:16], float32, "local")
        for i.c in range(16):
            C.local[i.c] = 0.0
            for k in range(8):
                C.local[i.c] = C.local[i.c] + A[i.c, k]
        for i in range(16):
            C[i] = C.local[i]
    """
    given = list(tensors) if isinstance(tensors, Sequence) else [tensors]
    for tensor in given:
        check_tensor("cache_write", tensor)
    if not given:
        raise ScheduleError("cache_write: no tensor given")
    stage = schedule[given[0]]
    _check_scope("cache_write", stage, scope)
    op = stage.op
    if not isinstance(op, ComputeOp):
        why = "only te.compute operations have a cache to write"
        raise refusal("cache_write", stage, None, why)
    indices = sorted(tensor.value_index for tensor in given)
    if any(schedule[t] is not stage for t in given) or indices != list(range(len(op.outputs))):
        raise refusal(
            "cache_write", stage, None, f"give all its {len(op.outputs)} outputs, each once"
        )
    axes, body, copy_indices = _cached(stage, op)
    cache = ComputeOp(f"{op.name}.{scope}", axes, body, op.tag, op.attrs)
    copy = ComputeOp(
        op.name, op.axis, [tensor[copy_indices] for tensor in cache.outputs], op.tag, op.attrs
    )
    cache_stage = schedule.insert_stage(schedule.stages.index(stage), cache, stage.group)
    cache_stage.scope = scope
    schedule.replace_ops({op: copy})
    stage.reset_loops(copy)
    caches = [cache.output(tensor.value_index) for tensor in given]
    return caches[0] if isinstance(tensors, Tensor) else caches


def _cached(stage: Stage, op: ComputeOp) -> tuple[list[IterVar], list[Expr], tuple[Expr, ...]]:
    """The axes and the bodies of the cache operation, and the indices at which the copy reads it.

    ScheduleError when a loop of the stage is not a plain data axis.
    """
    leaves = [iv for iv in stage.leaf_iter_vars if iv not in op.reduce_axis]
    for iv in leaves:
        if iv.kind != IterKind.DATA_PAR:
            why = f"a {iv.kind} loop cannot be an axis; use cache_write before split and fuse"
            raise refusal("cache_write", stage, iv, why)
    domains: dict[IterVar, Range] = {iv: declared_domain(iv) for iv in op.axis}
    if not stage.relations:
        axes = [_cache_axis(iv, domains[iv]) for iv in leaves]
        rename: dict[Var, Expr] = {iv.var: axis.var for iv, axis in zip(leaves, axes, strict=True)}
        return axes, _renamed(op.body, rename), tuple(iv.var for iv in leaves)
    pass_down_domain(stage, domains, Analyzer(), allow_missing=True)
    axes = [_cache_axis(iv, domains[iv]) for iv in leaves]
    rename = {iv.var: axis.var for iv, axis in zip(leaves, axes, strict=True)}
    values: dict[IterVar, Expr] = {}
    for iv in leaves:
        low = domains[iv].min
        # Only a loop that starts at 1 becomes a constant: Ansor's rule, kept for equal results.
        values[iv] = low if is_one(low) else iv.var
    pass_up_index(stage, domains, values, allow_missing=True)
    predicates = make_bound_check(stage, domains, values, True, set(op.reduce_axis))
    roots = {iv.var: values[iv] for iv in op.axis}
    bodies = _renamed([guarded(e, predicates) for e in _renamed(op.body, roots)], rename)
    positions: dict[IterVar, Expr] = {iv: iv.var for iv in op.axis}
    pass_down_index(stage, domains, positions, allow_missing=True)
    return axes, bodies, tuple(positions[iv] for iv in leaves)


def _renamed(bodies: Sequence[Expr], table: dict[Var, Expr]) -> list[Expr]:
    """`bodies` with variables replaced by `table`, also in the domains of a ragged reduction.

    Reduction axes whose domain changes are replaced by new ones.
    """
    first = bodies[0]
    new = [substitute(e, table) for e in bodies]
    if not isinstance(first, Reduce):
        return new
    axes = tuple(_renamed_axis(iv, table) for iv in first.axis)
    if axes == first.axis:
        return new
    own: dict[Var, Expr] = {
        old.var: iv.var for old, iv in zip(first.axis, axes, strict=True) if iv is not old
    }
    result: list[Expr] = []
    for e in new:
        assert isinstance(e, Reduce), "the outputs are the components of one reduction"
        parts = tuple(substitute(c, own) for c in e.children())
        e = e.with_children(parts)
        assert isinstance(e, Reduce)
        result.append(Reduce(e.combiner, e.source, axes, e.condition, e.value_index, e.init))
    return result


def _renamed_axis(iv: IterVar, table: dict[Var, Expr]) -> IterVar:
    dom = declared_domain(iv)
    low, extent = substitute(dom.min, table), substitute(dom.extent, table)
    if low is dom.min and extent is dom.extent:
        return iv
    return IterVar(Range(low, extent), Var(iv.var.name, iv.var.dtype), iv.kind)


def declared_domain(iv: IterVar) -> Range:
    """The declared domain of an operation's axis, which always has one."""
    assert iv.dom is not None, "axes of an operation have a domain"
    return iv.dom


def _cache_axis(iv: IterVar, domain: Range) -> IterVar:
    return IterVar(domain, Var(f"{iv.var.name}.c", iv.var.dtype), IterKind.DATA_PAR)


def guarded(body: Expr, predicates: Sequence[Expr]) -> Expr:
    """`body` where all `predicates` hold; elsewhere 0, or, for a reduction, nothing is combined.

    An init of a reduction that may fail (it reads memory) is guarded in the same way.
    """
    if not predicates:
        return body
    if isinstance(body, Reduce):
        own, init = body.condition, body.init
        both = within(predicates, own) if may_fail(own) else all_(own, *predicates)
        if any(map(may_fail, init)):
            inside, identity = all_(*predicates), body.combiner.identity
            init = tuple(if_then_else(inside, a, b) for a, b in zip(init, identity, strict=True))
        return Reduce(body.combiner, body.source, body.axis, both, body.value_index, init)
    return if_then_else(all_(*predicates), body, const(0, body.dtype))
