"""Bit patterns of floats, and comparison with the rounding of ml_dtypes."""

from __future__ import annotations

import numpy as np

from autosched.tir.dtype import DType
from kit.types import Array


def patterns(dtype: str) -> Array:
    """All values of a type of up to 16 bits; many of float32, dense where small types round."""
    kind = DType(dtype)
    if kind.bits <= 16:
        return np.arange(1 << kind.bits, dtype=f"uint{kind.bits}").view(kind.numpy)
    anywhere = np.arange(0, 1 << 32, 999983, dtype=np.uint64)
    near = np.arange(0x36000000, 0x48000000, 29989, dtype=np.uint64)
    ties = np.arange(0x36000000, 0x48000000, 1 << 19, dtype=np.uint64)
    around = np.concatenate([ties + d for d in (0, 1, (1 << 32) - 1)]) % (1 << 32)
    special = [0x7F800000, 0x7F800001, 0x7FFFFFFF, 0x477FEFFF, 0x477FF000, 1]
    bits = np.concatenate([anywhere, near, around, np.array(special, np.uint64)])
    both = np.concatenate([bits, bits ^ 0x80000000]).astype(np.uint32)
    values: Array = both[: len(both) // 16 * 16].view(np.float32)
    return values


def same_bits(found: Array, exact: Array, dtype: str) -> None:
    """Assert that `found` is `exact` (float32), rounded to `dtype` by ml_dtypes, bit by bit."""
    kind = DType(dtype)
    with np.errstate(all="ignore"):
        wanted = exact.astype(kind.numpy)
    unsigned = f"uint{kind.bits}"
    np.testing.assert_array_equal(found.view(unsigned), wanted.view(unsigned))
