"""The NumPy functions that compute binary expressions."""

from __future__ import annotations

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
    """True division for floats; division truncated toward zero for integers."""
    if np.result_type(a, b).kind == "f":
        return np.true_divide(a, b)
    return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


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
