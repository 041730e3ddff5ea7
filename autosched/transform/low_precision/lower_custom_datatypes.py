"""LowerCustomDatatypes: replace custom types by integers, and their operations by their lowerings.

With the fixed-point type of `fixed_point.py`, whose sums are sums of bits:

before:
    def main(A: Buffer((8,), float32), P: Buffer((8,), custom[fixed]16)):
        attrs(target="cpu")
        S = allocate((8,), custom[fixed]16, "shared")
        for i in range(8):
            S[i] = custom[fixed]16(A[i]) + custom[fixed]16(0.5)
            P[i] = max(S[i], P[i])
after:
    def main(A: Buffer((8,), float32), P: Buffer((8,), uint16)):
        attrs(target="cpu")
        S = allocate((8,), uint16, "shared")
        for i in range(8):
            S[i] = reinterpret(int16(nearbyint(float64(A[i]) * float64(256.0))),
                    dtype=uint16) + uint16(128)
            P[i] = reinterpret(max(reinterpret(S[i], dtype=int16), reinterpret(P[i], dtype=int16)),
                    dtype=uint16)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autosched.errors import ConfigError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BinaryExpr,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    Let,
    Var,
    pointer,
)
from autosched.tir.float_bits import bits_type
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    BufferStore,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import target_of
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.low_precision.compute_legalize import mentions
from autosched.transform.low_precision.datatypes import lowered, name_of, type_code
from autosched.transform.low_precision.native import require_target
from autosched.transform.low_precision.retyped import Retyping

_MOVES = ("if_then_else", "likely", "reinterpret", "address_of", "tvm_access_ptr")
_OUTSIDE = ("call_extern", "call_pure_extern", "call_packed", "call_cpacked")


@dataclass(frozen=True)
class LowerCustomDatatypes(FunctionPass):
    """Replace custom types by unsigned integers of their size, operands before operators.

    Parameters, allocations, buffers and variables keep names and storage scopes. Casts, constants,
    operators, comparisons of custom operands and intrinsics are lowered as registered in
    `datatypes.py` for the function's kind of target. `kind` is the target of functions without a
    target. Raises ConfigError for a function without either, for a type that is not registered, for
    an operation without a lowering, and for a call of an external function with a custom value.
    """

    name: ClassVar[str] = "LowerCustomDatatypes"
    kind: str = ""

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        require_target(self.name, func, self.kind)
        if not mentions(func, _is_custom):
            return func
        target = target_of(func)
        return _Lower(self.kind if target is None else target.kind).function(func)


def _is_custom(dtype: DType) -> bool:
    return dtype.is_custom


class _Lower(Retyping):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._vars: dict[Var, Var] = {}
        self._rules[AllocateConst] = self._allocate_const

    def function(self, func: PrimFunc) -> PrimFunc:
        """Rewrite `func` without custom types."""
        params = tuple(map(self._var, func.params))
        buffers = {}
        for old, new in zip(func.params, params, strict=True):
            if old in func.buffer_map:
                buffers[new] = self._buffer(func.buffer_map[old])
        return replace(func, params=params, buffer_map=buffers, body=self.stmt(func.body))

    def _var(self, var: Var) -> Var:
        """The replacement of `var`, which may be custom or point to custom elements."""
        found = self._vars.get(var)
        if found is not None:
            return found
        new = var
        if var.element is not None and var.element.is_custom:
            new = pointer(var.name, self._bits(var.element), var.scope)
        elif var.dtype.is_custom:
            new = Var(var.name, self._bits(var.dtype))
        self._vars[var] = new
        return new

    def _bits(self, dtype: DType) -> DType:
        """The integer type that stores `dtype`; a built-in type itself."""
        if not dtype.is_custom:
            return dtype
        type_code(dtype)  # raises for a type that is not registered
        return bits_type(dtype)

    # -- expressions

    def _retyped(self, e: Expr) -> Expr:
        """Rewrite `e` with the bits of custom values."""
        match e:
            case Var():
                return self._var(e)
            case FloatImm() if e.dtype.is_custom:
                return self._call(f"FloatImm.{name_of(e.dtype)}", e.dtype, e.value)
            case BufferLoad():
                new = map_expr_children(e, self._value)
                assert isinstance(new, BufferLoad)
                buffer = self._buffer(e.buffer)
                return new if buffer is e.buffer else BufferLoad(buffer, new.indices, new.predicate)
            case Let():
                value = self._value(e.value)
                return Let(self._var(e.var), value, self._value(e.body))
            case Cast() if e.dtype.is_custom or e.value.dtype.is_custom:
                names = f"{name_of(e.dtype)}.{name_of(e.value.dtype)}"
                return self._call(f"Cast.{names}", e.dtype, self._value(e.value))
            case Call():
                return self._intrinsic(e)
            case BinaryExpr() if e.a.dtype.is_custom:
                name = f"{type(e).__name__}.{name_of(e.a.dtype)}"
                return self._call(name, e.dtype, self._value(e.a), self._value(e.b))
        return map_expr_children(e, self._value)

    def _intrinsic(self, e: Call) -> Expr:
        custom = next((x.dtype for x in (e, *e.args) if x.dtype.is_custom), None)
        if e.op == "reinterpret" and custom is not None:
            value, wanted = self._value(e.args[0]), self._bits(e.dtype)
            return value if value.dtype is wanted else Call(wanted, e.op, (value,))
        args = tuple(map(self._value, e.args))
        if custom is None or e.op in _MOVES:
            return e if args == e.args else Call(self._bits(e.dtype), e.op, args)
        if e.op in _OUTSIDE:
            raise ConfigError(
                f"LowerCustomDatatypes: {e!r} passes values of {custom} to a function outside, "
                "which knows no such type; give it their bits, reinterpret(x, dtype=uint...)"
            )
        return self._call(f"Call.intrin.tir.{e.op}.{name_of(custom)}", e.dtype, *args)

    def _call(self, operation: str, dtype: DType, *args: object) -> Expr:
        return lowered(self._kind, operation, self._bits(dtype), *args)

    # -- memory

    def _pointer(self, var: Var) -> Var:
        return self._var(var)

    def _buffer(self, buffer: Buffer) -> Buffer:
        data, dtype = self._var(buffer.data), self._bits(buffer.dtype)
        if data is buffer.data and dtype is buffer.dtype:
            return buffer
        return self._over(buffer, data, dtype)

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        new = map_children(s, self.stmt, self._value)
        assert isinstance(new, BufferStore)
        buffer = self._buffer(s.buffer)
        if buffer is s.buffer:
            return new
        return BufferStore(buffer, new.value, new.indices, new.predicate)

    def _allocate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Allocate)
        if not s.dtype.is_custom:
            return map_children(s, self.stmt, self._value)
        var, dtype = self._var(s.buffer_var), self._bits(s.dtype)
        return s.with_(buffer_var=var, dtype=dtype, body=self.stmt(s.body))

    def _allocate_const(self, s: Stmt) -> Stmt:
        assert isinstance(s, AllocateConst)
        body = self.stmt(s.body)
        return AllocateConst(self._var(s.buffer_var), self._bits(s.dtype), s.extents, s.data, body)

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        value = self._value(s.value)
        return LetStmt(self._var(s.var), value, self.stmt(s.body))
