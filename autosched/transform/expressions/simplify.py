"""Simplify: bring every expression into canonical form and fold decided branches.

before:
    def main(B: Buffer((64,), float32)):
        for i in range(8):
            if likely(i * 4 + 3 < 32):
                B[0 + i * 4 + 0] = 1.0
after:
    def main(B: Buffer((64,), float32)):
        for i in range(8):
            B[i * 4] = 1.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autosched.arith.rewrite import is_always
from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    StringImm,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, ge, lt, not_
from autosched.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    nop,
)
from autosched.tir.walk import free_vars, map_children, stmts, unique_exprs
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.expressions.facts import Facts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_THREAD_KEYS = ("thread_extent", "virtual_thread")
_LEAVES = frozenset((IntImm, FloatImm, StringImm))


@dataclass(frozen=True)
class Simplify(FunctionPass):
    """Simplify with the facts that enclosing loops, threads and conditions give.

    Loops are kept even if they run once. Pure integer lets are inlined. A store of a value loaded
    from the same element is removed. With `as_ansor` simplification stops where Ansor's does, whose
    features count the remaining operations (see `Analyzer`).
    """

    name: ClassVar[str] = "Simplify"
    as_ansor: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Simplify(func, self.as_ansor).stmt(func.body))


class _Simplify:
    def __init__(self, func: PrimFunc, as_ansor: bool) -> None:
        self.func = func
        self.facts = Facts(func, as_ansor)
        self.simplify = self.facts.analyzer.simplify
        self.in_buffers: frozenset[Var] | None = None

    def stmt(self, s: Stmt) -> Stmt:
        rule = self.rules.get(type(s))
        return map_children(s, self.stmt, self.expr) if rule is None else rule(self, s)

    def expr(self, e: Expr) -> Expr:
        if type(e) in _LEAVES:
            return e
        memo = self.facts.memo(e)
        done = memo.get(e)
        if done is None:
            done = memo[e] = self.simplify(e)
        return done

    def _under(self, condition: Expr, s: Stmt) -> Stmt:
        """Simplify `s` under the assumption that `condition` holds."""
        if isinstance(condition, IntImm) or not is_lasting(condition):
            return self.stmt(s)
        return self.facts.under((condition,), self.stmt, s)

    def _for(self, s: Stmt) -> Stmt:
        assert isinstance(s, For)
        low, extent = self.expr(s.min), self.expr(s.extent)
        self.facts.bind(s.loop_var, low, extent)
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            body = self.stmt(s.body)  # the constraints below would repeat the range
        else:
            bounds = (ge(s.loop_var, low), lt(s.loop_var, add(low, extent)))
            body = self.facts.under(bounds, self.stmt, s.body)
        return s.with_(min=low, extent=extent, body=body)

    def _attr(self, s: Stmt) -> Stmt:
        assert isinstance(s, AttrStmt)
        value = self.expr(s.value)
        if s.key in _THREAD_KEYS:
            self.facts.bind(s.node.var, const(0, s.node.var.dtype), value)
        return s.with_(value=value, body=self.stmt(s.body))

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        value = self.expr(s.value)
        inline = _can_inline(value)
        self.facts.define(s.var, value if inline else None)
        body = self.stmt(s.body)
        if inline and s.var not in self._buffer_vars():
            return body
        return s.with_(value=value, body=body)

    def _buffer_vars(self) -> frozenset[Var]:
        """The variables in the shapes, strides and offsets of the buffers of this function."""
        if self.in_buffers is None:
            found: set[Var] = set()
            for buffer in _buffers(self.func):
                offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
                for e in (*buffer.shape, *buffer.strides, *offset):
                    found |= free_vars(e)
            self.in_buffers = frozenset(found)
        return self.in_buffers

    def _if(self, s: Stmt) -> Stmt:
        assert isinstance(s, IfThenElse)
        condition = self.expr(s.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self.stmt(s.then_case)
            return nop() if s.else_case is None else self.stmt(s.else_case)
        plain = condition
        if isinstance(condition, Call) and condition.op == "likely":
            plain = condition.args[0]
        then_case = self._under(plain, s.then_case)
        else_case = None
        if s.else_case is not None:
            else_case = self._under(self.facts.analyzer.rewrite_simplify(not_(plain)), s.else_case)
        return s.with_(condition=condition, then_case=then_case, else_case=else_case)

    def _assert(self, s: Stmt) -> Stmt:
        assert isinstance(s, AssertStmt)
        condition = self.expr(s.condition)
        body = self._under(condition, s.body)
        if isinstance(condition, IntImm) and condition.value:
            return body
        return s.with_(condition=condition, body=body)

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        new = map_children(s, self.stmt, self.expr)
        assert isinstance(new, BufferStore)
        if is_always(new.predicate):
            new = BufferStore(new.buffer, new.value, new.indices)
        value = new.value
        if (
            isinstance(value, BufferLoad)
            and value.indices == new.indices
            and _same_view(value.buffer, new.buffer)
        ):
            return nop()
        return new

    rules: ClassVar[dict[type[Stmt], Callable[[_Simplify, Stmt], Stmt]]] = {
        For: _for,
        AttrStmt: _attr,
        LetStmt: _let,
        IfThenElse: _if,
        AssertStmt: _assert,
        BufferStore: _store,
    }


def _same_view(a: Buffer, b: Buffer) -> bool:
    return a is b or (
        a.data is b.data
        and a.dtype is b.dtype
        and a.shape == b.shape
        and a.strides == b.strides
        and a.elem_offset is b.elem_offset
    )


def _can_inline(value: Expr) -> bool:
    if isinstance(value, IntImm | FloatImm | Var):
        return True
    return value.dtype.is_int and is_lasting(value)


def _buffers(func: PrimFunc) -> set[Buffer]:
    found = set(func.buffer_map.values())
    for s in stmts(func.body):
        buffer = getattr(s, "buffer", None)
        if isinstance(buffer, Buffer):
            found.add(buffer)
    found.update(e.buffer for e in unique_exprs(func.body) if isinstance(e, BufferLoad))
    return found
