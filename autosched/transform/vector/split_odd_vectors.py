"""SplitOddVectors: vectors of several registers, their lanes no power of two, are one for each.

before:
    def main(A: Buffer((24,), float32), B: Buffer((24,), float32)):
        B[0:24] = A[0:24] + broadcast(1.0, 24)
after SplitOddVectors{vector_bytes=32}:
    def main(A: Buffer((24,), float32), B: Buffer((24,), float32)):
        B[0:8] = A[0:8] + broadcast(1.0, 8)
        B[8:16] = A[8:16] + broadcast(1.0, 8)
        B[16:24] = A[16:24] + broadcast(1.0, 8)

What LLVM carries from one block to the next, as sums from round to round of a loop, is one register
for each lane where such a vector is no single register: a product with 48 lanes took 20 to 40 times
as long (AVX-512). It splits powers of two itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import BufferLoad, Expr
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.expressions.effects import loads_elsewhere
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.lanes import lane_slice


@dataclass(frozen=True)
class SplitOddVectors(FunctionPass):
    """Cuts stores into registers of `vector_bytes` of the widest type in them; the last is a rest.

    What does more than work lane by lane stays whole, what loads other elements of the memory that
    it stores to, and all of a function whose arguments may overlap.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "SplitOddVectors"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(self._stmt(func.body))

    def _stmt(self, s: Stmt) -> Stmt:
        return self._store(s) if isinstance(s, BufferStore) else map_children(s, self._stmt)

    def _store(self, s: BufferStore) -> Stmt:
        lanes = s.value.dtype.lanes
        if lanes.bit_count() < 2 or s.buffer.dtype.lanes > 1:
            return s
        fit = max(1, self.vector_bytes // _widest(s.value))
        if lanes <= fit or loads_elsewhere(s.value, s.buffer, s.indices):
            return s
        pieces = []
        for start in range(0, lanes, fit):
            piece = _piece(s, start, min(fit, lanes - start))
            if piece is None:
                return s
            pieces.append(piece)
        return seq(*pieces)


def _widest(e: Expr) -> int:
    """Bytes of the widest element that is computed or loaded; indices are addresses."""
    children = () if isinstance(e, BufferLoad) else e.children()
    return max([e.dtype.element.bytes, *(_widest(c) for c in children if c.dtype.lanes > 1)])


def _piece(s: BufferStore, start: int, lanes: int) -> BufferStore | None:
    """The store of some lanes."""
    parts: list[Expr] = []
    for e in (s.value, *s.indices, *(() if s.predicate is None else (s.predicate,))):
        part = lane_slice(e, start, lanes)
        if part is None:
            return None
        parts.append(part)
    value, *indices = parts
    predicate = None if s.predicate is None else indices.pop()
    return BufferStore(s.buffer, value, tuple(indices), predicate)
