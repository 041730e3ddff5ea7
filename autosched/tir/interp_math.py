"""The operators and intrinsics of the interpreter, on scalars and arrays alike.

Scalars that all threads share are Python ints and bools, and NumPy scalars for floats. All other
values are arrays of the value's NumPy type, whose integers wrap as those of hardware do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.interp_memory import Array, InterpreterError, Mask, combine_masks, thread_mask

__all__ = [
    "all_lanes",
    "branch",
    "cast_many",
    "cast_one",
    "divide",
    "float_call",
    "floor_div_float",
    "fused_multiply_add",
    "integer_call",
    "lane_axis",
    "ramp",
    "reinterpret",
    "reinterpret_lanes",
    "select_one",
    "shuffle",
    "trunc_div",
    "trunc_div_many",
    "trunc_mod",
    "vector_index",
    "wrap",
]


def wrap(value: int, dtype: DType) -> int:
    """A Python int wrapped to the range of `dtype`, as in hardware."""
    if dtype.is_bool:
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    if dtype.code == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def cast_one(value: Any, dtype: DType) -> Any:
    """A scalar converted to `dtype`: float to integer truncates and saturates, integers wrap.

    NaN converted to an integer is 0. bfloat16 and 8-bit floats are rounded from float32, as in
    ml_dtypes; float64 to float16 is rounded once.
    """
    if dtype.is_bool:
        return bool(value != 0)
    if dtype.is_float:
        return _to_float(value, dtype)
    if isinstance(value, np.generic | float) and not isinstance(value, np.integer | np.bool_):
        value = float(value)
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return int(dtype.max_value if value > 0 else dtype.min_value)
        return min(max(int(value), int(dtype.min_value)), int(dtype.max_value))
    return wrap(int(value), dtype)


def cast_many(value: Any, dtype: DType) -> Any:
    """`cast_one` for an array."""
    value = np.asarray(value)
    if dtype.is_bool:
        return value != 0
    if dtype.is_float:
        return _to_float(value, dtype)
    if value.dtype.kind in "iub":
        return value.astype(dtype.numpy)
    whole = np.trunc(value.astype(np.float64))
    # Both limits are +-2^n or 0, and so exact as float64.
    low, beyond = float(dtype.min_value), float(int(dtype.max_value) + 1)
    inside = (whole >= low) & (whole < beyond)
    result = np.where(inside, whole, 0).astype(dtype.numpy)
    if not inside.all():
        result[whole >= beyond] = dtype.max_value
        result[whole < low] = dtype.min_value
    return result


def _to_float(value: Any, dtype: DType) -> Any:
    if dtype.bits <= 16:
        value = np.asarray(value)
        if dtype.is_storage_float or value.dtype != np.float64:
            value = value.astype(np.float32)
        value = value[()]
    return value.astype(dtype.numpy) if isinstance(value, np.ndarray) else dtype.numpy.type(value)


def trunc_div(a: int, b: int) -> int:
    """Integer division rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def trunc_mod(a: int, b: int) -> int:
    """The remainder of `trunc_div`."""
    return a - b * trunc_div(a, b)


def trunc_div_many(a: Any, b: Any) -> Any:
    """`trunc_div` on arrays; `b` must not contain zeros."""
    quotient = np.floor_divide(a, b)
    inexact = np.multiply(quotient, b) != a
    return quotient + (inexact & ((np.asarray(a) < 0) != (np.asarray(b) < 0)))


_DIVISIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "FloorDiv": (operator.floordiv, np.floor_divide),
    "FloorMod": (operator.mod, np.mod),
    "Div": (trunc_div, trunc_div_many),
    "Mod": (trunc_mod, np.fmod),
}
"""For each division the function on two numbers, and that on arrays."""


def divide(kind: str, a: Any, b: Any) -> Any:
    """A quotient or remainder of integers; 0 where `b` is 0, as in NumPy."""
    one, many = _DIVISIONS[kind]
    zero = np.asarray(b) == 0
    if zero.ndim == 0 and np.ndim(a) == 0:
        return 0 if zero else one(a, b)
    if zero.any():
        b = np.where(zero, np.asarray(1, np.asarray(a if zero.ndim == 0 else b).dtype), b)
    with np.errstate(over="ignore"):  # the smallest integer divided by -1 wraps
        found = many(a, b)
    return np.where(zero, np.asarray(0, found.dtype), found)


def floor_div_float(a: Any, b: Any) -> Any:
    """floor(a / b) as NumPy computes it, by fmod; 8 and 16 bits are rounded at the end only."""
    dtype = np.result_type(a, b)
    if dtype.itemsize > 2:
        return np.floor_divide(a, b)
    a, b = (np.asarray(x).astype(np.float32)[()] for x in (a, b))  # ml_dtypes 0.4 gives NaN
    return np.floor_divide(a, b).astype(dtype)


def select_one(condition: Any, a: Any, b: Any) -> Any:
    """Select by one condition; both values are evaluated already."""
    return a if condition else b


def lane_axis(value: Any) -> Any:
    """A scalar per thread as an array (threads, 1), which broadcasts over lanes."""
    return np.asarray(value).reshape(-1, 1)


def branch(
    condition: Any, mask: Mask, then: Callable[[Mask], Any], other: Callable[[Mask], Any]
) -> Any:
    """if_then_else per thread: each branch is evaluated only for the threads that take it."""
    condition = np.asarray(condition, dtype=bool)
    if condition.ndim < 2:
        mask = thread_mask(mask)
    taken = combine_masks(mask, condition)
    left = combine_masks(mask, ~condition)
    if not taken.any():
        return other(left) if left.any() else then(taken)
    if not left.any():
        return then(taken)
    return np.where(condition, then(taken), other(left))


def ramp(base: Any, stride: Any, lanes: int, dtype: np.dtype[Any]) -> Any:
    """The vectors base + stride * [0, ..., lanes - 1] as an array (threads or 1, lanes)."""
    lane = _lane_numbers(lanes, dtype)
    if type(base) is int and type(stride) is int:
        return (base + stride * lane)[np.newaxis]
    low, step = (np.asarray(x, dtype).reshape(-1, 1) for x in (base, stride))
    return low + step * lane


@lru_cache(maxsize=256)
def _lane_numbers(lanes: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    numbers = np.arange(lanes, dtype=dtype)
    numbers.flags.writeable = False
    return numbers


def vector_index(index: Any, lanes: int) -> Any:
    """The element indices of vectors of `lanes` elements at vector indices `index`."""
    index = np.asarray(index, dtype=np.int64)
    index = index.reshape(*index.shape, 1) if index.ndim else index.reshape(1, 1)
    wide = index * lanes + np.arange(lanes)
    return wide.reshape(wide.shape[0], -1)


def shuffle(vectors: tuple[Any, ...], lanes: tuple[int, ...], picks: tuple[int, ...]) -> Any:
    """The lanes `picks` of the concatenated vectors; a scalar (threads,) for one pick."""
    rows = max(np.shape(v)[0] if np.ndim(v) else 1 for v in vectors)
    whole = np.concatenate(
        [
            np.broadcast_to(np.asarray(v).reshape(-1, 1) if np.ndim(v) < 2 else v, (rows, n))
            for v, n in zip(vectors, lanes, strict=True)
        ],
        axis=1,
    )
    picked = whole[:, list(picks)]
    return picked[:, 0] if len(picks) == 1 else picked


def reinterpret(value: Any, source: DType, target: DType) -> Any:
    """The bits of `value` read as type `target`, which has the same width."""
    bits = np.asarray(value, dtype=source.numpy)
    return bits.reshape(bits.shape or (1,)).view(target.numpy).reshape(bits.shape)


def all_lanes(value: Any, lanes: int) -> Array:
    """`value` as an array (threads or 1, lanes); a broadcast vector may have a single column."""
    rows = np.asarray(value)
    rows = rows if rows.ndim == 2 else rows.reshape(-1, 1)
    return np.broadcast_to(rows, (rows.shape[0], lanes))


def reinterpret_lanes(value: Any, source: DType, before: int, target: DType, lanes: int) -> Any:
    """The bits of `before` lanes read as `lanes` lanes of a type of another width."""
    rows = np.ascontiguousarray(all_lanes(value, before), dtype=source.numpy)
    bits = rows.view(target.numpy)
    return bits if lanes > 1 else bits[:, 0]


def _elementwise(fn: Callable[..., Any]) -> Callable[..., Any]:
    ufunc = np.frompyfunc(fn, 1, 1)

    def apply(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(ufunc(x.astype(np.float64)), np.float64).astype(x.dtype)

    return apply


def _round(x: Any) -> Any:
    whole = np.trunc(x)
    more = np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(np.asarray(x).dtype)
    return np.copysign(whole + more, x)


def _sigmoid(x: Any) -> Any:
    one = np.asarray(x).dtype.type(1)
    return one / (one + np.exp(-x))


def _exp10(x: Any) -> Any:
    return np.power(np.asarray(x).dtype.type(10), x)


UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": _exp10,
    "erf": _elementwise(math.erf),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.asarray(x).dtype.type(1) / np.sqrt(x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": _round,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "pow": np.power,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "ldexp": lambda x, e: np.ldexp(x, np.asarray(e, np.int32)).astype(np.asarray(x).dtype),
    "nextafter": np.nextafter,
}


def fused_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once; types narrower than float32 are rounded to float32 first."""
    dtype = np.result_type(x, y, z)
    if dtype.itemsize == 8:
        return np.asarray(_FMA64(x, y, z), np.float64)[()]
    x, y, z = (np.asarray(v).astype(np.float64) for v in (x, y, z))
    product = x * y  # exact: float32 products have at most 48 bits
    total = product + z
    # Round the sum to odd, so that rounding it to float32 equals rounding the exact sum.
    part = total - product
    error = (product - (total - part)) + (z - part)
    if not error.any():
        return total.astype(np.float32).astype(dtype)[()]
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    odd = np.where(inexact, bits + step, bits).view(np.float64)
    return odd.astype(np.float32).astype(dtype)[()]


def _fma_exact(*values: Any) -> float:
    x, y, z = map(float, values)
    if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z):
        return z
    if not (math.isfinite(x) and math.isfinite(y)):
        with np.errstate(all="ignore"):
            return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_FMA64 = np.frompyfunc(_fma_exact, 3, 1)


def _multiply_shift(x: int, y: int, q: int, s: int) -> int:
    """round(x * y * 2**(s - q)), with halves rounded up."""
    product, right = int(x) * int(y), int(q) - int(s)
    if right <= 0:
        return product << -right
    return (product + (1 << (right - 1))) >> right


_INTEGER: dict[str, Callable[..., int]] = {
    "bitwise_and": lambda a, b: int(a) & int(b),
    "bitwise_or": lambda a, b: int(a) | int(b),
    "bitwise_xor": lambda a, b: int(a) ^ int(b),
    "bitwise_not": lambda a: ~int(a),
    "q_multiply_shift": _multiply_shift,
    "large_uint_imm": lambda low, high: int(low) | int(high) << 32,
}


def _unsigned(x: Array, bits: int) -> Array:
    return x.astype(np.uint8) if bits == 1 else x.view(f"uint{bits}")


def _leading_zeros(x: Array, bits: int) -> Array:
    # 32-bit halves are exact as float64, whose exponent is the position of the highest bit.
    if bits == 64:
        high, low = x >> np.uint64(32), x & np.uint64(0xFFFFFFFF)
        return np.where(high != 0, _leading_zeros(high, 32), 32 + _leading_zeros(low, 32))
    return bits - np.frexp(x.astype(np.float64))[1]


def _ones(x: Array) -> Array:
    octets = np.ascontiguousarray(x)[..., None].view(np.uint8)  # NumPy 1 has no bit_count
    count: Array = np.unpackbits(octets, axis=-1).sum(axis=-1)
    return count


_VECTORISED: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


def integer_call(op: str, source: DType, dtype: DType, *args: Any) -> Any:
    """An intrinsic on integers, computed exactly and wrapped to `dtype`.

    Shift counts are taken modulo the bits of the type. Arrays are computed by NumPy, whose integers
    wrap.
    """
    many = any(isinstance(a, np.ndarray) for a in args)
    if many and op in _VECTORISED:
        args = tuple(np.asarray(a, source.numpy) for a in args)
        if op.startswith("shift"):
            args = (args[0], args[1] & (source.bits - 1))
        return _VECTORISED[op](*args).astype(dtype.numpy, copy=False)
    if many and op in ("clz", "popcount"):
        bits = _unsigned(np.asarray(args[0], source.numpy), source.bits)
        count = _leading_zeros(bits, source.bits) if op == "clz" else _ones(bits)
        return np.asarray(count).astype(dtype.numpy)
    if not many:
        result = wrap(_exact(op, source, *args), dtype)
        return bool(result) if dtype.is_bool else result
    exact = np.frompyfunc(lambda *a: wrap(_exact(op, source, *a), dtype), len(args), 1)(*args)
    return np.asarray(exact).astype(dtype.numpy)


def _exact(op: str, source: DType, *args: Any) -> int:
    bits = source.bits
    match op:
        case "clz":
            return bits - (int(args[0]) & ((1 << bits) - 1)).bit_length()
        case "popcount":
            return (int(args[0]) & ((1 << bits) - 1)).bit_count()
        case "shift_left":
            return int(args[0]) << (int(args[1]) & (bits - 1))
        case "shift_right":
            return int(args[0]) >> (int(args[1]) & (bits - 1))
    return _INTEGER[op](*args)


INTEGER_CALLS = frozenset((*_INTEGER, *_VECTORISED, "clz", "popcount"))


def float_call(op: str, dtype: DType, *args: Any) -> Any:
    """An intrinsic on floats in the type of its arguments; 8 and 16 bits through float32."""
    fn = UNARY.get(op) or BINARY.get(op)
    if fn is None:
        raise InterpreterError(f"the interpreter does not know the intrinsic {op}")
    if dtype.bits <= 16 and dtype.is_float:
        args = tuple(
            np.asarray(a).astype(np.float32)[()] if np.asarray(a).dtype == dtype.numpy else a
            for a in args
        )
    result = fn(*args)
    if dtype.is_bool:
        return result
    if isinstance(result, np.ndarray) and result.ndim:
        return result.astype(dtype.numpy, copy=False)
    return dtype.numpy.type(result)
