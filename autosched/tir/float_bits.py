"""Conversions to and from storage-only floats (bfloat16, float8) as integer expressions.

Passes, the LLVM back end and the CUDA printer all convert by these expressions. The interpreter
converts by ml_dtypes; tests compare the two bit by bit.

Widening is exact. Narrowing rounds to nearest, ties to even. Values beyond the largest finite one
become infinity, or NaN in float8_e4m3fn, which has no infinity; with `saturate` they become the
largest finite value, and NaN stays NaN. A NaN becomes the type's canonical NaN with the same sign.

    bfloat16 to float32:  the bits, shifted left by 16
    float32 to bfloat16:  (bits + 0x7fff + bit 16) >> 16, except for NaN

`nan_safe=False` emits TVM's shorter forms for float32 to bfloat16 and float16 to float8_e5m2. They
are wrong for NaN only (0x7fff of float16 becomes -0), and evaluate their operand twice.
"""

from __future__ import annotations

import numpy as np

from autosched.tir.conversion import broadcast, cast, full_like
from autosched.tir.dtype import DType, float32
from autosched.tir.expr import Call, Expr, FloatImm, Let, Var
from autosched.tir.op import add, call, gt, lt, min_, mul, select, sub

_E4M3_SMALLEST = 2.0**-9
"""The smallest subnormal of float8_e4m3fn; the others are its multiples."""


def bits_type(dtype: DType) -> DType:
    """The unsigned integer type with as many bits (and lanes) as `dtype`."""
    return DType(f"uint{dtype.bits}").with_lanes(dtype.lanes)


def bits_value(value: float, dtype: DType) -> int:
    """The bits of the scalar `value` rounded to `dtype`."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(value).astype(dtype.element.numpy)
    return int(rounded.view(f"uint{dtype.bits}"))


def widen(value: Expr, target: DType) -> Expr:
    """`value`, a storage-only float, converted to float16, float32 or another type, exactly."""
    source, target = value.dtype, target.with_lanes(value.dtype.lanes)
    assert source.is_storage_float, f"{source} is computed in, not only stored"
    half = DType("float16").with_lanes(source.lanes)
    wide = float32.with_lanes(source.lanes)
    if source.code == "bfloat":
        bits = cast(bits_type(wide), _bits(value))
        return cast(target, _as(wide, call("shift_left", bits, full_like(bits, 16))))
    if source.code == "e5m2":
        # float8_e5m2 has the sign and the exponent of float16: it is the upper byte.
        bits = cast(bits_type(half), _bits(value))
        return cast(target, _as(half, call("shift_left", bits, full_like(bits, 8))))
    middle = half if target is half else wide
    if isinstance(value, Var):
        return cast(target, _widen_e4m3(_bits(value), middle))
    bits = Var("bits", bits_type(source))
    return cast(target, Let(bits, _bits(value), _widen_e4m3(bits, middle)))


def _widen_e4m3(bits: Expr, target: DType) -> Expr:
    """The bits of a float8_e4m3fn as float16 or float32."""
    half = target.bits == 16
    kind = bits_type(target)
    code = cast(kind, bits)
    magnitude = call("bitwise_and", code, full_like(code, 0x7F))
    sign = call("bitwise_and", code, full_like(code, 0x80))
    sign = call("shift_left", sign, full_like(code, kind.bits - 8))
    small = _bits(mul(cast(target, magnitude), _float(_E4M3_SMALLEST, target)))
    exponent = 0x2000 if half else 0x3C000000
    usual = add(
        call("shift_left", magnitude, full_like(code, 7 if half else 20)), full_like(code, exponent)
    )
    finite = select(lt(magnitude, full_like(code, 8)), small, usual)
    nan = full_like(code, 0x7E00 if half else 0x7FC00000)
    found = select(gt(magnitude, full_like(code, 0x7E)), nan, finite)
    return _as(target, call("bitwise_or", found, sign))


def narrow(value: Expr, target: DType, saturate: bool = False, nan_safe: bool = True) -> Expr:
    """`value` rounded to `target`, a storage-only float type.

    float16 and float32 are rounded once. Integers and float64 are rounded to float32 first, as
    ml_dtypes does.
    """
    target = target.with_lanes(value.dtype.lanes)
    assert target.is_storage_float, f"{target} is computed in, not only stored"
    if value.dtype is target:
        return value
    if value.dtype.is_storage_float:
        return narrow(widen(value, float32), target, saturate, nan_safe)
    half = value.dtype.bits == 16 and value.dtype.code == "float" and target.code == "e5m2"
    source = value if half else cast(float32.with_lanes(target.lanes), value)
    if not nan_safe and not saturate and (half or target.code == "bfloat"):
        return _narrow_as_tvm(_bits(source), target)
    if isinstance(source, Var):
        return _narrow(_bits(source), target, saturate)
    name = Var("bits", bits_type(source.dtype))
    return Let(name, _bits(source), _narrow(name, target, saturate))


def _narrow_as_tvm(bits: Expr, target: DType) -> Expr:
    dropped = bits.dtype.bits - target.bits
    places, one = full_like(bits, dropped), full_like(bits, 1)
    odd = call("bitwise_and", call("shift_right", bits, places), one)
    whole = add(bits, add(odd, full_like(bits, (1 << (dropped - 1)) - 1)))
    return _as(target, cast(bits_type(target), call("shift_right", whole, places)))


def _narrow(bits: Expr, target: DType, saturate: bool) -> Expr:
    if target.code == "bfloat" or bits.dtype.bits == 16:
        return _drop_low_half(bits, target, saturate)
    return _narrow_to_float8(bits, target, saturate)


def _drop_low_half(bits: Expr, target: DType, saturate: bool) -> Expr:
    """Narrow to a type with the same exponent range: the upper half of the bits, rounded."""
    dropped = bits.dtype.bits - target.bits
    largest, infinity, nan = _SPECIAL[target.code]
    top = call("shift_right", bits, full_like(bits, dropped))
    odd = call("bitwise_and", top, full_like(bits, 1))
    rounded = add(bits, add(odd, full_like(bits, (1 << (dropped - 1)) - 1)))
    found = call("shift_right", rounded, full_like(bits, dropped))
    sign = call("bitwise_and", top, full_like(bits, 1 << (target.bits - 1)))
    if saturate:
        magnitude = call("bitwise_and", found, full_like(bits, (1 << (target.bits - 1)) - 1))
        found = call("bitwise_or", min_(magnitude, full_like(bits, largest)), sign)
    magnitude = call("bitwise_and", bits, full_like(bits, (1 << (bits.dtype.bits - 1)) - 1))
    is_nan = gt(magnitude, full_like(bits, infinity << dropped))
    found = select(is_nan, call("bitwise_or", sign, full_like(bits, nan)), found)
    return _as(target, cast(bits_type(target), found))


def _narrow_to_float8(bits: Expr, target: DType, saturate: bool) -> Expr:
    """Narrow float32 to a float8.

    Subnormals are rounded by adding `anchor`, a float whose last place is the target's smallest
    subnormal. `shift` is the number of mantissa bits dropped, `rebias` the difference of the
    exponent biases at the position of the result's exponent, and `smallest` the float32 bits of the
    smallest normal number.
    """
    largest, infinity, nan = _SPECIAL[target.code]
    shift, rebias, smallest, anchor = _TO_FLOAT8[target.code]
    magnitude = call("bitwise_and", bits, full_like(bits, 0x7FFFFFFF))
    sign = call("shift_right", bits, full_like(bits, 24))
    sign = call("bitwise_and", sign, full_like(bits, 0x80))
    wide = float32.with_lanes(target.lanes)
    raised = _bits(add(_as(wide, magnitude), _float(anchor, wide)))
    anchor_bits = full_like(bits, int(np.float32(anchor).view(np.uint32)))
    odd = call("shift_right", magnitude, full_like(bits, shift))
    odd = call("bitwise_and", odd, full_like(bits, 1))
    rounded = add(magnitude, add(odd, full_like(bits, (1 << (shift - 1)) - 1)))
    usual = sub(call("shift_right", rounded, full_like(bits, shift)), full_like(bits, rebias))
    found = select(lt(magnitude, full_like(bits, smallest)), sub(raised, anchor_bits), usual)
    found = min_(found, full_like(bits, largest if saturate else infinity))
    found = select(gt(magnitude, full_like(bits, 0x7F800000)), full_like(bits, nan), found)
    return _as(target, cast(bits_type(target), call("bitwise_or", found, sign)))


_SPECIAL = {
    "bfloat": (0x7F7F, 0x7F80, 0x7FC0),
    "e4m3fn": (0x7E, 0x7F, 0x7F),
    "e5m2": (0x7B, 0x7C, 0x7E),
}
"""The bits of the largest finite number, of the result of overflow, and of NaN."""

_TO_FLOAT8 = {"e4m3fn": (20, 960, 0x3C800000, 16384.0), "e5m2": (21, 448, 0x38800000, 128.0)}


def _bits(value: Expr) -> Expr:
    return Call(bits_type(value.dtype), "reinterpret", (value,))


def _as(dtype: DType, bits: Expr) -> Expr:
    return Call(dtype, "reinterpret", (bits,))


def _float(value: float, dtype: DType) -> Expr:
    return broadcast(FloatImm(value, dtype.element), dtype.lanes)
