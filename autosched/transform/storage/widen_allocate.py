"""Expansion of an allocation into one copy for each lane, virtual thread or iteration."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Call, Expr
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.lanes import add_lanes, mul_lanes
from autosched.tir.op import const, mul
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Stmt
from autosched.tir.walk import map_children, map_expr_children, map_exprs


def widen_allocate(alloc: Allocate, parts: int, var: Expr, *, innermost: bool) -> Allocate:
    """Give `alloc` room for `parts` copies; its body uses copy number `var`.

    `innermost` interleaves the copies (index * parts + var); otherwise they follow one another
    (index + var * extent). Raises ScheduleError if the body uses the bare pointer, or a view in
    which the copies lie elsewhere: a view of another type, with strides, or, if the copies follow
    one another, with rows of another length.
    """
    widener = _Widener(alloc, parts, var, innermost)
    extents = widener.widened(alloc.extents)
    body = widener.stmt(alloc.body)
    return alloc.with_(extents=extents, body=body)


class _Widener:
    def __init__(self, alloc: Allocate, parts: int, var: Expr, innermost: bool) -> None:
        self._alloc = alloc
        self._parts = parts
        self._var = var
        self._innermost = innermost
        self._buffers: dict[Buffer, Buffer] = {}
        self._memo: dict[Expr, Expr] = {}

    def widened(self, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if self._innermost:
            return (*shape[:-1], mul(shape[-1], self._parts))
        return (mul(shape[0], self._parts), *shape[1:])

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BufferStore() if s.buffer.data is self._alloc.buffer_var:
                indices = self._moved(map_exprs(s.indices, self.expr))
                predicate = None if s.predicate is None else self.expr(s.predicate)
                buffer = self._buffer(s.buffer)
                return BufferStore(buffer, self.expr(s.value), indices, predicate)
            case DeclBuffer() if s.buffer.data is self._alloc.buffer_var:
                return DeclBuffer(self._buffer(s.buffer), self.stmt(s.body))
            case AttrStmt() if isinstance(s.node, Buffer):
                node = self._buffer(s.node) if self._owns(s.node) else s.node
                return s.with_(node=node, value=self.expr(s.value), body=self.stmt(s.body))
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        done = self._memo.get(e)
        if done is None:
            done = self._memo[e] = self._rewritten(e)
        return done

    def _rewritten(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad) and self._owns(e.buffer):
            indices = self._moved(map_exprs(e.indices, self.expr))
            predicate = None if e.predicate is None else self.expr(e.predicate)
            return BufferLoad(self._buffer(e.buffer), indices, predicate)
        if isinstance(e, Call) and e.op == "tvm_access_ptr" and self._takes(e):
            kind, data, offset, extent, mode = e.args
            (moved,) = self._moved((self.expr(offset),))
            return Call(e.dtype, e.op, (kind, data, moved, self.expr(extent), mode))
        if isinstance(e, Call) and e.op in POINTER_OFFSETS and not self._innermost:
            return self._call(e)
        if e is self._alloc.buffer_var:
            raise ScheduleError(
                f"the address of {self._alloc.buffer_var.name} is used as a value, so it cannot "
                f"be given {self._parts} copies"
            )
        return map_expr_children(e, self.expr)

    def _call(self, call: Call) -> Expr:
        """Move the offsets of a call that takes pairs of a pointer and an offset."""
        args = list(call.args)
        own = [(k, at) for k, at in POINTER_OFFSETS[call.op] if args[k] is self._alloc.buffer_var]
        pointers = {k for k, _ in own}
        args = [a if k in pointers else self.expr(a) for k, a in enumerate(args)]
        for _, at in own:
            (args[at],) = self._moved((args[at],))
        return Call(call.dtype, call.op, tuple(args))

    def _takes(self, call: Call) -> bool:
        return call.args[1] is self._alloc.buffer_var and not self._innermost

    def _owns(self, buffer: Buffer) -> bool:
        return buffer.data is self._alloc.buffer_var

    def _moved(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if self._innermost:
            *outer, last = indices
            return (
                *outer,
                add_lanes(mul_lanes(last, const(self._parts, last.dtype.element)), self._var),
            )
        first, *inner = indices
        return (add_lanes(first, mul(self._var, self._alloc.extents[0])), *inner)

    def _buffer(self, buffer: Buffer) -> Buffer:
        new = self._buffers.get(buffer)
        if new is None:
            self._check(buffer)
            offset = buffer.elem_offset
            if offset is not None and self._innermost:
                offset = mul(offset, self._parts)
            shape = self.widened(buffer.shape)
            new = self._buffers[buffer] = buffer.with_(shape=shape, elem_offset=offset)
        return new

    def _check(self, buffer: Buffer) -> None:
        alloc = self._alloc
        rows = self._innermost or buffer.shape[1:] == alloc.extents[1:]
        if buffer.dtype is not alloc.dtype or buffer.strides or not rows:
            raise ScheduleError(
                f"{buffer.name} is a view of {alloc.buffer_var.name}, which cannot be given "
                f"{self._parts} copies: it takes {alloc.dtype} of shape {alloc.extents} without "
                f"strides, found {buffer.dtype} of shape {buffer.shape}, strides {buffer.strides}"
            )
