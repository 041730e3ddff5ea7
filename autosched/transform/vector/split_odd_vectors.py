"""SplitOddVectors: vectors that LLVM does not split well are cut into registers or loops.

A vector of several registers whose lanes are no power of two becomes one vector for each register:

before:
    def main(A: Buffer((24,), float32), B: Buffer((24,), float32)):
        B[0:24] = A[0:24] + broadcast(1.0, 24)
after SplitOddVectors{vector_bytes=32}:
    def main(A: Buffer((24,), float32), B: Buffer((24,), float32)):
        B[0:8] = A[0:8] + broadcast(1.0, 8)
        B[8:16] = A[8:16] + broadcast(1.0, 8)
        B[16:24] = A[16:24] + broadcast(1.0, 8)

If such a vector is carried from one basic block to the next, as a sum is from round to round of a
loop, LLVM takes one register for each lane: a product with 48 lanes took 20 to 40 times as long
(AVX-512). LLVM splits powers of two itself. A vector of many lanes becomes a loop:

before:
    def main(A: Buffer((20,), float32), B: Buffer((20,), float32)):
        B[0:20] = A[0:20] + broadcast(1.0, 20)
after SplitOddVectors{most_lanes=8}:
    def main(A: Buffer((20,), float32), B: Buffer((20,), float32)):
        for lane.o in range(2, annotations={"unroll_count": 1}):
            B[lane.o * 8:lane.o * 8 + 8] = A[lane.o * 8:lane.o * 8 + 8] + broadcast(1.0, 8)
        B[16:20] = A[16:20] + broadcast(1.0, 4)

The time that LLVM takes for a vector grows with the square of its lanes: for an exponential of 512
lanes it is 0.3 s, of 4,096 lanes 84 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import BufferLoad, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import mul
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, nop, seq
from autosched.tir.walk import map_children
from autosched.transform.expressions.effects import loads_elsewhere
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.lanes import lane_slice


@dataclass(frozen=True)
class SplitOddVectors(FunctionPass):
    """Cuts stores so that vectors of their widest type fit registers of `vector_bytes`.

    The last piece is a remainder. Stores of more than `most_lanes` lanes are first cut into vectors
    of that many lanes. As many sums of float32 fill the registers of AVX-512, so that the steps of
    a reduction over rows of them need no memory. A store stays whole if its value does more than
    work lane by lane, or loads other elements of the memory that it stores to. Functions whose
    arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    most_lanes: int = 512
    name: ClassVar[str] = "SplitOddVectors"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(self._stmt(func.body))

    def _stmt(self, s: Stmt) -> Stmt:
        return self._store(s) if isinstance(s, BufferStore) else map_children(s, self._stmt)

    def _store(self, s: BufferStore) -> Stmt:
        lanes = s.value.dtype.lanes
        many, odd = lanes > self.most_lanes, lanes.bit_count() > 1
        if not (many or odd) or s.buffer.dtype.lanes > 1:
            return s
        if loads_elsewhere(s.value, s.buffer, s.indices):
            return s
        return self._loop(s, lanes) if many else self._registers(s, lanes)

    def _loop(self, s: BufferStore, lanes: int) -> Stmt:
        count, rest = divmod(lanes, self.most_lanes)
        number = Var("lane.o") if count > 1 else IntImm(0)
        part: Stmt | None = _piece(s, mul(number, self.most_lanes), self.most_lanes)
        last = _piece(s, count * self.most_lanes, rest) if rest else nop()
        if part is None or last is None:
            return s
        if isinstance(number, Var):
            notes = {"unroll_count": 1}
            low, extent = IntImm(0), IntImm(count)
            part = For(number, low, extent, ForKind.SERIAL, part, annotations=notes)
        return seq(part, self._stmt(last))

    def _registers(self, s: BufferStore, lanes: int) -> Stmt:
        fit = max(1, self.vector_bytes // _widest(s.value))
        if lanes <= fit:
            return s
        pieces = []
        for start in range(0, lanes, fit):
            piece = _piece(s, start, min(fit, lanes - start))
            if piece is None:
                return s
            pieces.append(piece)
        return seq(*pieces)


def _widest(value: Expr) -> int:
    """The bytes of the widest element that is computed or loaded; indices do not count."""
    seen = {value}
    stack = [value]
    while stack:
        e = stack.pop()
        children = () if isinstance(e, BufferLoad) else e.children()
        new = [c for c in children if c.dtype.lanes > 1 and c not in seen]
        seen.update(new)
        stack += new
    return max(e.dtype.element.bytes for e in seen)


def _piece(s: BufferStore, start: Expr | int, lanes: int) -> BufferStore | None:
    """The store of `lanes` lanes from `start` on; None if it cannot be sliced."""
    parts: list[Expr] = []
    for e in (s.value, *s.indices, *(() if s.predicate is None else (s.predicate,))):
        part = lane_slice(e, start, lanes)
        if part is None:
            return None
        parts.append(part)
    value, *indices = parts
    predicate = None if s.predicate is None else indices.pop()
    return BufferStore(s.buffer, value, tuple(indices), predicate)
