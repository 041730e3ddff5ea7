"""Rewriting statements whose variables and buffers get another type: what legalisations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, LetStmt, Stmt
from autosched.tir.walk import map_children


class Retyping(ABC):
    """Rewrites one function; buffers that are read and written become those of `buffer`."""

    def __init__(self) -> None:
        self._buffers: dict[Buffer, Buffer] = {}
        self._memo: dict[Expr, Expr] = {}
        self._rules: dict[type[Stmt], Callable[[Stmt], Stmt]] = {
            Allocate: self._allocate,
            AttrStmt: self._attr,
            BufferStore: self._store,
            DeclBuffer: self._decl,
            LetStmt: self._let,
        }

    def stmt(self, s: Stmt) -> Stmt:
        """`s` with other types."""
        rule = self._rules.get(type(s))
        return map_children(s, self.stmt, self._value) if rule is None else rule(s)

    def _value(self, e: Expr) -> Expr:
        """`e` with other types, each expression worked out once."""
        done = self._memo.get(e)
        if done is None:
            done = self._memo[e] = self._retyped(e)
        return done

    @abstractmethod
    def _retyped(self, e: Expr) -> Expr:
        """What `_value` keeps."""

    @abstractmethod
    def _pointer(self, var: Var) -> Var:
        """The variable that stands for one that an attribute is about; itself if none does."""

    @abstractmethod
    def _buffer(self, buffer: Buffer) -> Buffer:
        """The buffer that stands for `buffer`; itself if none does."""

    @abstractmethod
    def _allocate(self, s: Stmt) -> Stmt: ...

    @abstractmethod
    def _store(self, s: Stmt) -> Stmt: ...

    @abstractmethod
    def _let(self, s: Stmt) -> Stmt: ...

    def _over(self, buffer: Buffer, data: Var, dtype: DType) -> Buffer:
        """`buffer` over another pointer and type, the same one each time."""
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = buffer.with_(data=data, dtype=dtype)
        return found

    def _attr(self, s: Stmt) -> Stmt:
        assert isinstance(s, AttrStmt)
        node = s.node
        if isinstance(node, Var):
            node = self._pointer(node)
        elif isinstance(node, Buffer):
            node = self._buffer(node)
        if node is s.node:
            return map_children(s, self.stmt, self._value)
        return AttrStmt(node, s.key, self._value(s.value), self.stmt(s.body))

    def _decl(self, s: Stmt) -> Stmt:
        assert isinstance(s, DeclBuffer)
        body, buffer = self.stmt(s.body), self._buffer(s.buffer)
        return s if body is s.body and buffer is s.buffer else DeclBuffer(buffer, body)
