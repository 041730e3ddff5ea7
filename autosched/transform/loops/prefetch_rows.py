"""PrefetchRows: the last loop over a row, which runs from the cache, prefetches the next row.

before:
    def main(A: Buffer((512,), float32), Y: Buffer((512,), float32)):
        for i in parallel(4):
            t = allocate((1,), float32, "global")
            t[0] = 0.0
            for k in range(128):
                t[0] = t[0] + A[i * 128 + k]
            for j in range(8):
                Y[i * 128 + j * 16:i * 128 + j * 16 + 16] = broadcast(t[0], 16) * A[i * 128
                        + j * 16:i * 128 + j * 16 + 16]
after:
    def main(A: Buffer((512,), float32), Y: Buffer((512,), float32)):
        for i in parallel(4):
            t = allocate((1,), float32, "global")
            t[0] = 0.0
            for k in range(128):
                t[0] = t[0] + A[i * 128 + k]
            for j in range(8):
                prefetch(A[min(i * 128 + 128, 384) + j * 16:min(i * 128 + 128, 384) + j * 16 + 16])
                Y[i * 128 + j * 16:i * 128 + j * 16 + 16] = broadcast(t[0], 16) * A[i * 128 + j *
                        16:i * 128 + j * 16 + 16]

The sums of a softmax's or a layer norm's row wait for memory. The loop that then computes the
outputs finds the row in the first-level cache. Meanwhile the processor fetches nothing, because it
foresees only sequential loads from memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import ClassVar, NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Add,
    BufferLoad,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Range,
    Sub,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import stored_in
from autosched.tir.linear import linear, sum_of
from autosched.tir.loops import trip_count
from autosched.tir.op import add, cast, const, min_, mul
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import replace_stmt
from autosched.tir.undefined import undefined
from autosched.tir.walk import free_vars, map_children, stmts, unique_exprs
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

LEAST_BYTES = 512
"""Least size of a row: the processor fetches a few lines ahead by itself."""

MOST_BYTES = 24 << 10
"""Most bytes that the last loop goes through, together with the next rows.

They must stay in a first-level cache of 32 KiB. On a Zen 4 layer norms with 20 KiB take 0.91 of
their time, with 40 KiB 1.08.
"""

_AROUND = (Allocate, AttrStmt, DeclBuffer, LetStmt)
_SURE = (Var, IntImm, Add, Sub, Mul, Min, Max, Cast)


@dataclass(frozen=True)
class PrefetchRows(FunctionPass):
    """Prefetches the next row of what a loop over rows reads, in its last loop over a row.

    Each buffer consists of such rows, one behind the other. It is read before the last loop and is
    not written. The last loop, which is over vectors, loads elements of a row only from buffers
    that the iteration has accessed before.
    """

    name: ClassVar[str] = "PrefetchRows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_fetching(func.body))


def _fetching(s: Stmt) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    if isinstance(s, For) and s.kind in (ForKind.SERIAL, ForKind.PARALLEL):
        found = _last_loop(s.body)
        if found is not None:
            fetched = _next_rows(s, found)
            if fetched:
                last = found.loop
                return replace_stmt(s, last, last.with_(body=seq(*fetched, last.body)))
    return map_children(s, _fetching)


class _Last(NamedTuple):
    """The last loop of an iteration over rows, and the statements of the iteration before it.

    In each of its `turns` iterations the loop stores the next `lanes` elements.
    """

    before: tuple[Stmt, ...]
    loop: For
    turns: int
    lanes: int


def _last_loop(s: Stmt, before: tuple[Stmt, ...] = ()) -> _Last | None:
    """The last loop over vectors in `s`, with nothing but stores behind it; None without one."""
    while isinstance(s, _AROUND):
        s = s.body
    if isinstance(s, For):
        lanes, turns = _lanes(s), trip_count(s)
        return _Last(before, s, turns, lanes) if before and turns and lanes else None
    if isinstance(s, SeqStmt):
        for number in range(len(s.stmts) - 1, -1, -1):
            part = s.stmts[number]
            if not isinstance(part, BufferStore):
                return _last_loop(part, (*before, *s.stmts[:number]))
    return None


def _lanes(loop: For) -> int:
    """The consecutive elements that each iteration stores as a vector; 0 for other loops."""
    store = loop.body
    if not isinstance(store, BufferStore) or loop.kind is not ForKind.SERIAL:
        return 0
    lanes = store.value.dtype.lanes
    step = _terms(store.indices).get(loop.loop_var)
    return lanes if lanes > 1 and step == lanes and loop.min is const(0, loop.min.dtype) else 0


def _terms(indices: tuple[Expr, ...]) -> dict[Expr, int]:
    """The terms, by `linear`, of the index of an access to flat memory; none for other accesses."""
    if len(indices) != 1:
        return {}
    (index,) = indices
    return linear(index.base if isinstance(index, Ramp) else index)[1]


def _next_rows(rows: For, found: _Last) -> list[Prefetch]:
    """The prefetches for an iteration of the last loop, which fetch its part of the next rows."""
    row, loop = rows.loop_var, found.loop
    before = [a for part in found.before for a in _accesses(part, row)]
    known = {a.buffer.data for a in before}
    last = [a for a in _accesses(loop.body, row) if isinstance(a, BufferLoad)]
    if not all(load.buffer.data in known for load in last):
        return []  # these loads wait for memory, and the processor fetches them ahead
    written = stored_in(rows.body)
    views = {s.buffer for s in stmts(rows.body) if isinstance(s, DeclBuffer)}
    outer = undefined(rows) | {row}
    fetched: dict[Var, Prefetch] = {}
    elements = found.turns * found.lanes
    room = MOST_BYTES - sum(_bytes_each(_accesses(loop.body, loop.loop_var))) * elements
    for access in before:
        data, terms = access.buffer.data, _terms(access.indices)
        if data in written or data in fetched:
            continue
        if data not in outer or access.buffer in views:
            continue
        outside = {e: f for e, f in terms.items() if free_vars(e) <= outer}
        if not all(map(_is_sure, outside)):
            continue
        length, size = outside.get(row, 0), _size(access.buffer)
        bytes_ = length * access.buffer.dtype.bytes
        if not (elements <= length < 2 * elements and LEAST_BYTES <= bytes_ <= room):
            continue
        if size == 0 or any(factor % length for factor in (size, *outside.values())):
            continue
        room -= bytes_
        dtype = access.indices[0].dtype.with_lanes(1)
        start = min_(sum_of(outside, length, dtype), const(size - length, dtype))
        at = add(start, mul(cast(dtype, loop.loop_var), found.lanes))
        fetched[data] = Prefetch(access.buffer, (Range(at, const(found.lanes, dtype)),))
    return list(fetched.values())


def _is_sure(e: Expr) -> bool:
    """Whether the index may be computed unguarded: it reads no memory and cannot divide by 0."""
    if isinstance(e, FloorDiv | FloorMod | Div | Mod):
        return isinstance(e.b, IntImm) and _is_sure(e.a)
    return isinstance(e, _SURE) and all(map(_is_sure, e.children()))


def _accesses(s: Stmt, var: Var) -> Iterator[BufferLoad | BufferStore]:
    """The loads and stores in `s` whose indices depend on the variable."""
    accesses: Iterable[Stmt | Expr] = chain(unique_exprs(s), stmts(s))
    for node in accesses:
        if isinstance(node, BufferLoad | BufferStore) and any(
            var in free_vars(index) for index in node.indices
        ):
            yield node


def _bytes_each(accesses: Iterable[BufferLoad | BufferStore]) -> Iterable[int]:
    """The bytes of an element of each accessed array."""
    return {a.buffer.data: a.buffer.dtype.bytes for a in accesses}.values()


def _size(buffer: Buffer) -> int:
    """The number of elements; 0 if it is unknown."""
    return prod(e.value if isinstance(e, IntImm) else 0 for e in buffer.shape)
