"""Infinities as numbers: where a result overflows, kernels and reference may round differently."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt


def finite_values(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """`values` in float64, with each infinity the first number beyond the range of their type.

    A result that rounds to an infinity may be almost one that rounds to the largest number. NaN
    stays.
    """
    wide = values.astype(np.float64)
    if values.dtype.kind in "iub":
        return wide
    limit = limit_of(values.dtype)
    return np.clip(wide, -limit, limit)


def limit_of(dtype: np.dtype[Any]) -> float:
    """The first number beyond the range of a type of floats; of float64, its largest number."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # ml_dtypes is untyped
    return min(2 * float(info.max) / (2 - float(info.eps)), float(np.finfo(np.float64).max))
