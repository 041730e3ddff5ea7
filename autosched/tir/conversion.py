"""Constants, conversions, and the common type of two operands."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from autosched.arguments import found
from autosched.tir.dtype import DType, TypeLike, bool_, float32, int32, int64
from autosched.tir.expr import (
    Broadcast,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Scalar,
    StringImm,
)
from autosched.tir.operators import Comparison, Operators

Operand = Operators | Scalar


_SMALL = [IntImm(value) for value in range(257)]
_F32 = struct.Struct("<f")


def const(value: Scalar, dtype: TypeLike | None = None) -> Expr:
    """The constant `value`; without `dtype` an int32 (int64 when too large), bool or float32.

    Floats are rounded to their type. Raises ValueError for a number that an integer type cannot
    hold.
    """
    kind = value.__class__
    if kind is int and (dtype is int32 or dtype is None):
        if 0 <= value <= 256:
            return _SMALL[value]  # type: ignore[index]  # its class is int
        if -(2**31) <= value < 2**31:
            return IntImm(value, int32)  # type: ignore[arg-type]  # its class is int
    if kind is float and (dtype is float32 or dtype is None) and -3e38 < value < 3e38:
        return FloatImm(_F32.unpack(_F32.pack(value))[0], float32)
    return _any_const(value, dtype)


def _any_const(value: Scalar, dtype: TypeLike | None) -> Expr:
    if not hasattr(value, "__float__"):
        raise TypeError(f"const: expected a number, {found(value)}")
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
    if dtype.is_custom:
        return FloatImm(float(value), dtype)
    if dtype.is_float:
        number = float(value)
        if dtype.bits < 64 and math.isfinite(number):
            with np.errstate(over="ignore"):
                number = float(dtype.numpy.type(number))
        return FloatImm(number, dtype)
    if dtype.is_bool:
        return IntImm(int(value != 0), dtype)
    if isinstance(value, float | np.floating) and not value.is_integer():
        raise ValueError(f"const: {value} is no {dtype}; round it, or give a float type")
    number = int(value)
    if wrapped(number, dtype) != number:
        raise ValueError(
            f"const: {number} is no {dtype}, which holds {dtype.min_value} to {dtype.max_value}; "
            "give a wider type, or cast a constant of one to wrap it"
        )
    return IntImm(wrapped(number, dtype), dtype)


def folded(value: Any, dtype: DType) -> Expr:
    """The constant result of an operation on constants: integers wrap, floats are rounded.

    Hardware, NumPy and the interpreter compute the same.
    """
    if value.__class__ is int and dtype is not int32:
        if dtype.is_integral:
            value = wrapped(value, dtype)
    elif value.__class__ is int and not -(2**31) <= value < 2**31:
        value = wrapped(value, dtype)
    return const(value, dtype)


def wrapped(value: int, dtype: DType) -> int:
    """`value` wrapped to the integer type `dtype`, as a machine register of that type holds it."""
    if dtype.is_bool:
        return int(value != 0)
    if dtype.code == "int":
        half = 1 << (dtype.bits - 1)
        if -half <= value < half:
            return value
        return (value + half) % (2 * half) - half
    return value % (1 << dtype.bits) if dtype.code == "uint" else value


def as_expr(value: Any, dtype: DType | None = None) -> Expr:
    """`value` as an expression: numbers become constants, an IterVar its variable.

    A Comparison (`a == b` of expressions) becomes its condition.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, Comparison):
        return value.condition()
    if isinstance(value, str):
        return StringImm(value)
    return const(number(value), dtype)


def number(value: Any) -> Scalar:
    """`value`, a number or a zero-dimensional NumPy array, as a number; TypeError for others."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return value  # type: ignore[return-value]  # numpy scalars behave as Python's
    shown = f"{type(value).__name__} {value!r}"
    remedy = getattr(type(value), "in_expressions", "")
    if isinstance(value, np.ndarray):
        shown = f"an array of shape {value.shape}"
        remedy = "make it an input (te.placeholder), and read its elements"
    raise TypeError(
        f"expected an expression or a number, found {shown}{'; ' if remedy else ''}{remedy}"
    )


def unify(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Both operands with a common dtype.

    A Python number takes the type of the other operand where it can; then the wider type wins.
    """
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


def unify_numbers(symbol: str, a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """`unify` for an operator that bools do not have: TypeError for them, as in NumPy."""
    a, b = unify(a, b)
    if a.dtype.is_bool:
        raise TypeError(
            f"{symbol} of the truth values {a!r} and {b!r}: compare them (te.ne is the exclusive "
            "or), or cast them to an integer first, e.g. te.cast('int32', ...)"
        )
    return a, b


def as_condition(name: str, value: Operand) -> Expr:
    """`value` as an expression; TypeError, with `name` in the message, if it is not a bool."""
    e = as_expr(value)
    if not e.dtype.is_bool:
        raise TypeError(
            f"{name} takes a condition (bool), found {e!r} of {e.dtype}; compare it, e.g. "
            "te.ne(..., 0)"
        )
    return e


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


def _adapt(value: Operators | Scalar, dtype: DType) -> Expr:
    if isinstance(value, Operators):
        return as_expr(value)
    if value.__class__ is not int and value.__class__ is not float:
        value = number(value)
    element = dtype.element
    if element.is_custom:
        return const(value, element)
    if value.__class__ is int and (element.is_int or element.is_float):
        # A number too large for int32 becomes int64, to which unify then widens the other operand.
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
    if a.is_handle or b.is_handle or a.is_custom or b.is_custom:
        raise TypeError(f"no arithmetic between {a} and {b}; cast one of them")
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float and a.bits == b.bits:  # float16 and bfloat16: neither contains the other
        return float32.with_lanes(a.lanes)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.code == "uint" else b


def full_like(e: Expr, value: Scalar) -> Expr:
    """The constant `value` in the type of `e`, in all of its lanes."""
    return const(value, e.dtype)


def broadcast(value: Expr, lanes: int) -> Expr:
    """`lanes` copies of a scalar."""
    return value if lanes == 1 else Broadcast(value, lanes)


def cast(dtype: TypeLike, value: Operand) -> Expr:
    """`value` converted to `dtype`; float to integer truncates toward zero and saturates.

    Constants are folded as kernels compute: bfloat16 and 8-bit floats are rounded from float32, as
    in ml_dtypes.
    """
    dtype = DType(dtype)
    e = as_expr(value)
    if e.dtype is dtype:
        return e
    if dtype.lanes != e.dtype.lanes:
        if e.dtype.lanes != 1:
            raise TypeError(f"cannot cast {e.dtype} to {dtype}: the lanes differ")
        return broadcast(cast(dtype.element, e), dtype.lanes)
    if isinstance(e, IntImm):
        return folded(_as_float(e, dtype) if dtype.is_float else e.value, dtype)
    if isinstance(e, FloatImm) and not e.dtype.is_custom:
        if dtype.is_bool:
            return const(e.value != 0, dtype)
        if dtype.is_float:
            return const(_as_float(e, dtype), dtype)
        if dtype.is_integral and math.isfinite(e.value):
            number = min(max(int(e.value), int(dtype.min_value)), int(dtype.max_value))
            return IntImm(number, dtype)
    elif isinstance(e, Broadcast):
        return Broadcast(cast(dtype.element, e.value), e.lanes)
    elif isinstance(e, StringImm):
        raise TypeError(f"cast to {dtype}: expected a number, found the text {e!r}")
    return Cast(dtype, e)


def _as_float(e: IntImm | FloatImm, dtype: DType) -> float:
    """The number of a constant, rounded to float32 first if `dtype` is a storage-only float."""
    if not dtype.is_storage_float:
        return float(e.value)
    with np.errstate(over="ignore"):
        return float(np.asarray(e.value, e.dtype.numpy).astype(np.float32))


def min_value(dtype: TypeLike) -> Expr:
    """The smallest finite constant of `dtype`."""
    dtype = DType(dtype)
    return const(dtype.min_value, dtype)


def max_value(dtype: TypeLike) -> Expr:
    """The largest finite constant of `dtype`."""
    dtype = DType(dtype)
    return const(dtype.max_value, dtype)
