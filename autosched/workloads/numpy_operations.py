"""What operators and functions of tensor programs are in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

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
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
)


def _divided(a: Any, b: Any) -> Any:
    """Exact for floats, toward zero for integers."""
    if np.result_type(a, b).kind == "f":
        return np.true_divide(a, b)
    return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


UFUNCS: dict[type[Expr], np.ufunc] = {Max: np.maximum, Min: np.minimum, Mul: np.multiply}

BINARY: dict[type[BinaryExpr], Callable[[Any, Any], Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: _divided,
    Mod: np.fmod,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}


_NUMPY_NAMES = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "tanh", "sinh", "cosh"),
    *("sin", "cos", "tan", "hypot", "fabs", "floor", "ceil", "trunc", "copysign", "fmod"),
    *("isnan", "isinf", "isfinite"),
)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


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
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "nearbyint": np.rint,
    "exp10": lambda x: np.power(10.0, x),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
