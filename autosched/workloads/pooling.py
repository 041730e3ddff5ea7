"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.op import min_value
from autosched.workloads.padding import pad, pad_array, windows
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, output_size, window_problem


def check_max_pool(N: int, C: int, H: int, W: int, K: int, stride: int, padding: int) -> str | None:
    """Say why the window does not fit, or is within the border; None if it is fine."""
    if padding >= K:
        return f"argument padding={padding} must be smaller than K={K}"
    return window_problem({"H": H, "W": W}, K, padding)


def max_pool2d_nchw(
    N: int, C: int, H: int, W: int, K: int, stride: int, padding: int, types: Types
) -> list[Tensor]:
    """2-D maximum pooling, channels first; the border counts as the smallest number."""
    X = te.placeholder((N, C, H, W), types.inputs, name="X")
    P = pad(X, {2: padding, 3: padding}, min_value(types.inputs), ("n", "c", "h", "w"))
    rh = te.reduce_axis((0, K), name="rh")
    rw = te.reduce_axis((0, K), name="rw")
    Y = te.compute(
        (N, C, output_size(H, K, stride, padding), output_size(W, K, stride, padding)),
        lambda n, c, h, w: te.max(
            types.wide(P[n, c, h * stride + rh, w * stride + rw]), axis=[rh, rw]
        ),
        name=types.before("Y"),
    )
    return [X, types.output(Y, "Y")]


def max_pool2d_nchw_reference(
    inputs: Sequence[Array], N: int, C: int, H: int, W: int, K: int, stride: int, padding: int
) -> list[Array]:
    """NumPy reference of `max_pool2d_nchw`."""
    X = inputs[0]
    low = np.finfo(X.dtype).min if X.dtype.kind == "f" else np.iinfo(X.dtype).min
    padded = pad_array(X, {2: padding, 3: padding}, low)
    return [windows(padded, (2, 3), (K, K), stride).max(axis=(-2, -1))]


def max_pool_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Make all elements negative, so that a border of zeros, or a maximum begun with 0, shows.

    Of those of float64, most are numbers that float32 does not hold, however small they are.
    """
    (X,) = inputs
    if X.dtype == np.float64:
        X = X / 3
    return [X if X.dtype.kind in "ub" else -np.abs(X)]
