"""Comparing a kernel's output with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Relative to the largest magnitude in the output: sums of n terms err by about sqrt(n) roundings.
_TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2}

_TINY = 1e-37  # so that an exact zero may come out as a rounding of nothing


def compare(name: str, got: npt.NDArray[Any], want: npt.NDArray[Any]) -> str | None:
    """Why `got` is not `want` (first bad element, worst error), or None when it agrees.

    Integers must be equal. Floats may differ by the type's tolerance, relative to the element
    plus the output's root mean square.
    """
    if got.shape != want.shape:
        return f"output {name}: expected shape {want.shape}, found {got.shape}"
    tolerance = _TOLERANCE.get(got.dtype.name)
    if tolerance is None:
        bad = got != want
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    else:
        exact = want.astype(np.float64)
        value = got.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(value - exact)
        finite = np.isfinite(exact)
        rms = float(np.sqrt(np.mean(exact[finite] ** 2))) if finite.any() else 0.0
        allowed = tolerance * (np.abs(exact) + rms) + _TINY
        with np.errstate(invalid="ignore"):
            close = error <= allowed
        bad = ~(close | (value == exact) | (np.isnan(value) & np.isnan(exact)))
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"wrong answer: {int(bad.sum())} of {bad.size} elements of {name} differ from the NumPy "
        f"reference; the first at {where}: expected {want[where]}, found {got[where]} "
        f"(largest error {np.fmax.reduce(error[bad]):.3g})"
    )
