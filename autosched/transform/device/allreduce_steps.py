"""Reductions across threads: by shuffles within warps, or by a tree in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import BufferLoad, Call, CommReducer, Expr, StringImm, Var
from autosched.tir.op import const, eq, floordiv, floormod, if_then_else, lt
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
    let,
    seq,
)
from autosched.tir.walk import combine

_UINT32 = DType("uint32")


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of tuples with `reducer`.

    `values` and `results` have one entry per component; a result is an element of local memory.
    """

    reducer: CommReducer
    values: tuple[Expr, ...]
    results: tuple[BufferLoad, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The groups of threads of a block that reduce together.

    `index` is the number of a thread within its group of `extent` threads; `group` is the number of
    the group among the `groups` groups of the block. At least `contiguous` neighbouring threads
    belong to the same group.
    """

    index: Expr
    extent: int
    group: Expr
    groups: int
    contiguous: int

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return self.extent * self.groups


def barrier(scope: str) -> Stmt:
    """A barrier for all threads of the block (scope shared) or of the warp."""
    return Evaluate(Call(int32, "tvm_storage_sync", (StringImm(scope),)))


def warp_shuffles(r: Reduction, group: Group, warp: int) -> Stmt:
    """Reduce over neighbouring threads: part of a warp, a warp, or whole warps.

    Shuffles stay outside of conditions so that all lanes take part. A value that a lane receives
    from outside of its group does not reach the result.
    """
    mask = _mask(group.threads, warp)
    if group.extent <= warp:
        first = group.group * group.extent
        back = [_shuffle("tvm_warp_shuffle", mask, result, first, warp) for result in r.results]
        reduced = _warp_reduce(r, r.values, group.index, group.extent, mask, warp)
        return seq(reduced, _assigned(r.results, back))
    warps = group.extent // warp
    staging = _shared(r, "red_buf_staging", group.groups * warps)
    result = _shared(r, "red_result", group.groups)
    place = group.group * warps + floordiv(group.index, warp)
    leader = eq(floormod(group.index, warp), 0)
    partial = [
        if_then_else(lt(group.index, warps), s[group.group * warps + group.index], neutral)
        for s, neutral in zip(staging, r.reducer.identity, strict=True)
    ]
    body = seq(
        _warp_reduce(r, r.values, floormod(group.index, warp), warp, mask, warp),
        IfThenElse(leader, _stores(staging, r.results, place)),
        barrier("shared"),
        _warp_reduce(r, partial, group.index, warps, mask, warp),
        IfThenElse(eq(group.index, 0), _stores(result, r.results, group.group)),
        barrier("shared"),
        _assigned(r.results, [b[group.group] for b in result]),
    )
    return _allocated([*staging, *result], body)


def shared_tree(r: Reduction, group: Group, warp: int) -> Stmt:
    """Reduce over any threads: combine halves in shared memory, in the end within one warp."""
    if group.extent == 1:
        return _assigned(r.results, r.values)
    red = _shared(r, "red_buf", group.threads)
    first = group.group * group.extent
    place = first + group.index
    steps: list[Stmt] = [barrier("shared"), _stores(red, r.values, place), barrier("shared")]
    active = 1
    while active < group.extent:
        active *= 2
    if active > group.extent:
        active //= 2
        more = lt(group.index, group.extent - active)
        steps += [IfThenElse(more, _combine(r, red, place, active)), barrier("shared")]
    aligned = group.groups == 1 or group.contiguous % warp == 0
    while active > 1 and (active > group.contiguous or active > warp or not aligned):
        active //= 2
        half = lt(group.index, active)
        steps += [IfThenElse(half, _combine(r, red, place, active)), barrier("shared")]
    if active > 1:
        steps += [_tree_in_warp(r, red, group, place, active), barrier("shared")]
    steps.append(_assigned(r.results, [b[first] for b in red]))
    return _allocated(red, seq(*steps))


def _tree_in_warp(
    r: Reduction, red: Sequence[Buffer], group: Group, place: Expr, active: int
) -> Stmt:
    """The last steps, in which all threads that combine are lanes of one warp.

    All lanes of the warp reach its barriers, which separate the writes of one step from the reads
    of the next.
    """
    steps: list[Stmt] = []
    while active > 1:
        active //= 2
        half = lt(group.index, active)
        steps += [IfThenElse(half, _combine(r, red, place, active)), barrier("warp")]
    return seq(*steps)


def _combine(r: Reduction, red: Sequence[Buffer], place: Expr, distance: int) -> Stmt:
    """Combine red[place] with red[place + distance]."""
    left = tuple(b[place] for b in red)
    right = tuple(b[place + distance] for b in red)
    return _bound(combine(r.reducer, left, right), left)


def _bound(values: Sequence[Expr], targets: Sequence[BufferLoad]) -> Stmt:
    """Compute all `values` before storing them: no store may change what another value reads."""
    if len(values) == 1:
        return _assigned(targets, values)
    names = [Var(f"w{k}", value.dtype) for k, value in enumerate(values)]
    return let(zip(names, values, strict=True), _assigned(targets, names))


def _warp_reduce(
    r: Reduction, values: Sequence[Expr], index: Expr, count: int, mask: Expr, warp: int
) -> Stmt:
    """Reduce the values of each `count` lanes; lane 0 of them gets the result."""
    steps = [_assigned(r.results, values)]
    offset = 1
    while offset * 2 < count:
        offset *= 2
    while offset >= 1 and count > 1:
        own = r.results
        got = [Var(f"t{k}", value.dtype) for k, value in enumerate(own)]
        step = _bound(combine(r.reducer, own, tuple(got)), own)
        if 2 * offset > count:
            step = IfThenElse(lt(index + offset, count), step)
        for var, value in zip(reversed(got), reversed(own), strict=True):
            step = LetStmt(var, _shuffle("tvm_warp_shuffle_down", mask, value, offset, warp), step)
        steps.append(step)
        offset //= 2
    return seq(*steps)


def _shuffle(op: str, mask: Expr, value: Expr, lane: Expr | int, warp: int) -> Expr:
    place = lane if isinstance(lane, Expr) else const(lane)
    return Call(value.dtype, op, (mask, value, place, const(warp), const(warp)))


def _mask(threads: int, warp: int) -> Expr:
    """The mask of all existing lanes; lanes that a partial warp lacks count as exited."""
    return const((1 << min(threads, warp)) - 1, _UINT32)


def _shared(r: Reduction, name: str, size: int) -> list[Buffer]:
    types = [v.dtype for v in r.values]
    return [decl_buffer((size,), t, f"{name}{k}", "shared") for k, t in enumerate(types)]


def _assigned(targets: Sequence[BufferLoad], values: Sequence[Expr]) -> Stmt:
    pairs = zip(targets, values, strict=True)
    return seq(*(BufferStore(t.buffer, value, t.indices) for t, value in pairs))


def _stores(buffers: Sequence[Buffer], values: Sequence[Expr], index: Expr) -> Stmt:
    pairs = zip(buffers, values, strict=True)
    return seq(*(BufferStore(b, value, (index,)) for b, value in pairs))


def _allocated(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    for b in reversed(buffers):
        body = Allocate(b.data, b.dtype, b.shape, TRUE, body)
    return body
