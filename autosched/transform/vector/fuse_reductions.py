"""FuseReductions: reductions over the same elements run in one loop.

before:
    def main(A: Buffer((256,), float32), S: Buffer((1,), float32), Q: Buffer((1,), float32)):
        with S.acc = allocate((16,), float32, "local"):
            S.acc[0:16] = broadcast(0.0, 16)
            for k in range(16):
                S.acc[0:16] = S.acc[0:16] + A[k * 16:k * 16 + 16]
            S[0] = S.acc[0]
        Q.acc = allocate((16,), float32, "local")
        Q.acc[0:16] = broadcast(0.0, 16)
        for l in range(16):
            Q.acc[0:16] = Q.acc[0:16] + A[l * 16:l * 16 + 16] * A[l * 16:l * 16 + 16]
        Q[0] = Q.acc[0]
after:
    def main(A: Buffer((256,), float32), S: Buffer((1,), float32), Q: Buffer((1,), float32)):
        S.acc = allocate((16,), float32, "local")
        Q.acc = allocate((16,), float32, "local")
        S.acc[0:16] = broadcast(0.0, 16)
        Q.acc[0:16] = broadcast(0.0, 16)
        for k in range(16):
            S.acc[0:16] = S.acc[0:16] + A[k * 16:k * 16 + 16]
            Q.acc[0:16] = Q.acc[0:16] + A[k * 16:k * 16 + 16] * A[k * 16:k * 16 + 16]
        S[0] = S.acc[0]
        Q[0] = Q.acc[0]

A layer norm, which needs the sum of a row and the sum of its squares, thus reads the row once for
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from autosched.nest.core import core_of
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import direct_loads, loads_in
from autosched.tir.stmt import Allocate, AssertStmt, AttrStmt, BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import direct_exprs, free_vars, map_children, stmts, substitute
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.held_reduction import HeldReduction, held_reduction, is_pragma

OPERANDS = 8
"""Registers that accumulators leave free, for the operands that are read meanwhile."""

_AS_IT_IS: Mapping[Var, Expr] = MappingProxyType({})


@dataclass(frozen=True)
class FuseReductions(FunctionPass):
    """Merges loops that PromoteAccumulators has made and that read the same elements.

    The loops have the same extents, and so have the loops around them, which begin with these
    reductions. The ends of rows that follow are merged, too. Neither reduction uses memory that the
    other stores to. The statements between them do not use what the second one stores, do not store
    what it uses, and assert nothing. The accumulators of both fit the registers of `vector_bytes`
    together. `registers` is 0 for the usual number at that width. Functions whose arguments may
    overlap stay as they are.
    """

    vector_bytes: int = 64
    registers: int = 0
    name: ClassVar[str] = "FuseReductions"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        registers = core_of(self.vector_bytes, self.registers).registers - OPERANDS
        return func.with_body(_Fuser(registers * self.vector_bytes).stmt(func.body))


class _Fuser:
    """One walk. `room` is the number of bytes that the accumulators of one loop may take."""

    def __init__(self, room: int) -> None:
        self._room = room

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        if isinstance(s, SeqStmt):
            parts = self._parts(list(s.stmts))
            s = s if len(parts) == len(s.stmts) else seq(*parts)
        return map_children(s, self.stmt)

    def _parts(self, parts: list[Stmt]) -> list[Stmt]:
        """The statements, each merged with the later ones that can be merged with it."""
        if sum(map(_holds_reduction, parts)) < 2:
            return parts
        uses: list[_Uses | None] = [None] * len(parts)  # filled for compared statements

        def used(k: int) -> _Uses:
            found = uses[k] = uses[k] or _Uses(parts[k])
            return found

        first = 0
        while first < len(parts):
            for second in range(first + 1, len(parts)):
                fused = self._pair(parts[first], parts[second])
                if fused is not None and all(
                    used(second).is_independent(used(k)) for k in range(first, second)
                ):
                    parts[first], uses[first] = fused, None
                    del parts[second], uses[second]
                    break
            else:
                first += 1
        return parts

    def _pair(self, one: Stmt, two: Stmt, renamed: Mapping[Var, Expr] = _AS_IT_IS) -> Stmt | None:
        """Both statements, which are independent of each other, in the same loops; else None.

        `renamed` maps the variables of loops around `two` to the variables of the loops around
        `one`.
        """
        while isinstance(two, AttrStmt) and is_pragma(two):
            two = two.body
        match one, two:
            case AttrStmt(), _ if is_pragma(one):
                body = self._pair(one.body, two, renamed)
                return None if body is None else one.with_(body=body)
            case For(), For() if _is_alike(one, two, renamed):
                body = self._pair(one.body, two.body, {**renamed, two.loop_var: one.loop_var})
                return None if body is None else one.with_(body=body)
        if isinstance(one, SeqStmt) and isinstance(two, SeqStmt):
            second = substitute_stmt(two, renamed)
            assert isinstance(second, SeqStmt)
            parts = self._parts([*one.stmts, *second.stmts])
            return seq(*parts) if len(parts) < len(one.stmts) + len(two.stmts) else None
        mine, theirs = held_reduction(one), held_reduction(two)
        if mine is None or theirs is None or mine.bytes + theirs.bytes > self._room:
            return None
        if not _stored(mine).isdisjoint(_stored(theirs)):
            return None  # they depend on each other, as parts of one stage do
        if _memory(mine.steps).isdisjoint(_memory(theirs.steps)):
            return None
        theirs = held_reduction(substitute_stmt(two, renamed))
        assert theirs is not None
        return _merged(mine, theirs)


def _is_alike(one: For, two: For, renamed: Mapping[Var, Expr]) -> bool:
    same = one.kind is two.kind and one.thread_binding is two.thread_binding is None
    same = same and one.loop_var.dtype is two.loop_var.dtype
    same = same and one.annotations == two.annotations
    return same and (one.min, one.extent) == (
        substitute(two.min, renamed),
        substitute(two.extent, renamed),
    )


class _Uses:
    """The memory that a statement stores to and mentions, without memory that it allocates."""

    def __init__(self, s: Stmt) -> None:
        self.stored: set[Var] = set()
        self.mentioned: set[Var] = set()
        self._pure = True
        own: set[Var] = set()
        for part in stmts(s):
            self._pure = self._pure and not isinstance(part, AssertStmt)
            if isinstance(part, Allocate):
                own.add(part.buffer_var)
            elif isinstance(part, BufferStore):
                self.stored.add(part.buffer.data)
            for e in direct_exprs(part):
                self._pure = self._pure and not has_side_effect(e)
                self.mentioned |= free_vars(e)
                self.mentioned.update(load.buffer.data for load in loads_in(e))
        self.stored -= own
        self.mentioned |= self.stored

    def is_independent(self, other: _Uses) -> bool:
        """Whether the two statements compute the same in either order."""
        apart = self.stored.isdisjoint(other.mentioned) and other.stored.isdisjoint(self.mentioned)
        return apart and self._pure and other._pure


def _holds_reduction(s: Stmt) -> bool:
    """Whether `s` begins, inside loops and pragmas alone, with an allocation of accumulators."""
    while isinstance(s, For | AttrStmt | SeqStmt):
        s = s.stmts[0] if isinstance(s, SeqStmt) else s.body
    return isinstance(s, Allocate)


def _merged(one: HeldReduction, two: HeldReduction) -> Stmt | None:
    """Both in the loops of the first; None unless they have the same loops and read the same."""
    if len(one.loops) != len(two.loops):
        return None
    pairs = list(zip(one.loops, two.loops, strict=True))
    if not all(_is_alike(mine, theirs, _AS_IT_IS) for mine, theirs in pairs):
        return None
    table = {theirs.loop_var: mine.loop_var for mine, theirs in pairs}
    steps = tuple(substitute_stmt(s, table) for s in two.steps)
    allocated = (*one.allocated, *two.allocated)
    own = {a.buffer_var for a in allocated}
    if _loads(one.steps, own).isdisjoint(_loads(steps, own)):
        return None
    before, after = (*one.before, *two.before), (*one.after, *two.after)
    steps = (*one.steps, *steps)
    return HeldReduction(allocated, one.pragmas, before, one.loops, steps, after).stmt()


def _stored(reduction: HeldReduction) -> set[Var]:
    """The memory that the results are stored to."""
    return {s.buffer.data for s in reduction.after if isinstance(s, BufferStore)}


def _memory(steps: Sequence[Stmt]) -> set[Var]:
    """The memory that the steps read."""
    return {load.buffer.data for s in steps for load in direct_loads(s)}


def _loads(steps: Sequence[Stmt], own: set[Var]) -> set[BufferLoad]:
    """The loads of the steps, except the loads from `own`."""
    loads = (load for s in steps for load in direct_loads(s))
    return {load for load in loads if load.buffer.data not in own}
