"""Copies of a statement in which every variable bound inside is a new one.

Passes that repeat a statement (unrolling, partitioning, virtual threads) make the second and later
copies with `copy_stmt`, so that no variable is bound twice in a function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, Let, Var
from autosched.tir.kinds import bits_of, kinds
from autosched.tir.repeated_substitution import RepeatedSubstitution
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)
from autosched.tir.substitute_stmt import map_stmt, substitute_stmt
from autosched.tir.walk import free_vars, map_children, map_expr_children, stmts

_BINDERS = (For, LetStmt, Allocate, AllocateConst, DeclBuffer)
_LOADS = bits_of(BufferLoad)


def copy_stmt(stmt: Stmt, table: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with free variables replaced by `table` and each bound variable by a fresh one."""
    return _Copier(table).stmt(stmt) if _binds(stmt) else substitute_stmt(stmt, table)


def copies(stmt: Stmt, tables: Sequence[Mapping[Var, Expr]]) -> list[Stmt]:
    """One copy of `stmt` for each table; the first keeps the variables that `stmt` binds.

    All tables have the same keys.
    """
    binds = _binds(stmt)
    substituted = RepeatedSubstitution(tables[0] if tables else ())
    made: list[Stmt] = []
    for table in tables:
        copy = map_stmt(stmt, partial(substituted, table=table))
        made.append(_Copier({}).stmt(copy) if binds and made else copy)
    return made


def distinct_memory(stmt: Stmt) -> Stmt:
    """`stmt` in which no two allocations have one pointer: later ones and their code are copies."""
    return _distinct(stmt, set())


def _distinct(s: Stmt, seen: set[Var]) -> Stmt:
    if isinstance(s, Allocate):
        if s.buffer_var in seen:
            return copy_stmt(s, {})
        seen.add(s.buffer_var)
    return map_children(s, partial(_distinct, seen=seen))


def _binds(stmt: Stmt) -> bool:
    return any(isinstance(s, _BINDERS) for s in stmts(stmt))


def renamed(var: Var) -> Var:
    """A new variable with the name and type of `var`."""
    return type(var)(var.name, var.dtype, element=var.element, scope=var.scope)


class _Copier:
    def __init__(self, table: Mapping[Var, Expr]) -> None:
        self._vars: dict[Var, Expr] = dict(table)
        self._buffers: dict[Buffer, Buffer] = {}
        self._pointers: set[Var] = set()
        self._declared: set[Buffer] = set()

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                low, extent = self.expr(s.min), self.expr(s.extent)
                var = self._bind(s.loop_var)
                return s.with_(loop_var=var, min=low, extent=extent, body=self.stmt(s.body))
            case LetStmt():
                value = self.expr(s.value)
                return LetStmt(self._bind(s.var), value, self.stmt(s.body))
            case Allocate():
                extents = tuple(map(self.expr, s.extents))
                condition = self.expr(s.condition)
                var = self._bind_pointer(s.buffer_var)
                body = self.stmt(s.body)
                return s.with_(buffer_var=var, extents=extents, condition=condition, body=body)
            case AllocateConst():
                extents = tuple(map(self.expr, s.extents))
                var = self._bind_pointer(s.buffer_var)
                return AllocateConst(var, s.dtype, extents, s.data, self.stmt(s.body))
            case DeclBuffer():
                self._declared.add(s.buffer)
                return DeclBuffer(self._buffer(s.buffer), self.stmt(s.body))
            case AttrStmt(node=Var() | Buffer()):
                return AttrStmt(self._node(s.node), s.key, self.expr(s.value), self.stmt(s.body))
            case BufferStore():
                predicate = None if s.predicate is None else self.expr(s.predicate)
                indices = tuple(map(self.expr, s.indices))
                return BufferStore(self._buffer(s.buffer), self.expr(s.value), indices, predicate)
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self._vars.get(e, e)
        loads = (self._pointers or self._declared) and kinds(e) & _LOADS
        if not loads and free_vars(e).isdisjoint(self._vars):
            return e
        if isinstance(e, BufferLoad):
            predicate = None if e.predicate is None else self.expr(e.predicate)
            indices = tuple(map(self.expr, e.indices))
            return BufferLoad(self._buffer(e.buffer), indices, predicate)
        if isinstance(e, Let):
            value = self.expr(e.value)
            return Let(self._bind(e.var), value, self.expr(e.body))
        return map_expr_children(e, self.expr)

    def _bind(self, var: Var) -> Var:
        new = renamed(var)
        self._vars[var] = new
        return new

    def _bind_pointer(self, var: Var) -> Var:
        self._pointers.add(var)
        self._buffers = {b: new for b, new in self._buffers.items() if b.data is not var}
        return self._bind(var)

    def _node(self, node: Var | Buffer) -> object:
        return self._buffer(node) if isinstance(node, Buffer) else self._vars.get(node, node)

    def _buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self._pointers and buffer not in self._declared:
            return buffer
        new = self._buffers.get(buffer)
        if new is None:
            data = self._vars.get(buffer.data, buffer.data)
            assert isinstance(data, Var)
            new = self._buffers[buffer] = buffer.with_(
                data=data,
                shape=tuple(map(self.expr, buffer.shape)),
                strides=tuple(map(self.expr, buffer.strides)),
                elem_offset=None if buffer.elem_offset is None else self.expr(buffer.elem_offset),
            )
        return new
