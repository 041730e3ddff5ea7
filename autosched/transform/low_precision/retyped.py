"""Base of passes that change the types of variables and buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, LetStmt, Stmt
from autosched.tir.walk import map_children


class Retyping(ABC):
    """Rewrites one function; accesses of a buffer go to the result of `_buffer`."""

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
        """Rewrite `s` with the new types."""
        rule = self._rules.get(type(s))
        return map_children(s, self.stmt, self._value) if rule is None else rule(s)

    def _value(self, e: Expr) -> Expr:
        """Rewrite `e` with the new types; results are cached."""
        done = self._memo.get(e)
        if done is None:
            done = self._memo[e] = self._retyped(e)
        return done

    @abstractmethod
    def _retyped(self, e: Expr) -> Expr:
        """Compute the result that `_value` caches."""

    @abstractmethod
    def _pointer(self, var: Var) -> Var:
        """The replacement of a variable that an attribute names; `var` itself if there is none."""

    @abstractmethod
    def _buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of `buffer`; `buffer` itself if there is none."""

    @abstractmethod
    def _allocate(self, s: Stmt) -> Stmt: ...

    @abstractmethod
    def _store(self, s: Stmt) -> Stmt: ...

    @abstractmethod
    def _let(self, s: Stmt) -> Stmt: ...

    def _over(self, buffer: Buffer, data: Var, dtype: DType) -> Buffer:
        """`buffer` over another pointer and type; the same object for each call."""
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
