"""BF16ComputeLegalize: bfloat16 is only a storage type; arithmetic is done in float32.

before:
    def main(A: Buffer((8,), bfloat16), B: Buffer((8,), bfloat16), C: Buffer((8,), bfloat16)):
        for i in range(8):
            C[i] = A[i] + B[i]
after:
    def main(A: Buffer((8,), bfloat16), B: Buffer((8,), bfloat16), C: Buffer((8,), bfloat16)):
        for i in range(8):
            C[i] = bfloat16(float32(A[i]) + float32(B[i]))

Internal buffers are kept as float32 unless their address is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import all_exprs, map_children, map_expr_children, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_KEEPS_TYPE = ("reinterpret", "address_of")


def _is_bf16(dtype: DType) -> bool:
    return dtype.code == "bfloat"


@dataclass(frozen=True)
class BF16ComputeLegalize(FunctionPass):
    """Rewrites loads, constants, casts, calls and stores of bfloat16."""

    name: ClassVar[str] = "BF16ComputeLegalize"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not _mentions_bf16(func):
            return func
        return func.with_body(_Legalize(_promotable(func)).stmt(func.body))


def _mentions_bf16(func: PrimFunc) -> bool:
    if any(_is_bf16(buffer.dtype) for buffer in func.buffers):
        return True
    seen: set[Expr] = set()

    def look(e: Expr) -> bool:
        if e in seen:
            return False
        seen.add(e)
        return _is_bf16(e.dtype) or any(map(look, e.children()))

    found = False

    def expr(e: Expr) -> Expr:
        nonlocal found
        found = found or look(e)
        return e

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, Allocate) and _is_bf16(s.dtype):
            expr(Cast(s.dtype, IntImm(0)))
        return map_children(s, stmt, expr)

    stmt(func.body)
    return found


def _promotable(func: PrimFunc) -> set[Var]:
    """Pointers of internal bfloat16 buffers of constant size that nobody else sees."""
    found = {
        s.buffer_var
        for s in stmts(func.body)
        if isinstance(s, Allocate)
        and _is_bf16(s.dtype)
        and all(isinstance(e, IntImm) for e in s.extents)
    }
    if found:
        found -= {e for e in all_exprs(func.body) if isinstance(e, Var)}
    return found


class _Legalize:
    def __init__(self, promoted: set[Var]) -> None:
        self.pointers = {v: pointer(v.name, float32, v.scope) for v in promoted}
        self.buffers: dict[Buffer, Buffer] = {}
        self.vars: dict[Var, Var] = {}
        self.memo: dict[Expr, Expr] = {}
        self.rules: dict[type[Stmt], Callable[[Stmt], Stmt]] = {
            Allocate: self._allocate,
            AttrStmt: self._attr,
            BufferStore: self._store,
            DeclBuffer: self._decl,
            LetStmt: self._let,
        }

    def stmt(self, s: Stmt) -> Stmt:
        rule = self.rules.get(type(s))
        return map_children(s, self.stmt, self.expr) if rule is None else rule(s)

    def expr(self, e: Expr) -> Expr:
        """`e`; a bfloat16 value as the float32 that it is computed as."""
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = self._expr(e)
        return done

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.vars.get(e, e)
        if isinstance(e, FloatImm):
            return FloatImm(e.value, float32) if _is_bf16(e.dtype) else e
        if isinstance(e, BufferLoad):
            return self._load(e)
        if isinstance(e, Let) and _is_bf16(e.var.dtype):
            self.vars[e.var] = Var(e.var.name, _wide(e.var.dtype))
            return Let(self.vars[e.var], self.expr(e.value), self.expr(e.body))
        if isinstance(e, Cast):
            value = self.expr(e.value)
            if not _is_bf16(e.dtype):
                return cast(e.dtype, value)
            # The rounding that the cast asked for is kept: the value is one of bfloat16.
            if _is_bf16(e.value.dtype):
                return value
            return cast(_wide(e.dtype), cast(e.dtype, value))
        if isinstance(e, Call):
            return self._call(e)
        return map_expr_children(e, self.expr)

    def _load(self, load: BufferLoad) -> Expr:
        new = map_expr_children(load, self.expr)
        assert isinstance(new, BufferLoad)
        buffer = self._buffer(load.buffer)
        if buffer is not load.buffer:
            return BufferLoad(buffer, new.indices, new.predicate)
        return cast(_wide(load.dtype), new) if _is_bf16(load.dtype) else new

    def _call(self, e: Call) -> Expr:
        if e.op in _KEEPS_TYPE:
            args = tuple(
                a.with_children(tuple(map(self.expr, a.children()))) if _is_bf16(a.dtype) else a
                for a in e.args
            )
            return Call(e.dtype, e.op, args)
        args = tuple(map(self.expr, e.args))
        if _is_bf16(e.dtype):
            return Call(_wide(e.dtype), e.op, args)
        return e if args == e.args else Call(e.dtype, e.op, args)

    def _buffer(self, buffer: Buffer) -> Buffer:
        data = self.pointers.get(buffer.data)
        if data is None:
            return buffer
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = Buffer(
                data,
                _wide(buffer.dtype),
                buffer.shape,
                buffer.strides,
                buffer.elem_offset,
                buffer.name,
                buffer.data_alignment,
                buffer.offset_factor,
            )
        return found

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        buffer = self._buffer(s.buffer)
        value = self.expr(s.value)
        indices = tuple(map(self.expr, s.indices))
        if _is_bf16(s.value.dtype) and buffer is s.buffer:
            inner = value.value if isinstance(value, Cast) else None
            is_copy = inner is not None and inner.dtype is s.value.dtype
            value = inner if is_copy and inner is not None else cast(s.value.dtype, value)
        if value is s.value and indices == s.indices and buffer is s.buffer:
            return s
        return BufferStore(buffer, value, indices, s.predicate)

    def _allocate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Allocate)
        data = self.pointers.get(s.buffer_var)
        if data is None:
            return map_children(s, self.stmt, self.expr)
        return s.with_(buffer_var=data, dtype=_wide(s.dtype), body=self.stmt(s.body))

    def _attr(self, s: Stmt) -> Stmt:
        assert isinstance(s, AttrStmt)
        if not isinstance(s.node, Var) or s.node not in self.pointers:
            return map_children(s, self.stmt, self.expr)
        return AttrStmt(self.pointers[s.node], s.key, self.expr(s.value), self.stmt(s.body))

    def _decl(self, s: Stmt) -> Stmt:
        assert isinstance(s, DeclBuffer)
        body, buffer = self.stmt(s.body), self._buffer(s.buffer)
        return s if body is s.body and buffer is s.buffer else DeclBuffer(buffer, body)

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        if not _is_bf16(s.var.dtype):
            return map_children(s, self.stmt, self.expr)
        value = self.expr(s.value)
        self.vars[s.var] = Var(s.var.name, _wide(s.var.dtype))
        return LetStmt(self.vars[s.var], value, self.stmt(s.body))


def _wide(dtype: DType) -> DType:
    return float32.with_lanes(dtype.lanes)
