"""Functions that build expressions: types unified, constants folded.

The folds are the ones every constructor of Ansor's IR does at once (spec te_bounds 8.2): two
constants; x+0, x-0, x*1, x*0, 0//x, x//1, x%1; and/or with constants; min/max of one object.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir import expr, expr_core, iteration
from autosched.tir.dtype import DType, bool_, float32, int32, int64
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Scalar,
    Select,
    StringImm,
    Sub,
)

Operand = Expr | IterVar | Scalar


_F32 = struct.Struct("<f")


def const(value: Scalar, dtype: str | DType | None = None) -> Expr:
    """The constant `value`; without `dtype` an int32 (int64 when too large), bool or float32.

    Integers wrap to their width, floats round to it, as the hardware would.
    """
    kind = value.__class__
    if kind is int and (dtype is int32 or dtype is None) and -(2**31) <= value < 2**31:
        return IntImm(value, int32)  # type: ignore[arg-type]  # its class is int
    if kind is float and (dtype is float32 or dtype is None) and -3e38 < value < 3e38:
        return FloatImm(_F32.unpack(_F32.pack(value))[0], float32)
    return _any_const(value, dtype)


def _any_const(value: Scalar, dtype: str | DType | None) -> Expr:
    if dtype is None:
        if isinstance(value, bool | np.bool_):
            dtype = bool_
        elif isinstance(value, int | np.integer):
            dtype = int32 if -(2**31) <= int(value) < 2**31 else int64
        else:
            dtype = float32
    dtype = DType(dtype)
    if dtype.lanes > 1:
        return Broadcast(const(value, dtype.element), dtype.lanes)
    if dtype.is_float:
        number = float(value)
        if dtype.bits < 64 and math.isfinite(number):
            with np.errstate(over="ignore"):
                number = float(dtype.numpy.type(number))
        return FloatImm(number, dtype)
    return IntImm(_wrap(int(value), dtype), dtype)


def _wrap(value: int, dtype: DType) -> int:
    if dtype.is_bool:
        return int(value != 0)
    if dtype.code == "int":
        half = 1 << (dtype.bits - 1)
        if -half <= value < half:
            return value
        return (value + half) % (2 * half) - half
    return value % (1 << dtype.bits) if dtype.code == "uint" else value


def as_expr(value: Any, dtype: DType | None = None) -> Expr:
    """`value` as an expression: numbers become constants, an IterVar its variable."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return const(value, dtype)  # type: ignore[arg-type]  # numpy scalars behave as Python's
    if isinstance(value, str):
        return StringImm(value)
    raise TypeError(f"expected an expression or a number, found {type(value).__name__} {value!r}")


def unify(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Both operands with one dtype: numbers adapt to the other side, then the wider type wins."""
    if isinstance(a, Expr):
        if isinstance(b, Expr):
            if a.dtype is b.dtype:
                return a, b
        elif b.__class__ is int and a.dtype is int32:
            b = const(b)  # int64 when it does not fit
            if b.dtype is int32:
                return a, b
        else:
            b = _adapt(b, a.dtype)
    elif isinstance(b, Expr):
        a = _adapt(a, b.dtype)
    return _unify_types(as_expr(a), as_expr(b))


def _unify_types(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = broadcast(a, b.dtype.lanes)
        elif b.dtype.lanes == 1:
            b = broadcast(b, a.dtype.lanes)
        else:
            raise TypeError(f"vectors of different lengths: {a!r} and {b!r}")
    if a.dtype is b.dtype:
        return a, b
    wide = _wider(a.dtype, b.dtype)
    return cast(wide, a), cast(wide, b)


def _adapt(value: IterVar | Scalar, dtype: DType) -> Expr:
    if isinstance(value, IterVar):
        return value.var
    element = dtype.element
    if value.__class__ is int and (element.is_int or element.is_float):
        # A number too large for int32 becomes int64, which then is the wider type.
        return const(value) if element is int32 else const(value, element)
    if isinstance(value, float | np.floating) and not element.is_float:
        return const(float(value))
    if isinstance(value, bool | np.bool_) and not element.is_bool:
        return const(value, element)
    if element.is_bool and not isinstance(value, bool | np.bool_):
        return const(value)
    if element is int32:
        return const(value)  # becomes int64 when it does not fit
    return const(value, element)


def _wider(a: DType, b: DType) -> DType:
    if a.is_handle or b.is_handle:
        raise TypeError(f"no arithmetic between {a} and {b}")
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float and a.bits == b.bits:  # float16 and bfloat16: neither contains the other
        return float32.with_lanes(a.lanes)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.code == "uint" else b


def broadcast(value: Expr, lanes: int) -> Expr:
    """`lanes` copies of a scalar."""
    return value if lanes == 1 else Broadcast(value, lanes)


def _value(e: Expr) -> Any:
    cls = e.__class__
    return e.value if cls is IntImm or cls is FloatImm else None  # type: ignore[attr-defined]  # both have one


def _is(e: Expr, value: int) -> bool:
    return isinstance(e, IntImm | FloatImm) and e.value == value


def add(a: Operand, b: Operand) -> Expr:
    """a + b."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        if y is not None:
            return const(x + y, a.dtype)
        if x == 0:
            return b
    elif y is not None and y == 0:
        return a
    return Add(a, b)


def sub(a: Operand, b: Operand) -> Expr:
    """a - b."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if y is not None:
        if x is not None:
            return const(x - y, a.dtype)
        if y == 0:
            return a
    return Sub(a, b)


def mul(a: Operand, b: Operand) -> Expr:
    """a * b."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        if y is not None:
            return const(x * y, a.dtype)
        if x == 1:
            return b
        if x == 0:
            return a
    elif y is not None:
        if y == 1:
            return a
        if y == 0:
            return b
    return Mul(a, b)


def neg(a: Operand) -> Expr:
    """-a."""
    a = as_expr(a)
    if isinstance(a, IntImm | FloatImm):
        return const(-a.value, a.dtype)
    return sub(const(0, a.dtype), a)


def div(a: Operand, b: Operand) -> Expr:
    """a / b on floats; integers must say which division they mean."""
    a, b = unify(a, b)
    if not a.dtype.is_float:
        raise TypeError(
            f"/ on {a.dtype} is ambiguous: use // (floordiv), te.truncdiv, or cast to float first"
        )
    return truncdiv(a, b)


def truncdiv(a: Operand, b: Operand) -> Expr:
    """a / b: exact on floats, rounded toward zero on integers."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} / 0")
    if x is not None and y is not None and y != 0:
        if a.dtype.is_float:
            return const(x / y, a.dtype)
        q = abs(x) // abs(y)
        return const(q if (x < 0) == (y < 0) else -q, a.dtype)
    if y == 1 or (x == 0 and a.dtype.is_integral):
        return a
    return Div(a, b)


def truncmod(a: Operand, b: Operand) -> Expr:
    """The remainder of truncdiv: it has the sign of a."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if a.dtype.is_integral:
        if y == 0:
            raise ZeroDivisionError(f"division by zero: {a!r} truncmod 0")
        if x is not None and y is not None:
            r = abs(x) % abs(y)
            return const(r if x >= 0 else -r, a.dtype)
        if y == 1 or x == 0:
            return const(0, a.dtype)
    return Mod(a, b)


def floordiv(a: Operand, b: Operand) -> Expr:
    """a // b, rounded toward minus infinity."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} // 0")
    if x is not None and y is not None and y != 0:
        return const(x // y, a.dtype)
    if (y == 1 or x == 0) and a.dtype.is_integral:
        return a
    return FloorDiv(a, b)


def floormod(a: Operand, b: Operand) -> Expr:
    """a % b: it has the sign of b."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} % 0")
    if x is not None and y is not None and y != 0:
        return const(x % y, a.dtype)
    if a.dtype.is_integral and (y == 1 or x == 0):
        return const(0, a.dtype)
    return FloorMod(a, b)


def min_(a: Operand, b: Operand) -> Expr:
    """The smaller of a and b."""
    a, b = unify(a, b)
    if a is b:
        return a
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return const(x if x < y else y, a.dtype)
    return Min(a, b)


def max_(a: Operand, b: Operand) -> Expr:
    """The larger of a and b."""
    a, b = unify(a, b)
    if a is b:
        return a
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return const(x if x > y else y, a.dtype)
    return Max(a, b)


def _compare(
    cls: type[BinaryExpr], a: Operand, b: Operand, fold: Callable[[Any, Any], bool]
) -> Expr:
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return IntImm(int(fold(x, y)), bool_)
    return cls(a, b)


def eq(a: Operand, b: Operand) -> Expr:
    """a == b as an expression (Python's == compares objects)."""
    return _compare(EQ, a, b, lambda x, y: x == y)


def ne(a: Operand, b: Operand) -> Expr:
    """a != b as an expression."""
    return _compare(NE, a, b, lambda x, y: x != y)


def lt(a: Operand, b: Operand) -> Expr:
    """a < b."""
    return _compare(LT, a, b, lambda x, y: x < y)


def le(a: Operand, b: Operand) -> Expr:
    """a <= b."""
    return _compare(LE, a, b, lambda x, y: x <= y)


def gt(a: Operand, b: Operand) -> Expr:
    """a > b."""
    return _compare(GT, a, b, lambda x, y: x > y)


def ge(a: Operand, b: Operand) -> Expr:
    """a >= b."""
    return _compare(GE, a, b, lambda x, y: x >= y)


def and_(a: Operand, b: Operand) -> Expr:
    """a and b, both evaluated."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        return b if x else a
    if y is not None:
        return a if y else b
    return And(a, b)


def or_(a: Operand, b: Operand) -> Expr:
    """a or b, both evaluated."""
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        return a if x else b
    if y is not None:
        return b if y else a
    return Or(a, b)


def not_(a: Operand) -> Expr:
    """not a."""
    a = as_expr(a)
    return IntImm(int(not a.value), bool_) if isinstance(a, IntImm) else Not(a)


def all_(*conditions: Operand) -> Expr:
    """The conditions joined by `and`, left to right; true when there are none."""
    result: Expr | None = None
    for condition in conditions:
        result = as_expr(condition) if result is None else and_(result, condition)
    return IntImm(1, bool_) if result is None else result


def any_(*conditions: Operand) -> Expr:
    """The conditions joined by `or`, left to right; false when there are none."""
    result: Expr | None = None
    for condition in conditions:
        result = as_expr(condition) if result is None else or_(result, condition)
    return IntImm(0, bool_) if result is None else result


def cast(dtype: str | DType, value: Operand) -> Expr:
    """`value` converted to `dtype` (floats to integers by truncation)."""
    dtype = DType(dtype)
    e = as_expr(value)
    if e.dtype is dtype:
        return e
    if dtype.lanes != e.dtype.lanes:
        if e.dtype.lanes != 1:
            raise TypeError(f"cannot cast {e.dtype} to {dtype}: the lanes differ")
        return broadcast(cast(dtype.element, e), dtype.lanes)
    if isinstance(e, IntImm):
        return const(e.value, dtype)
    if isinstance(e, FloatImm):
        if dtype.is_float or dtype.is_bool:
            return const(e.value, dtype)
        if dtype.is_integral and math.isfinite(e.value):
            return const(int(e.value), dtype)
    elif isinstance(e, Broadcast):
        return Broadcast(cast(dtype.element, e.value), e.lanes)
    return Cast(dtype, e)


def _arms(condition: Expr, a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Both values with one type, and with the lanes of the condition."""
    a, b = unify(a, b)
    lanes = condition.dtype.lanes
    if lanes > 1 and a.dtype.lanes == 1:
        return broadcast(a, lanes), broadcast(b, lanes)
    return a, b


def select(condition: Operand, true_value: Operand, false_value: Operand) -> Expr:
    """Select; folded when the condition is constant."""
    condition = as_expr(condition)
    a, b = _arms(condition, true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Select(condition, a, b)


def if_then_else(condition: Operand, true_value: Operand, false_value: Operand) -> Expr:
    """The intrinsic that evaluates only the branch taken."""
    condition = as_expr(condition)
    a, b = _arms(condition, true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Call(a.dtype, "if_then_else", (condition, a, b))


def likely(condition: Operand) -> Expr:
    """`condition` marked as usually true; constants stay as they are."""
    condition = as_expr(condition)
    return (
        condition
        if isinstance(condition, IntImm)
        else Call(condition.dtype, "likely", (condition,))
    )


def call(op: str, *args: Operand, dtype: DType | None = None) -> Expr:
    """A call of an elementwise intrinsic: its dtype is that of the first argument."""
    exprs = tuple(as_expr(a) for a in args)
    return Call(dtype or exprs[0].dtype, op, exprs)


def min_value(dtype: str | DType) -> Expr:
    """The smallest finite constant of `dtype`."""
    dtype = DType(dtype)
    return const(dtype.min_value, dtype)


def max_value(dtype: str | DType) -> Expr:
    """The largest finite constant of `dtype`."""
    dtype = DType(dtype)
    return const(dtype.max_value, dtype)


# Expressions build on these functions (operators, rewriting), which build on expressions.
for _module in (expr_core, expr, iteration):
    vars(_module)["_op"] = sys.modules[__name__]
