"""Inputs of vectors that are added to sums of products."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from autosched.workloads.types import Types
from autosched.workloads.workload import Array

_SAMPLE = 1 << 16  # elements that tell how large the others are


def bias_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Make the bias, and the offset where there is one, as large as the sums they are added to.

    Beside sums of thousands of terms, or of bytes, numbers near 1 are within the tolerance. Sums of
    integers are exact.
    """
    X, weights, bias, *more = inputs
    if bias.dtype.kind in "iu":
        return inputs
    most = float(ml_dtypes.finfo(bias.dtype).max) / 16  # type: ignore[no-untyped-call]  # ml_dtypes is untyped
    size = min(most, _size_of_sums(X, weights, weights.size // bias.size))

    def scaled(vector: Array) -> Array:
        return (vector.astype(np.float64) * size).astype(vector.dtype)

    return [X, weights, scaled(bias), *more[:-1], *map(scaled, more[-1:])]


def _size_of_sums(a: Array, b: Array, terms: int) -> float:
    """The size of sums of `terms` products of random elements, as a power of two."""
    some = [array.reshape(-1)[:_SAMPLE].astype(np.float64) for array in (a, b)]
    spread = math.sqrt(terms) * math.prod(float(np.sqrt(np.mean(x**2))) for x in some)
    centre = terms * math.prod(float(np.mean(x)) for x in some)
    return 2.0 ** round(math.log2(max(math.hypot(spread, centre), 1.0)))
