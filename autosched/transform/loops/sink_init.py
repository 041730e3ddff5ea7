"""SinkInit: a reduction's initial values are stored where its outputs are first accumulated.

before:
    def main(A: Buffer((64,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        for i in range(2):
            for j in range(8):
                C[i * 8 + j] = 0.0
        for k in range(8):
            P = allocate((64,), float32, "global")
            for l in range(64):
                P[l] = B[k * 64 + l]
            for io in range(2):
                for ki in range(8):
                    for jo in range(8):
                        C[io * 8 + jo] = C[io * 8 + jo] + A[k * 8 + ki] * P[ki * 8 + jo]
after:
    def main(A: Buffer((64,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        for k in range(8):
            P = allocate((64,), float32, "global")
            for l in range(64):
                P[l] = B[k * 64 + l]
            for io in range(2):
                if k == 0:
                    for j in range(8):
                        C[io * 8 + j] = 0.0
                for ki in range(8):
                    for jo in range(8):
                        C[io * 8 + jo] = C[io * 8 + jo] + A[k * 8 + ki] * P[ki * 8 + jo]

Schedules initialise all outputs of a block before its first step. Outputs that are larger than a
cache are then written, read and written again. Here they are written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import ClassVar, NamedTuple

from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.tir.buffer import Buffer
from autosched.tir.data import is_data
from autosched.tir.expr import BufferLoad, Expr, FloatImm, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.linear import linear
from autosched.tir.loops import around, count_from_zero
from autosched.tir.op import and_, const, eq
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import replace_stmt, substitute_stmt
from autosched.tir.walk import (
    direct_exprs,
    distinct,
    free_vars,
    map_children,
    stmts,
    substitute,
    uses,
)
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_SERIAL = (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED)


@dataclass(frozen=True)
class SinkInit(FunctionPass):
    """Moves the loops that initialise a reduction to right before its innermost reduction loops.

    The moved loops store one constant to exactly the elements that the only statement of the
    following loops accumulates, in the same order and each once. Nothing else in the following
    loops mentions the buffer. Reduction loops outside of the new place become a condition, which is
    true in the first iteration of all of them. Nests that reduce in several places with nothing
    between are left alone, because PromoteAccumulators joins them. Indices and conditions of the
    initialisation read no memory, because memory may change before the new place. Functions whose
    arguments may overlap stay as they are.
    """

    name: ClassVar[str] = "SinkInit"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(_sunk(func.body))


def _sunk(s: Stmt) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    new = map_children(s, _sunk)
    return _sequence(new) if isinstance(new, SeqStmt) else new


def _sequence(s: SeqStmt) -> Stmt:
    parts = list(s.stmts)
    for k in range(len(parts) - 1):
        moved = _moved(parts[k], parts[k + 1])
        if moved is not None:
            return _again(seq(*parts[:k], moved, *parts[k + 2 :]))
    return s


def _again(s: Stmt) -> Stmt:
    return _sequence(s) if isinstance(s, SeqStmt) else s


class _Start(NamedTuple):
    """The nest that stores initial values: loops, the conditions inside them, the store."""

    loops: list[For]
    conditions: list[Expr]
    store: BufferStore


def _start(s: Stmt) -> _Start | None:
    """The nest of an initialisation, if `s` stores a constant and does nothing else; else None."""
    loops: list[For] = []
    conditions: list[Expr] = []
    while True:
        match s:
            case For() if _is_counted(s) and not conditions:
                loops.append(s)
                s = s.body
            case IfThenElse(condition, then, None):
                conditions.append(condition)
                s = then
            case BufferStore(value=FloatImm() | IntImm(), predicate=None):
                fixed = not any(map(is_data, (*conditions, *s.indices)))
                return _Start(loops, conditions, s) if loops and fixed else None
            case _:
                return None


def _is_counted(loop: For) -> bool:
    return count_from_zero(loop) > 0 and loop.kind in _SERIAL


def _moved(first: Stmt, second: Stmt) -> Stmt | None:
    """`second` with the initialisation `first` moved into it; None where it must stay outside."""
    start = _start(first)
    if start is None:
        return None
    path = _path(second, start.store.buffer)
    if path is None:
        return None
    store = path[-1]
    loops = [s for s in path if isinstance(s, For)]
    if not isinstance(store, BufferStore) or not all(map(_is_counted, loops)):
        return None
    table = _matched(start, loops, store)
    if table is None:
        return None
    at = _place(loops, set(table.values()))
    if at is None:
        return None
    if any(isinstance(s, IfThenElse) for s in path[: path.index(at)]):
        return None
    moving = set(table.values())
    outer = loops[: loops.index(at)]
    steps = [s.loop_var for s in outer if s.loop_var not in moving]
    if steps and _is_perfect(path[path.index(next(s for s in outer if s.loop_var in steps)) :]):
        return None
    sunk = _start_at(start, table, {s.loop_var for s in outer}, steps)
    return replace_stmt(second, at, seq(sunk, at))


def _path(s: Stmt, buffer: Buffer) -> list[Stmt] | None:
    """The statements around the only use of `buffer` in `s`, an accumulating store, and that store.

    None if several statements mention the buffer, or the only one is no such store.
    """
    path: list[Stmt] = []
    while True:
        path.append(s)
        match s:
            case SeqStmt(parts):
                users = [part for part in parts if _mentions(part, buffer)]
                if len(users) != 1:
                    return None
                path.pop()
                (s,) = users
            case BufferStore():
                own = s.buffer is buffer and s.predicate is None
                return path if own and _accumulates(s) else None
            case For() | AttrStmt() | Allocate() | BufferRealize() | IfThenElse(else_case=None):
                if any(_reads(e, buffer) for e in direct_exprs(s)):
                    return None
                s = s.then_case if isinstance(s, IfThenElse) else s.body
            case _:
                return None


def _mentions(s: Stmt, buffer: Buffer) -> bool:
    for part in stmts(s):
        if isinstance(part, BufferStore | BufferRealize) and part.buffer.data is buffer.data:
            return True
        if isinstance(part, AttrStmt) and part.node in (buffer, buffer.data):
            return True
        if any(_reads(e, buffer) for e in direct_exprs(part)):
            return True
    return False


def _reads(e: Expr, buffer: Buffer) -> bool:
    nodes = distinct(e)
    loads = any(isinstance(n, BufferLoad) and n.buffer.data is buffer.data for n in nodes)
    return loads or buffer.data in free_vars(e)


def _accumulates(store: BufferStore) -> bool:
    """Whether the value reads the stored element and no other element of the buffer."""
    nodes = distinct(store.value)
    own = [n for n in nodes if isinstance(n, BufferLoad) and n.buffer.data is store.buffer.data]
    return bool(own) and all(
        n.buffer is store.buffer and n.indices == store.indices and n.predicate is None for n in own
    )


def _matched(start: _Start, loops: Sequence[For], store: BufferStore) -> dict[Var, Var] | None:
    """Maps the loop variables of the initialisation to those of `loops`, which are around `store`.

    None unless both nests store the same elements in the same order, each once.
    """
    used = {v for index in store.indices for v in free_vars(index)}
    spatial = [s for s in loops if s.loop_var in used]
    extents = [[s.extent for s in nest] for nest in (start.loops, spatial)]
    if extents[0] != extents[1]:
        return None
    pairs = zip(start.loops, spatial, strict=True)
    table = {own.loop_var: other.loop_var for own, other in pairs}
    for mine, theirs in zip(start.store.indices, store.indices, strict=True):
        if linear(substitute(mine, table)) != linear(theirs):
            return None
    return table if _is_once(spatial, store.indices) else None


def _is_once(loops: Sequence[For], indices: Sequence[Expr]) -> bool:
    """Whether no two iterations of the loops have the same indices."""
    extents = {s.loop_var: s.extent.value for s in loops if isinstance(s.extent, IntImm)}
    left = set(extents)
    for index in indices:
        terms = linear(index)[1]
        moving = []
        for term, stride in terms.items():
            if isinstance(term, Var) and term in left:
                moving.append(InnerLoop(extents[term], stride, ()))
                left.remove(term)
            elif uses(term, extents):
                return False
        if not is_injective(tuple(moving)):
            return False
    return not left


def _place(loops: Sequence[For], moving: set[Var]) -> For | None:
    """The outermost of the innermost reduction loops, before which the initialisation goes.

    None if there is none, or if it is the outermost loop of the nest.
    """
    at = len(loops)
    while at and loops[at - 1].loop_var in moving:
        at -= 1
    while at and loops[at - 1].loop_var not in moving:
        at -= 1
    return loops[at] if 0 < at < len(loops) and loops[at].loop_var not in moving else None


def _is_perfect(path: Sequence[Stmt]) -> bool:
    """Whether no statement on the path has another statement beside it."""
    for outer, inner in pairwise(path):
        if not isinstance(outer, For | IfThenElse | AttrStmt):
            return False
        if (outer.then_case if isinstance(outer, IfThenElse) else outer.body) is not inner:
            return False
    return True


def _start_at(start: _Start, table: dict[Var, Var], outer: set[Var], steps: Sequence[Var]) -> Stmt:
    """The initialisation inside the loops `outer`, in the first iteration of the loops `steps`."""
    store = start.store
    body: Stmt = store
    for condition in reversed(start.conditions):
        body = IfThenElse(condition, body)
    body = around([loop for loop in start.loops if table[loop.loop_var] not in outer], body)
    known = {own: other for own, other in table.items() if other in outer}
    body = substitute_stmt(body, dict(known))
    if not steps:
        return body
    first = [eq(step, const(0, step.dtype)) for step in steps]
    return IfThenElse(reduce(and_, first), body)
