"""Replaces variables and buffers in statements, also in the shapes of declared buffers."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Var
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    MatchBufferRegion,
    Prefetch,
    Stmt,
)
from autosched.tir.walk import (
    ExprFn,
    map_children,
    map_exprs,
    rewrite_expr,
    same,
    stmts,
    substituter,
)

_LOADS = bits_of(BufferLoad)


def substitute_stmt(stmt: Stmt, table: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with free variables replaced in every expression and every buffer it declares."""
    return map_stmt(stmt, substituter(table)) if table else stmt


def map_stmt(stmt: Stmt, expr: ExprFn) -> Stmt:
    """`stmt` with `expr` applied to every expression, and to every buffer it declares."""
    made: dict[Buffer, Buffer] = {}
    inside: set[Var] = set()
    # Pointers to buffers of symbolic size; the allocation itself may have a constant size.
    sized: set[Var] = set()
    for s in stmts(stmt):
        for buffer in declared_buffers(s):
            _note(made, buffer, expr)
        if isinstance(s, Allocate):
            inside.add(s.buffer_var)
            if not _is_known(s.extents):
                sized.add(s.buffer_var)
        elif isinstance(s, BufferStore) and not _is_known(s.buffer.shape):
            sized.add(s.buffer.data)
    sized &= inside
    for buffer in _accessed(stmt, sized) if sized else ():
        _note(made, buffer, expr)
    return replace_buffers(stmt, made, expr) if made else _Mapper(expr)(stmt)


def _is_known(shape: tuple[Expr, ...]) -> bool:
    return all(isinstance(e, IntImm) for e in shape)


def _note(made: dict[Buffer, Buffer], buffer: Buffer, expr: ExprFn) -> None:
    new = map_buffer(buffer, expr)
    if new is not buffer:
        made[buffer] = new


def _accessed(stmt: Stmt, pointers: set[Var]) -> set[Buffer]:
    """The buffers over `pointers` that are loaded or stored; no statement declares flat buffers."""
    found = {s.buffer for s in stmts(stmt) if isinstance(s, BufferStore)}
    found |= {e.buffer for e in exprs_with(stmt, _LOADS) if isinstance(e, BufferLoad)}
    return {buffer for buffer in found if buffer.data in pointers}


def replace_stmt(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`stmt` with `new` in place of the statement `old`."""
    if stmt is old:
        return new
    if isinstance(stmt, BufferStore):
        return stmt
    return map_children(stmt, lambda inner: replace_stmt(inner, old, new))


class _Mapper:
    """Applies `expr` to all expressions of a statement; an object, as `_Substituter` in walk.py."""

    __slots__ = ("expr",)

    def __init__(self, expr: ExprFn) -> None:
        self.expr = expr

    def __call__(self, s: Stmt) -> Stmt:
        return map_children(s, self, self.expr)


def map_buffer(buffer: Buffer, fn: ExprFn) -> Buffer:
    """`buffer` with `fn` applied to its shape, strides and offset; itself if none changes."""
    shape, strides = map_exprs(buffer.shape, fn), map_exprs(buffer.strides, fn)
    offset = None if buffer.elem_offset is None else fn(buffer.elem_offset)
    if shape is buffer.shape and strides is buffer.strides and offset is buffer.elem_offset:
        return buffer
    return buffer.with_(shape=shape, strides=strides, elem_offset=offset)


def declared_buffers(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that `stmt` itself declares: a view, or the buffers of a block."""
    match stmt:
        case DeclBuffer():
            return (stmt.buffer,)
        case Block():
            return (*stmt.alloc_buffers, *(m.buffer for m in stmt.match_buffers))
    return ()


def replace_buffers(stmt: Stmt, table: Mapping[Buffer, Buffer], fn: ExprFn = same) -> Stmt:
    """`stmt` with all occurrences of buffers replaced by `table`, and `fn` of its expressions."""
    return _BufferReplacer(table, fn).stmt(stmt)


class _BufferReplacer:
    def __init__(self, table: Mapping[Buffer, Buffer], fn: ExprFn) -> None:
        self._table = table
        self._fn = fn

    def _load(self, e: Expr) -> Expr | None:
        if isinstance(e, BufferLoad) and e.buffer in self._table:
            return BufferLoad(self._table[e.buffer], e.indices, e.predicate)
        return None

    def _expr(self, e: Expr) -> Expr:
        return rewrite_expr(self._fn(e), self._load)

    def _region(self, r: BufferRegion) -> BufferRegion:
        return BufferRegion(self._table[r.buffer], r.region) if r.buffer in self._table else r

    def _matched(self, m: MatchBufferRegion) -> MatchBufferRegion:
        buffer, source = self._table.get(m.buffer, m.buffer), self._region(m.source)
        if buffer is m.buffer and source is m.source:
            return m
        return MatchBufferRegion(buffer, source)

    def stmt(self, s: Stmt) -> Stmt:
        new = map_children(s, self.stmt, self._expr)
        match new:
            case BufferStore() | BufferRealize() | Prefetch() | DeclBuffer():
                return new.with_(buffer=self._table.get(new.buffer, new.buffer))
            case AttrStmt() if isinstance(new.node, Buffer) and new.node in self._table:
                return AttrStmt(self._table[new.node], new.key, new.value, new.body)
            case Block():
                return _with_parts(
                    new,
                    reads=tuple(map(self._region, new.reads)),
                    writes=tuple(map(self._region, new.writes)),
                    alloc_buffers=tuple(self._table.get(b, b) for b in new.alloc_buffers),
                    match_buffers=tuple(map(self._matched, new.match_buffers)),
                )
        return new


def _with_parts(block: Block, **parts: tuple[object, ...]) -> Block:
    """`block` with the tuples in some fields replaced; itself when no item changes."""
    changed = {
        name: new
        for name, new in parts.items()
        if any(a is not b for a, b in zip(getattr(block, name), new, strict=True))
    }
    return block.with_(**changed) if changed else block
