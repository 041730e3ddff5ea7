"""Vectorization of independent loops, so that the interpreter runs them as one array operation.

before:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 4)
        C = allocate((4,), float32, "local")
        for i in range(4):
            C[i] = 0.0
        for k in range(4):
            for j in range(4):
                C[j] = C[j] + A[k * 4 + threadIdx.x] * A[k * 4 + j]
        for l in range(4):
            B[threadIdx.x * 4 + l] = C[l]
after:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 4)
        C = allocate((4,), float32, "local")
        C[0:4] = broadcast(0.0, 4)
        for k in range(4):
            C[0:4] = C[0:4] + broadcast(A[k * 4 + threadIdx.x], 4) * A[k * 4:k * 4 + 4]
        B[threadIdx.x * 4:threadIdx.x * 4 + 4] = C[0:4]

Every element is computed by the same operations in the same order, so results are equal bit by bit;
only the order among different elements changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from autosched.tir import op
from autosched.tir.expr import Call, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import is_pure
from autosched.tir.kinds import direct_loads
from autosched.tir.linear import combine, linear
from autosched.tir.loops import trip_count
from autosched.tir.stmt import BufferStore, For, ForKind, SeqStmt, Stmt
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import direct_exprs, free_vars, map_children, pre_order
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.vector.vectorize_loop import VectorizeLoop

_MOST_LANES = 256


def batch_loops(func: PrimFunc) -> PrimFunc:
    """Turn innermost loops over independent stores into vectors.

    Returns `func` itself if there are none.
    """

    def go(s: Stmt) -> Stmt:
        if isinstance(s, For):
            nest = _nest(s)
            if nest is not None:
                return _batched(*nest) or map_children(s, go)
        return map_children(s, go)

    body = go(func.body)
    if body is func.body:
        return func
    return Simplify()(VectorizeLoop()(func.with_body(body)))


def _nest(s: Stmt) -> tuple[list[For], list[BufferStore]] | None:
    """The perfectly nested loops and the scalar stores inside, None for any other statement."""
    loops = []
    while isinstance(s, For):
        plain = s.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        if not plain or not isinstance(s.min, IntImm) or not isinstance(s.extent, IntImm):
            return None
        loops.append(s)
        s = s.body
    parts = s.stmts if isinstance(s, SeqStmt) else (s,)
    stores = [p for p in parts if isinstance(p, BufferStore)]
    if len(stores) < len(parts) or not all(_plain(p) for p in stores):
        return None
    return loops, stores


def _plain(s: BufferStore) -> bool:
    if s.value.dtype.lanes > 1 or s.predicate is not None or len(s.indices) != 1:
        return False
    return all(
        e.dtype.lanes == 1 and (not isinstance(e, Call) or is_pure(e.op))
        for direct in direct_exprs(s)
        for e in pre_order(direct)
    )


def _batched(loops: list[For], stores: Sequence[BufferStore]) -> Stmt | None:
    """Fuse as many loops as are independent into one innermost vectorized loop.

    None if no loop is independent.
    """
    chosen: list[For] = []
    for loop in reversed(loops):
        if prod(trip_count(x) for x in (*chosen, loop)) <= _MOST_LANES and _independent(
            [*chosen, loop], stores
        ):
            chosen.append(loop)
    lanes = prod(trip_count(x) for x in chosen)
    if lanes < 2:
        return None
    lane = Var("lane")
    inside: Stmt = SeqStmt(tuple(stores)) if len(stores) > 1 else stores[0]
    values: dict[Var, Expr] = {}
    below = 1
    for loop in chosen:  # innermost first
        part = op.floordiv(lane, below) if below > 1 else lane
        if below * trip_count(loop) < lanes:
            part = op.floormod(part, trip_count(loop))
        values[loop.loop_var] = op.add(op.cast(loop.loop_var.dtype, part), loop.min)
        below *= trip_count(loop)
    result: Stmt = For(
        lane, IntImm(0), IntImm(lanes), ForKind.VECTORIZED, substitute_stmt(inside, values)
    )
    for loop in reversed(loops):
        if loop not in chosen:
            result = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, result)
    return result


def _independent(loops: Sequence[For], stores: Sequence[BufferStore]) -> bool:
    """Whether no two iterations of `loops` access the same element that `stores` write."""
    lengths = {x.loop_var: trip_count(x) for x in loops}
    written = {s.buffer.data: s for s in stores}
    for store in stores:
        first = linear(store.indices[0])
        if not _one_to_one(first[1], lengths):
            return False
        reach = sum(abs(first[1].get(v, 0)) * (n - 1) for v, n in lengths.items())
        for index in _accesses(stores, store):
            constant, terms = combine(linear(index), first, -1)
            if terms or (constant != 0 and abs(constant) <= reach):
                return False
    return all(
        e.buffer.data not in written or e.buffer.dtype is written[e.buffer.data].buffer.dtype
        for s in stores
        for e in direct_loads(s)
    )


def _one_to_one(terms: dict[Expr, int], lengths: dict[Var, int]) -> bool:
    """Whether different values of the variables give different sums, whatever else is added."""
    if any(free_vars(t) & lengths.keys() and t not in lengths for t in terms):
        return False
    reach = 0
    for factor, length in sorted((abs(terms.get(v, 0)), n) for v, n in lengths.items()):
        if length > 1 and factor <= reach:
            return False
        reach += factor * (length - 1)
    return True


def _accesses(stores: Sequence[BufferStore], store: BufferStore) -> Iterator[Expr]:
    """The indices at which `stores` access the memory that `store` writes."""
    for s in stores:
        if s.buffer.data is store.buffer.data:
            yield s.indices[0]
        for e in direct_loads(s):
            if e.buffer.data is store.buffer.data:
                yield e.indices[0]
