"""What the operators and intrinsics compute in the interpreter, on scalars and arrays alike.

Scalars that all threads share are Python ints and bools, and NumPy scalars for floats; anything
else is an array of the value's own NumPy type, whose integers wrap as the hardware's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.interp_memory import InterpreterError, Mask, combine_masks, thread_mask

__all__ = [
    "branch",
    "cast_many",
    "cast_one",
    "divisor",
    "float_call",
    "integer_call",
    "lane_axis",
    "larger",
    "ramp",
    "reinterpret",
    "select_one",
    "shuffle",
    "smaller",
    "trunc_div",
    "trunc_div_many",
    "trunc_mod",
    "vector_index",
    "wrap",
]


def wrap(value: int, dtype: DType) -> int:
    """A Python int brought into the range of `dtype` as the hardware would."""
    if dtype.is_bool:
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    if dtype.code == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def cast_one(value: Any, dtype: DType) -> Any:
    """A scalar converted as C does: floats to integers truncate, integers wrap."""
    if dtype.is_bool:
        return bool(value != 0)
    if dtype.is_float:
        return dtype.numpy.type(value)
    if isinstance(value, np.generic | float) and not isinstance(value, np.integer | np.bool_):
        value = float(value)
        if not math.isfinite(value):
            return int(dtype.min_value)
    return wrap(int(value), dtype)


def cast_many(value: Any, dtype: DType) -> Any:
    """An array converted as C does."""
    value = np.asarray(value)
    if dtype.is_bool:
        return value != 0
    if dtype.code == "uint" and value.dtype.kind not in "iub":
        value = value.astype(np.float64).astype(np.int64)
    return value.astype(dtype.numpy)


def trunc_div(a: int, b: int) -> int:
    """Integer division toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def trunc_mod(a: int, b: int) -> int:
    """The remainder of `trunc_div`."""
    return a - b * trunc_div(a, b)


def divisor(value: Any, mask: Mask) -> Any:
    """`value` with zeros of idle threads made 1; ZeroDivisionError when a running one divides."""
    zero = np.asarray(value) == 0
    if not zero.any():
        return value
    if np.any(combine_masks(mask if zero.ndim == 2 else thread_mask(mask), zero)):
        raise ZeroDivisionError("integer division by zero")
    return np.where(zero, np.asarray(1, np.asarray(value).dtype), value)


def trunc_div_many(a: Any, b: Any) -> Any:
    """`trunc_div` on arrays (no zero in b)."""
    quotient = np.floor_divide(a, b)
    inexact = np.multiply(quotient, b) != a
    return quotient + (inexact & ((np.asarray(a) < 0) != (np.asarray(b) < 0)))


def smaller(a: Any, b: Any) -> Any:
    """min of floats: b when they do not compare."""
    return (
        np.where(a < b, a, b)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
        else (a if a < b else b)
    )


def larger(a: Any, b: Any) -> Any:
    """max of floats: b when they do not compare."""
    return (
        np.where(a > b, a, b)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
        else (a if a > b else b)
    )


def select_one(condition: Any, a: Any, b: Any) -> Any:
    """Select by one condition, both values given."""
    return a if condition else b


def lane_axis(value: Any) -> Any:
    """A scalar per thread as a vector that broadcasts over lanes."""
    return np.asarray(value).reshape(-1, 1)


def branch(
    condition: Any, mask: Mask, then: Callable[[Mask], Any], other: Callable[[Mask], Any]
) -> Any:
    """if_then_else per thread: each branch runs only for the threads that take it."""
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
    """The vector base + stride * (0 .. lanes)."""
    low, step = (np.asarray(x, dtype).reshape(-1, 1) for x in (base, stride))
    return low + step * np.arange(lanes, dtype=dtype)


def vector_index(index: Any, lanes: int) -> Any:
    """Element indices of vectors of `lanes` elements at vector indices `index`."""
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
    """The bits of `value` read as `target`."""
    bits = np.asarray(value, dtype=source.numpy)
    return bits.reshape(bits.shape or (1,)).view(target.numpy).reshape(bits.shape)


def _elementwise(fn: Callable[..., Any]) -> Callable[..., Any]:
    ufunc = np.frompyfunc(fn, 1, 1)

    def apply(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(ufunc(x.astype(np.float64)), np.float64).astype(x.dtype)

    return apply


def _round(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(np.asarray(x).dtype)


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


def _clz(bits: int) -> Callable[[int], int]:
    return lambda x: bits - (int(x) & ((1 << bits) - 1)).bit_length()


def _popcount(bits: int) -> Callable[[int], int]:
    return lambda x: (int(x) & ((1 << bits) - 1)).bit_count()


def _multiply_shift(x: int, y: int, q: int, s: int) -> int:
    """round(x * y * 2**(s - q)), halves up."""
    product, right = int(x) * int(y), int(q) - int(s)
    if right <= 0:
        return product << -right
    return (product + (1 << (right - 1))) >> right


_INTEGER: dict[str, Callable[..., int]] = {
    "bitwise_and": lambda a, b: int(a) & int(b),
    "bitwise_or": lambda a, b: int(a) | int(b),
    "bitwise_xor": lambda a, b: int(a) ^ int(b),
    "bitwise_not": lambda a: ~int(a),
    "shift_left": lambda a, b: int(a) << (int(b) & 127),
    "shift_right": lambda a, b: int(a) >> (int(b) & 127),
    "q_multiply_shift": _multiply_shift,
    "large_uint_imm": lambda low, high: int(low) | int(high) << 32,
}
_VECTORISED: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def integer_call(op: str, source: DType, dtype: DType, *args: Any) -> Any:
    """An intrinsic on integers: exact, then wrapped to `dtype`."""
    many = any(isinstance(a, np.ndarray) for a in args)
    if many and op in _VECTORISED:
        return _VECTORISED[op](*args)
    if op in ("clz", "popcount"):
        fn: Callable[..., int] = (_clz if op == "clz" else _popcount)(source.bits)
    else:
        fn = _INTEGER[op]
    if not many:
        result = wrap(fn(*args), dtype)
        return bool(result) if dtype.is_bool else result
    exact = np.frompyfunc(lambda *a: wrap(fn(*a), dtype), len(args), 1)(*args)
    return np.asarray(exact).astype(dtype.numpy)


INTEGER_CALLS = frozenset((*_INTEGER, "clz", "popcount"))


def float_call(op: str, dtype: DType, *args: Any) -> Any:
    """An intrinsic on floats, in the type of its arguments."""
    fn = UNARY.get(op) or BINARY.get(op)
    if fn is None:
        raise InterpreterError(f"the interpreter does not know the intrinsic {op}")
    result = fn(*args)
    if dtype.is_bool:
        return result
    if isinstance(result, np.ndarray) and result.ndim:
        return result.astype(dtype.numpy, copy=False)
    return dtype.numpy.type(result)
