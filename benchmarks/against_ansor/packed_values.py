"""Arguments of host functions, from data that both sides read (see packed.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

Value = list[Any]
"""["array", shape, type, order], or ["plain", what]."""


def made(value: Value) -> Any:
    """The argument: an array of zeros, compact or not, or what is given."""
    if value[0] == "plain":
        return value[1]
    _, shape, dtype, order = value
    if order == "every second" and shape:
        return np.zeros([*shape[:-1], shape[-1] * 2], dtype)[..., ::2]
    if order == "transposed":
        return np.zeros(shape[::-1], dtype).T
    if order == "backwards" and shape:
        return np.zeros(shape, dtype)[::-1]
    return np.zeros(shape, dtype)
