"""SkipMasked: tiles of loops are skipped where a condition on indices leaves nothing to do.

before:
    def main(A: Buffer((64, 256), float32), Y: Buffer((64,), float32)):
        for i in range(64):
            Y[i] = 0.0
            for j in range(256):
                Y[i] = Y[i] + if_then_else(j <= i, A[i, j], 0.0)
after:
    def main(A: Buffer((64, 256), float32), Y: Buffer((64,), float32)):
        for i in range(64):
            Y[i] = 0.0
        for i.o in range(2):
            for j.o in range(2):
                if j.o * 128 - i.o * 32 - 31 <= 0:
                    for i.i in range(32):
                        for j.i in range(128):
                            Y[i.o * 32 + i.i] = Y[i.o * 32 + i.i] + if_then_else(j.o * 128 + j.i <=
                                    i.o * 32 + i.i, A[i.o * 32 + i.i, j.o * 128 + j.i], 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import Call, Cast, Expr, FloatImm, IntImm, Select, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, loads_in, nodes_with
from autosched.tir.linear import linear
from autosched.tir.loops import around
from autosched.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.substitute_stmt import replace_stmt
from autosched.tir.walk import child_stmts, free_vars, map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.masked_tiles import (
    Nest,
    chain,
    extent_of,
    ranges_of,
    relaxed,
    unguarded,
)
from autosched.transform.loops.masked_values import (
    Inequality,
    Known,
    Ranges,
    inequalities,
    known_of,
    numbers_unless,
    share_kept,
)

_LEAST_SHARE = 0.25
"""Conditions that leave out less are left as they are: those of borders, mostly."""

_CHOICES = bits_of(Call, Select, Cast)


@dataclass(frozen=True)
class SkipMasked(FunctionPass):
    """Skips tiles of loops in which a condition on indices leaves nothing to be done.

    Steps of a reduction have nothing to do where the condition makes what they add zero (or what a
    maximum compares the least number): in an if_then_else, or in a factor of a product, whatever
    the other factor is; also where the factor was stored elsewhere, zero but for such a condition.
    A store has nothing to do where all reads of its element are behind such a condition. Where
    another number is stored instead, tiles store that number.

    Tiles have at most 8 rows, 32 columns, and 32 terms of a sum, 128 of one that is innermost. The
    steps that run keep their order. Conditions that leave out less than a quarter, and functions
    whose arguments may overlap, stay as they are.
    """

    name: ClassVar[str] = "SkipMasked"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not _has_triangles(func.body, {}):
            return func
        body = _Skipper(known_of(func)).stmt(func.body)
        return func if body is func.body else func.with_body(body)


def _has_triangles(s: Stmt, ranges: dict[Var, tuple[int, int]]) -> bool:
    """Whether some stored value has a condition that leaves out enough."""
    if isinstance(s, For) and extent_of(s):
        ranges[s.loop_var] = (0, extent_of(s) - 1)
    if not isinstance(s, BufferStore):
        return any(_has_triangles(child, ranges) for child in child_stmts(s))
    return any(
        _share(n, s, ranges) >= _LEAST_SHARE
        for e in nodes_with(s.value, _CHOICES)
        for n in numbers_unless(e)
    )


def _share(needed: Inequality, store: BufferStore, ranges: Ranges) -> float:
    """The share of the values of the variables for which the inequality fails, about.

    0 if it compares no two axes of what the store computes, as the conditions of borders do.
    """
    axes = {_axis(term, store) for term in needed.terms}
    return 1 - share_kept([needed], ranges) if len(axes) > 1 else 0


def _axis(term: Expr, store: BufferStore) -> int:
    """The place of the index that the term is a part of; -1 for one of a sum."""
    return next((k for k, e in enumerate(store.indices) if term in linear(e)[1]), -1)


class _Skipper:
    """One walk; `_ranges` has the values of the variables of loops around."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._ranges: dict[Var, tuple[int, int]] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, self.stmt)
        done = self._nest(s)
        if done is not None:
            return done
        if extent_of(s):
            self._ranges[s.loop_var] = (0, extent_of(s) - 1)
        return map_children(s, self.stmt)

    def _nest(self, root: For) -> Stmt | None:
        """The loops that begin with `root` in tiles; None if nothing of them can be left out."""
        loops, leaf = chain(root)
        ranges = {**self._ranges, **ranges_of(loops)}
        if not loops:
            return None
        match unguarded(leaf):
            case BufferStore() as store if _reads_itself_only(store):
                nest = Nest(loops, leaf, store, [], ranges)
                return self._stored(nest) if _keeps_order(nest) else None
            case SeqStmt((start, steps)):
                first, last = _end(start), _end(steps)
                if first and last and _is_sum(first, last) and _reads_itself_only(last):
                    nest = Nest(loops, leaf, last, [], ranges)
                    return self._summed(nest, start, steps) if _keeps_order(nest) else None
        return None

    def _stored(self, nest: Nest) -> Stmt | None:
        """Tiles of loops around a store."""
        store = nest.store
        needed = _worthy(self._known.needed(store), nest)
        if needed:
            return replace(nest, needed=needed).tiled()
        match store.value:
            case Select(condition, _, other) | Call("if_then_else", (condition, _, other)):
                needed = _worthy(list(inequalities(condition)), nest)
                if needed and isinstance(other, IntImm | FloatImm):
                    filled = BufferStore(store.buffer, other, store.indices)
                    otherwise = replace_stmt(nest.leaf, store, filled)
                    return replace(nest, needed=needed, otherwise=otherwise).tiled()
        return None

    def _summed(self, nest: Nest, start: Stmt, steps: Stmt) -> Stmt | None:
        """Tiles of loops around the start of a reduction and its steps."""
        both = _common(self._needed(start, nest.ranges), self._needed(steps, nest.ranges))
        if both := _worthy(both, nest):
            return replace(nest, needed=both).tiled()
        if not isinstance(nest.leaf, SeqStmt) or not _apart(nest.loops, nest.store):
            return None
        apart = around(nest.loops, copy_stmt(steps, {}))
        done = self._nest(apart) if isinstance(apart, For) else None
        return None if done is None else seq(around(nest.loops, start), copy_stmt(done, {}))

    def _needed(self, s: Stmt, ranges: Ranges) -> list[Inequality]:
        """What is needed of the variables outside of `s`, which ends in one store."""
        inside, end = ranges_of(chain(s)[0]), _end(s)
        needed = [] if end is None else self._known.needed(end)
        return [relaxed(n, inside, ranges) for n in needed]


def _worthy(needed: Sequence[Inequality], nest: Nest) -> list[Inequality]:
    """All of `needed` that can fail, if one of them leaves out enough."""
    shares = [_share(n, nest.store, nest.ranges) for n in needed]
    if not any(share >= _LEAST_SHARE for share in shares):
        return []
    return [n for n, share in zip(needed, shares, strict=True) if share]


def _common(one: Sequence[Inequality], other: Sequence[Inequality]) -> list[Inequality]:
    """The inequalities that follow from one of each."""
    found = []
    for a in one:
        same = [b.constant for b in other if b.terms == a.terms and a.terms]
        if same:
            found.append(Inequality(min(a.constant, max(same)), a.terms))
    return found


def _end(s: Stmt) -> BufferStore | None:
    """The store that loops and conditions of `s` contain and nothing else."""
    end = unguarded(chain(s)[1])
    return end if isinstance(end, BufferStore) else None


def _is_sum(start: BufferStore, steps: BufferStore) -> bool:
    """Whether `start` stores a number to an element that `steps` change."""
    return isinstance(start.value, IntImm | FloatImm) and start.buffer is steps.buffer


def _reads_itself_only(store: BufferStore) -> bool:
    """Whether a store, which has no predicate, reads no element of its buffer but its own."""
    return store.predicate is None and all(
        e.indices == store.indices and e.buffer.is_laid_out_as(store.buffer)
        for index in (*store.indices, store.value)
        for e in loads_in(index)
        if e.buffer.data is store.buffer.data
    )


def _apart(loops: Sequence[For], store: BufferStore) -> bool:
    """Whether each iteration of the loops stores to other elements."""
    left = {loop.loop_var: extent_of(loop) for loop in loops}
    for index in store.indices:
        terms = linear(index)[1]
        strides = {v: factor for v, factor in terms.items() if isinstance(v, Var) and v in left}
        rest = (free_vars(term) for term in terms if term not in strides)
        inner = tuple(InnerLoop(left[v], factor, ()) for v, factor in strides.items())
        if is_injective(inner) and all(left.keys().isdisjoint(found) for found in rest):
            for v in strides:
                del left[v]
    return not left


def _keeps_order(nest: Nest) -> bool:
    """Whether steps of one element keep their order in tiles: those of sums do."""
    moving = {v for index in nest.store.indices for v in free_vars(index)}
    return _apart([loop for loop in nest.loops if loop.loop_var in moving], nest.store)
