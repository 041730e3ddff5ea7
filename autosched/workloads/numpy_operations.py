"""The NumPy functions of a tensor program's reductions and calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir.expr import (
    Expr,
    Max,
    Min,
    Mul,
)

UFUNCS: dict[type[Expr], np.ufunc] = {Max: np.maximum, Min: np.minimum, Mul: np.multiply}

_NUMPY_NAMES = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "tanh", "sinh", "cosh"),
    *("sin", "cos", "tan", "hypot", "fabs", "floor", "ceil", "trunc", "copysign", "fmod"),
    *("isnan", "isinf", "isfinite"),
)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _round(x: Any) -> Any:
    """Round to nearest, ties away from zero, without adding 0.5: that sum would be rounded."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):  # the difference of infinities is NaN
        return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _NUMPY_NAMES},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "round": _round,
    "nearbyint": np.rint,
    "exp10": lambda x: np.power(10.0, x),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
