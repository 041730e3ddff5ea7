"""Allocations that are accessed only in aligned vectors become arrays of vectors."""

from __future__ import annotations

from math import gcd

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import BufferLoad, Expr, IntImm, Ramp, Var
from autosched.tir.linear import linear, sum_of
from autosched.tir.op import floordiv
from autosched.tir.stmt import Allocate, BufferStore, DeclBuffer, Stmt
from autosched.tir.walk import direct_exprs, distinct, map_children, map_expr_children, stmts


def vectorise_pointers(body: Stmt) -> Stmt:
    """Give allocations a vector element type where possible.

    before: `B[i * 4:i * 4 + 4] = A[...]` over `allocate((16,), float32)`; after: `B[i] = A[...]`
    over `allocate((4,), float32x4)`. It is possible if every access is a contiguous vector of the
    same width without a predicate that starts at a multiple of the width, and the width divides the
    extent.
    """
    widths = _widths(body)
    return body if not widths else _Rewriter(widths).stmt(body)


def _widths(body: Stmt) -> dict[Var, int]:
    widths: dict[Var, int] = {}
    rejected: set[Var] = set()

    def access(buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None) -> None:
        width = _vector_width(buffer, indices) if predicate is None else 1
        if width == 1 or widths.setdefault(buffer.data, width) != width:
            rejected.add(buffer.data)

    def expr(e: Expr) -> None:
        for node in distinct(e):
            if isinstance(node, BufferLoad):
                access(node.buffer, node.indices, node.predicate)
            elif isinstance(node, Var) and node.dtype.is_handle:
                rejected.add(node)

    allocated: dict[Var, Allocate] = {}
    for s in stmts(body):
        if isinstance(s, Allocate):
            allocated[s.buffer_var] = s
        elif isinstance(s, BufferStore):
            access(s.buffer, s.indices, s.predicate)
        elif isinstance(s, DeclBuffer):
            rejected.add(s.buffer.data)
        for e in direct_exprs(s):
            expr(e)
    return {
        pointer: width
        for pointer, width in widths.items()
        if pointer not in rejected and _divides(width, allocated.get(pointer))
    }


def _divides(width: int, alloc: Allocate | None) -> bool:
    if alloc is None or len(alloc.extents) != 1 or alloc.dtype.lanes > 1:
        return False
    extent = alloc.extents[0]
    return isinstance(extent, IntImm) and extent.value % width == 0


def _vector_width(buffer: Buffer, indices: tuple[Expr, ...]) -> int:
    """The lanes of an aligned contiguous access; 1 for any other access."""
    index = indices[-1]
    if len(indices) != 1 or buffer.dtype.lanes > 1 or not isinstance(index, Ramp):
        return 1
    if buffer.elem_offset is not None or buffer.strides:
        return 1
    if not is_one(index.stride):
        return 1
    constant, terms = linear(index.base)
    aligned = gcd(constant, *terms.values()) % index.lanes == 0
    return index.lanes if aligned else 1


class _Rewriter:
    def __init__(self, widths: dict[Var, int]) -> None:
        self._widths = widths
        self._buffers: dict[Buffer, Buffer] = {}
        self._memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Allocate) and s.buffer_var in self._widths:
            width = self._widths[s.buffer_var]
            extents = (floordiv(s.extents[0], width),)
            dtype, body = s.dtype.with_lanes(width), self.stmt(s.body)
            return s.with_(dtype=dtype, extents=extents, body=body)
        if isinstance(s, BufferStore) and s.buffer.data in self._widths:
            index = self._index(s.buffer, s.indices)
            return BufferStore(self._buffer(s.buffer), self.expr(s.value), (index,))
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        done = self._memo.get(e)
        if done is None:
            if isinstance(e, BufferLoad) and e.buffer.data in self._widths:
                index = self._index(e.buffer, e.indices)
                done = BufferLoad(self._buffer(e.buffer), (index,))
            else:
                done = map_expr_children(e, self.expr)
            self._memo[e] = done
        return done

    def _index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        ramp = indices[0]
        assert isinstance(ramp, Ramp)
        constant, terms = linear(ramp.base)
        width = self._widths[buffer.data]
        narrow = {self.expr(term): factor // width for term, factor in terms.items()}
        return sum_of(narrow, constant // width, ramp.base.dtype)

    def _buffer(self, buffer: Buffer) -> Buffer:
        new = self._buffers.get(buffer)
        if new is None:
            width = self._widths[buffer.data]
            new = self._buffers[buffer] = Buffer(
                buffer.data,
                buffer.dtype.with_lanes(width),
                tuple(floordiv(e, width) for e in buffer.shape),
                name=buffer.name,
                data_alignment=buffer.data_alignment,
            )
        return new
