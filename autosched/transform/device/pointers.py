"""Replacement of the pointers to memory in statements."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Stmt
from autosched.tir.walk import map_children, map_expr_children, map_exprs


def replace_pointers(s: Stmt, table: Mapping[Var, Var]) -> Stmt:
    """Replace the pointers of `table` in allocations, buffers, attributes and calls of `s`."""
    return _Replacer(table).stmt(s)


class _Replacer:
    def __init__(self, table: Mapping[Var, Var]) -> None:
        self.table = table
        self.buffers: dict[Buffer, Buffer] = {}
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Allocate() if s.buffer_var in self.table:
                s = s.with_(buffer_var=self.table[s.buffer_var])
            case DeclBuffer() if s.buffer.data in self.table:
                s = s.with_(buffer=self._buffer(s.buffer))
            case BufferStore() if s.buffer.data in self.table:
                s = s.with_(buffer=self._buffer(s.buffer))
            case AttrStmt() if isinstance(s.node, Var) and s.node in self.table:
                s = s.with_(node=self.table[s.node])
            case AttrStmt() if isinstance(s.node, Buffer) and s.node.data in self.table:
                s = s.with_(node=self._buffer(s.node))
        return map_children(s, self.stmt, self._expr)

    def _expr(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            if isinstance(e, Var):
                done = self.table.get(e, e)
            elif isinstance(e, BufferLoad) and e.buffer.data in self.table:
                predicate = None if e.predicate is None else self._expr(e.predicate)
                indices = map_exprs(e.indices, self._expr)
                done = BufferLoad(self._buffer(e.buffer), indices, predicate)
            else:
                done = map_expr_children(e, self._expr)
            self.memo[e] = done
        return done

    def _buffer(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = buffer.with_(data=self.table[buffer.data])
        return found
