"""Corner values at which the meanings of operators differ.

They are NaN, infinities, subnormals, the limits of integer types and the floats next to these.
"""

from __future__ import annotations

import numpy as np

from autosched.tir.dtype import DType
from kit.types import Array


def corners(dtype: str) -> Array:
    """The corner values of `dtype`."""
    kind = DType(dtype)
    if kind.is_bool:
        return np.array([False, True])
    if kind.is_integral:
        low, high = int(kind.min_value), int(kind.max_value)
        whole = [low, low + 1, high, high - 1, high // 2, 0, 1, 2, 3, 7, 255, 256, 65535]
        signed = [-1, -2, -3, -128, -129, -32768] if kind.is_int else []
        return np.array([v for v in whole + signed if low <= v <= high], kind.numpy)
    powers = [2.0**k for k in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
    near = [p * f for p in powers for f in (1, 1 - 2**-11, 1 - 2**-24, 1 + 2**-10)]
    values = [0.0, 0.5, 0.999, 1.0, 1.5, 2.5, 255.4, 1e-40, 6e-8, 5e-324, 1e30, 1e300, *near]
    values += [float(kind.max_value), np.inf, np.nan]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-v for v in values)]).astype(kind.numpy)


def sample(dtype: str, seed: int, count: int = 2048) -> Array:
    """`count` values: first every corner, then a mix of corners and of random bit patterns."""
    rng = np.random.default_rng(seed)
    kind = DType(dtype)
    every = corners(dtype)
    drawn = np.concatenate([rng.permutation(every), rng.choice(every, count - len(every))])
    if kind.is_bool:
        return drawn
    random_bits = rng.integers(0, 256, count * kind.bytes, dtype=np.uint8).view(kind.numpy)
    chosen = rng.random(count) < 0.5
    chosen[: len(every)] = False
    drawn[chosen] = random_bits[chosen]
    return drawn
