"""HoistInvariants: statements that do the same in every iteration of a loop move before it.

before:
    def main(A: Buffer((16,), float32), Y: Buffer((16,), float32)):
        for j in range(16):
            total = allocate((1,), float32, "global")
            total[0] = 0.0
            for k in range(16):
                total[0] = total[0] + A[k]
            Y[j] = A[j] / total[0]
after:
    def main(A: Buffer((16,), float32), Y: Buffer((16,), float32)):
        total = allocate((1,), float32, "global")
        total[0] = 0.0
        for k in range(16):
            total[0] = total[0] + A[k]
        for j in range(16):
            Y[j] = A[j] / total[0]

Schedules compute such a stage inside a loop that it does not depend on, such as the last step of a
softmax's sum at each of its outputs. LLVM moves invariant instructions, but no loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.loops import trip_count
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.walk import direct_exprs, free_vars, map_children, stmts
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_Storage = Allocate | BufferRealize

_MOVABLE = (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
)


@dataclass(frozen=True)
class HoistInvariants(FunctionPass):
    """Moves loop-invariant statements out of loops.

    Such a statement does not mention the loop's variable. It writes only storage that is allocated
    in the loop's body, so that nothing is left of it from one iteration to the next. Nothing else
    in the body writes what it reads or writes. Its storage moves with it. Loops that run in
    parallel or on threads, or may not run at all, stay as they are, and so do functions whose
    arguments may overlap.
    """

    name: ClassVar[str] = "HoistInvariants"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        if not any(isinstance(s, _Storage) for s in stmts(func.body)):
            return func
        return func.with_body(_Hoister().stmt(func.body))


class _Hoister:
    def __init__(self) -> None:
        self.uses: dict[Expr, _Uses] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        new = map_children(s, self.stmt)
        return _split(new, self.uses) if isinstance(new, For) and _is_sure(new) else new


def _is_sure(loop: For) -> bool:
    """Whether the loop runs on one thread and at least once."""
    serial = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED)
    return serial and trip_count(loop) > 0


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement of the body: the pointers it reads and writes, and whether it may be moved."""

    stmt: Stmt
    reads: frozenset[Var]
    writes: frozenset[Var]
    movable: bool

    @property
    def touches(self) -> frozenset[Var]:
        return self.reads | self.writes


@dataclass(frozen=True, slots=True)
class _Uses:
    """What the evaluation of an expression touches.

    `reads` has the pointers that it reads. `elsewhere` says that a pointer is a variable of the
    expression, or that a buffer in it begins at an offset that is an expression. `effect` says that
    the evaluation has a side effect.
    """

    reads: frozenset[Var]
    elsewhere: bool
    effect: bool


def _uses_of(e: Expr, known: dict[Expr, _Uses]) -> _Uses:
    found = known.get(e)
    if found is None:
        pointers = {v for v in free_vars(e) if v.dtype.is_handle}
        loads = [load.buffer for load in loads_in(e)]
        reads = frozenset(pointers.union([b.data for b in loads]))
        elsewhere = bool(pointers) or any(map(_is_view, loads))
        found = known[e] = _Uses(reads, elsewhere, has_side_effect(e))
    return found


def _split(loop: For, uses: dict[Expr, _Uses]) -> Stmt:
    """The invariant statements of the loop's body and then the loop; else the loop alone."""
    storage, body = _flat(loop.body)
    if not storage or len(body) < 2:
        return loop
    parts = [_part(s, loop.loop_var, uses) for s in body]
    fixed = {_pointer(s) for s in storage if not _depends(s, loop.loop_var)}
    moved = _invariant(parts, fixed, {_pointer(s) for s in storage} - fixed)
    if not moved or len(moved) == len(parts):
        return loop
    outside = frozenset().union(*(p.touches for p in moved))
    rest = seq(*(p.stmt for p in parts if p not in moved))
    new = For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        _around([s for s in storage if _pointer(s) not in outside], rest),
        loop.thread_binding,
        loop.annotations,
    )
    return _around(
        [s for s in storage if _pointer(s) in outside], seq(*(p.stmt for p in moved), new)
    )


def _invariant(parts: list[_Part], fixed: set[Var], varying: set[Var]) -> list[_Part]:
    """The parts that can be computed before the loop, in order.

    `fixed` has the storage of the body that can be allocated before the loop, `varying` the storage
    that cannot.
    """
    moved = [p for p in parts if p.movable and p.writes <= fixed and not p.touches & varying]
    while True:
        stay = [p for p in parts if p not in moved]
        kept = [p for p in moved if not any(_hinders(p, q, parts) for q in stay)]
        if len(kept) == len(moved):
            return kept
        moved = kept


def _hinders(part: _Part, other: _Part, order: list[_Part]) -> bool:
    """Whether `part` cannot move ahead of `other`: one would read another value than before."""
    earlier = order.index(other) < order.index(part)
    return bool(other.writes & part.touches or (earlier and other.reads & part.writes))


def _flat(body: Stmt) -> tuple[list[_Storage], list[Stmt]]:
    """The storage that lasts to the end of `body`, and the statements of `body` in order."""
    storage: list[_Storage] = []
    found: list[Stmt] = []
    left = [body]
    while left:
        s = left.pop()
        if isinstance(s, SeqStmt):
            left.extend(reversed(s.stmts))
        elif isinstance(s, Allocate | BufferRealize) and not left:
            storage.append(s)
            left.append(s.body)
        else:
            found.append(s)
    return storage, found


def _pointer(s: _Storage) -> Var:
    return s.buffer_var if isinstance(s, Allocate) else s.buffer.data


def _depends(s: Stmt, var: Var) -> bool:
    """Whether `s` itself, without the statements in it, mentions `var`."""
    return any(var in free_vars(e) for e in direct_exprs(s))


def _around(storage: list[_Storage], body: Stmt) -> Stmt:
    for s in reversed(storage):
        if isinstance(s, Allocate):
            body = Allocate(s.buffer_var, s.dtype, s.extents, s.condition, body, s.annotations)
        else:
            body = BufferRealize(s.buffer, s.bounds, s.condition, body)
    return body


def _part(root: Stmt, var: Var, uses: dict[Expr, _Uses]) -> _Part:
    reads: set[Var] = set()
    writes: set[Var] = set()
    inside: set[Var] = set()
    movable = True
    for s in stmts(root):
        movable = movable and isinstance(s, _MOVABLE) and not _depends(s, var)
        if isinstance(s, BufferStore):
            writes.add(s.buffer.data)
            movable = movable and not _is_view(s.buffer)
        elif isinstance(s, Allocate | BufferRealize):
            inside.add(_pointer(s))
        for e in direct_exprs(s):
            own = _uses_of(e, uses)
            reads |= own.reads
            movable = movable and not own.elsewhere and not own.effect
            if own.effect:
                writes |= own.reads
    return _Part(root, frozenset(reads - inside), frozenset(writes - inside), movable)


def _is_view(buffer: Buffer) -> bool:
    """Whether the buffer begins at an offset that is an expression: it may depend on the loop."""
    return buffer.elem_offset is not None and not isinstance(buffer.elem_offset, IntImm)
