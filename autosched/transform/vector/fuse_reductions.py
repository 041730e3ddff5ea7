"""FuseReductions: sums over the same elements are added up in one loop.

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

So a layer norm, which needs the sum of a row and that of its squares, reads the row once for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from autosched.nest.core import core_of
from autosched.tir.expr import BufferLoad, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import direct_exprs, free_vars, map_children, pre_order, stmts
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

OPERANDS = 8
"""Registers that stay free of accumulators, for what is read meanwhile."""


@dataclass(frozen=True)
class FuseReductions(FunctionPass):
    """Merges loops that PromoteAccumulators has made where they read the same elements.

    They have the same extents, and so have the loops around them, up to which nothing else is
    computed. Neither uses what the other stores, the statements between do not use what the
    second stores nor store what it uses, and the accumulators of both fit the registers of
    `vector_bytes` together. Functions whose arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "FuseReductions"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.attrs.get("tir.noalias", True):
            return func
        registers = core_of(self.vector_bytes).registers - OPERANDS
        return func.with_body(_Fuser(registers * self.vector_bytes).stmt(func.body))


class _Fuser:
    """One walk. `room` is how many bytes the accumulators of one loop may take."""

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
        """The statements, each with those behind it that can be merged with it."""
        if sum(map(_holds_reduction, parts)) < 2:
            return parts
        uses = [_Uses(part) for part in parts]
        first = 0
        while first < len(parts):
            for second in range(first + 1, len(parts)):
                alone = all(uses[second].is_independent(u) for u in uses[first:second])
                fused = self._pair(parts[first], parts[second]) if alone else None
                if fused is not None:
                    parts[first], uses[first] = fused, _Uses(fused)
                    del parts[second], uses[second]
                    break
            else:
                first += 1
        return parts

    def _pair(self, one: Stmt, two: Stmt) -> Stmt | None:
        """Both statements, which do not depend on each other, in the same loops."""
        while isinstance(two, AttrStmt) and _is_pragma(two):
            two = two.body
        match one, two:
            case AttrStmt(), _ if _is_pragma(one):
                body = self._pair(one.body, two)
                return None if body is None else one.with_(body=body)
            case For(), For() if _is_alike(one, two):
                body = self._pair(one.body, _renamed(two, one.loop_var))
                return None if body is None else one.with_(body=body)
        mine, theirs = _reduction(one), _reduction(two)
        if mine is None or theirs is None or mine.bytes + theirs.bytes > self._room:
            return None
        return mine.with_other(theirs)


def _is_pragma(s: AttrStmt) -> bool:
    return s.key in ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")


def _is_alike(one: For, two: For) -> bool:
    same = one.kind is two.kind and one.thread_binding is two.thread_binding is None
    same = same and one.loop_var.dtype is two.loop_var.dtype
    return same and (one.min, one.extent, one.annotations) == (two.min, two.extent, two.annotations)


def _renamed(loop: For, var: Var) -> Stmt:
    return substitute_stmt(loop.body, {loop.loop_var: var})


class _Uses:
    """The memory that a statement stores to, and all that it mentions, its own apart."""

    def __init__(self, s: Stmt) -> None:
        self.stored: set[Var] = set()
        self.mentioned: set[Var] = set()
        self._pure = True
        own: set[Var] = set()
        for part in stmts(s):
            if isinstance(part, Allocate):
                own.add(part.buffer_var)
            elif isinstance(part, BufferStore):
                self.stored.add(part.buffer.data)
            for e in direct_exprs(part):
                self._pure = self._pure and not has_side_effect(e)
                self.mentioned |= free_vars(e)
                loads = (n for n in pre_order(e) if isinstance(n, BufferLoad))
                self.mentioned.update(n.buffer.data for n in loads)
        self.stored -= own
        self.mentioned |= self.stored

    def is_independent(self, other: _Uses) -> bool:
        """Whether the two statements compute the same in either order."""
        apart = self.stored.isdisjoint(other.mentioned) and other.stored.isdisjoint(self.mentioned)
        return apart and self._pure and other._pure


# -- reductions in registers ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Accumulators, their first values, the loops that reduce, what becomes of them."""

    allocated: tuple[Allocate, ...]
    pragmas: tuple[AttrStmt, ...]
    before: tuple[Stmt, ...]
    loops: tuple[For, ...]
    steps: tuple[Stmt, ...]
    after: tuple[Stmt, ...]

    @property
    def bytes(self) -> int:
        sizes = [extent for a in self.allocated for extent in a.extents]
        counts = [e.value if isinstance(e, IntImm) else 1 << 30 for e in sizes]
        return sum(n * a.dtype.bytes for n, a in zip(counts, self.allocated, strict=True))

    def loads(self) -> set[BufferLoad]:
        """What the steps read, the accumulators apart."""
        own = {a.buffer_var for a in self.allocated}
        exprs = (e for s in self.steps for e in direct_exprs(s))
        found = {n for e in exprs for n in pre_order(e) if isinstance(n, BufferLoad)}
        return {load for load in found if load.buffer.data not in own}

    def with_other(self, other: _Reduction) -> Stmt | None:
        """Both in the loops of this one, where they have the same loops and read the same."""
        if len(self.loops) != len(other.loops):
            return None
        pairs = list(zip(self.loops, other.loops, strict=True))
        if not all(_is_alike(mine, theirs) for mine, theirs in pairs):
            return None
        table = {theirs.loop_var: mine.loop_var for mine, theirs in pairs}
        steps = tuple(substitute_stmt(s, table) for s in other.steps)
        both = _Reduction(
            (*self.allocated, *other.allocated),
            self.pragmas,
            (*self.before, *other.before),
            self.loops,
            (*self.steps, *steps),
            (*self.after, *other.after),
        )
        theirs = _Reduction(other.allocated, (), (), (), steps, ()).loads()
        return None if self.loads().isdisjoint(theirs) else both.stmt()

    def stmt(self) -> Stmt:
        """The statement."""
        loop = reduce(lambda body, s: s.with_(body=body), reversed(self.loops), seq(*self.steps))
        body = seq(*self.before, loop, *self.after)
        around = (*self.allocated, *self.pragmas)
        return reduce(lambda body, s: s.with_(body=body), reversed(around), body)


def _holds_reduction(s: Stmt) -> bool:
    """Whether loops and pragmas alone are around accumulators."""
    while isinstance(s, For | AttrStmt):
        s = s.body
    return isinstance(s, Allocate)


def _reduction(s: Stmt) -> _Reduction | None:
    """What `s` is made of, if it is accumulators in registers and one nest that reduces."""
    allocated: list[Allocate] = []
    pragmas: list[AttrStmt] = []
    while isinstance(s, Allocate) and s.buffer_var.scope == "local" and len(s.extents) == 1:
        allocated.append(s)
        s = s.body
    while isinstance(s, AttrStmt) and _is_pragma(s):
        pragmas.append(s)
        s = s.body
    if not allocated or not isinstance(s, SeqStmt):
        return None
    places = [k for k, part in enumerate(s.stmts) if isinstance(part, For)]
    if len(places) != 1:
        return None
    loops, steps = _nest(s.stmts[places[0]])
    before, after = s.stmts[: places[0]], s.stmts[places[0] + 1 :]
    if not all(isinstance(part, BufferStore) for part in (*before, *steps, *after)):
        return None
    return _Reduction(tuple(allocated), tuple(pragmas), before, loops, steps, after)


def _nest(s: Stmt) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
    """The loops, outermost first, and the statements in the innermost."""
    loops: list[For] = []
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    return tuple(loops), tuple(s.stmts) if isinstance(s, SeqStmt) else (s,)
