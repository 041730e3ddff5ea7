"""Fixed-point numbers as a custom type: the worked example of `datatypes.py`.

    register_fixed_point()
    A = te.placeholder((n,), "custom[fixed]16", name="A")

`custom[fixed]B` is a signed integer of B bits that counts steps of 2**-(B/2): custom[fixed]16 goes
from -128 to 128 - 2**-8. Sums wrap. Products and quotients are rounded once (products to nearest
with halves up, quotients toward zero) and wrap. A float becomes the nearest number, ties to even,
clamped to the range; NaN becomes 0. Division by zero gives 0, and so does its remainder. All
operations are expressions on integers, so they also run in the interpreter and as vectors. Numbers
of 64 bits have no products and quotients, which would need twice as many bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.tir.conversion import cast, const, full_like
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import Call, Expr
from autosched.tir.op import (
    add,
    call,
    eq,
    ge,
    gt,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.transform.low_precision.datatypes import register_lowering, register_type

CODE = 129


def register_fixed_point(name: str = "fixed", code: int = CODE) -> None:
    """Register the type and all its operations, for every kind of target."""
    register_type(name, code)
    for operation, lowering in _OPERATIONS.items():
        register_lowering(operation.replace("NAME", name), lowering)


def fixed_to_float(bits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The numbers that an array of bits (unsigned integers) represents."""
    size = bits.dtype.itemsize * 8
    numbers: npt.NDArray[np.float64] = bits.view(f"int{size}") * 2.0 ** -(size // 2)
    return numbers


def _step(dtype: DType) -> int:
    """The negated binary exponent of a step: one step is 2**-_step(dtype)."""
    return dtype.bits // 2


def _signed(e: Expr) -> Expr:
    dtype = DType(f"int{e.dtype.bits}").with_lanes(e.dtype.lanes)
    return Call(dtype, "reinterpret", (e,))


def _stored(dtype: DType, e: Expr) -> Expr:
    """The bits of the signed integer `e`, wrapped to the size of `dtype`."""
    signed = DType(f"int{dtype.bits}").with_lanes(dtype.lanes)
    return Call(dtype, "reinterpret", (cast(signed, e),))


def _wide(e: Expr) -> Expr:
    return cast(DType("int64").with_lanes(e.dtype.lanes), _signed(e))


def _from_float(dtype: DType, value: Expr) -> Expr:
    # In float64 every number of steps of a 32-bit type is exact.
    exact = cast(DType("float64").with_lanes(dtype.lanes), value)
    steps = call("nearbyint", mul(exact, full_like(exact, 2.0 ** _step(dtype))))
    return _stored(dtype, cast(DType(f"int{dtype.bits}").with_lanes(dtype.lanes), steps))


def _to_float(dtype: DType, value: Expr) -> Expr:
    exact = cast(DType("float64").with_lanes(dtype.lanes), _signed(value))
    return cast(dtype, mul(exact, full_like(exact, 2.0 ** -_step(value.dtype))))


def _from_int(dtype: DType, value: Expr) -> Expr:
    wide = cast(DType("int64").with_lanes(dtype.lanes), value)
    return _stored(dtype, call("shift_left", wide, full_like(wide, _step(dtype))))


def _to_int(dtype: DType, value: Expr) -> Expr:
    wide = _wide(value)
    return cast(dtype, truncdiv(wide, full_like(wide, 1 << _step(value.dtype))))


def _constant(dtype: DType, value: float) -> Expr:
    limit = 1 << (dtype.bits - 1)
    steps = max(-limit, min(limit - 1, round(value * 2.0 ** _step(dtype))))
    return const(steps % (2 * limit), dtype)


def _times(dtype: DType, a: Expr, b: Expr) -> Expr:
    _require_room(dtype)
    product = mul(_wide(a), _wide(b))
    half = full_like(product, 1 << (_step(dtype) - 1))
    return _stored(dtype, call("shift_right", add(product, half), full_like(product, _step(dtype))))


def _require_room(dtype: DType) -> None:
    if dtype.bits > 32:
        raise ConfigError(
            f"fixed point: products and quotients of {dtype.bits} bits need more than 64; use "
            "numbers of at most 32 bits"
        )


def _over(dtype: DType, a: Expr, b: Expr) -> Expr:
    _require_room(dtype)
    wide = _wide(a)
    return _stored(
        dtype, _divided(truncdiv, call("shift_left", wide, full_like(wide, _step(dtype))), b)
    )


def _rest(dtype: DType, a: Expr, b: Expr) -> Expr:
    return _stored(dtype, _divided(truncmod, _wide(a), b))


def _divided(operation: Callable[[Expr, Expr], Expr], steps: Expr, b: Expr) -> Expr:
    """`operation` on wide integers; 0 where `b` is 0."""
    divisor = _wide(b)
    is_zero = eq(divisor, full_like(divisor, 0))
    found = operation(steps, select(is_zero, full_like(divisor, 1), divisor))
    return select(is_zero, full_like(found, 0), found)


def _on_integers(operation: Callable[[Expr, Expr], Expr]) -> Callable[[DType, Expr, Expr], Expr]:
    """The lowering of an operation that is the same on the integers that store the numbers."""

    def lowering(dtype: DType, a: Expr, b: Expr) -> Expr:
        found = operation(_signed(a), _signed(b))
        return found if dtype.is_bool else _stored(dtype, found)

    return lowering


def _by_way_of_float(name: str) -> Callable[[DType, Expr], Expr]:
    def lowering(dtype: DType, value: Expr) -> Expr:
        return _from_float(dtype, call(name, _to_float(float32.with_lanes(dtype.lanes), value)))

    return lowering


_FUNCTIONS = ("sqrt", "exp", "tanh", "fabs")

_OPERATIONS: dict[str, Callable[..., Expr]] = {
    "Cast.NAME.float": _from_float,
    "Cast.float.NAME": _to_float,
    "Cast.NAME.int": _from_int,
    "Cast.int.NAME": _to_int,
    "FloatImm.NAME": _constant,
    "Add.NAME": lambda dtype, a, b: add(a, b),
    "Sub.NAME": lambda dtype, a, b: sub(a, b),
    "Mul.NAME": _times,
    "Div.NAME": _over,
    "Mod.NAME": _rest,
    "Min.NAME": _on_integers(min_),
    "Max.NAME": _on_integers(max_),
    "EQ.NAME": _on_integers(eq),
    "NE.NAME": _on_integers(ne),
    "LT.NAME": _on_integers(lt),
    "LE.NAME": _on_integers(le),
    "GT.NAME": _on_integers(gt),
    "GE.NAME": _on_integers(ge),
    **{f"Call.intrin.tir.{op}.NAME": _by_way_of_float(op) for op in _FUNCTIONS},
}
