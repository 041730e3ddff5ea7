"""Products of 8-bit integers whose sums are scaled back to 8 bits.

    total = sum(int32(x) * int32(w)) + bias
    out = saturate(rint(float32(max(total, 0)) * scale) + y_zero)

A zero point of X is part of the bias, as in oneDNN and gemmlowp: where X means `x - x_zero`, the
bias is that of the layer minus `x_zero` times the sum of the weights. The border of a convolution
is filled with `x_zero`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.tir.op import call, cast, const, max_, min_
from autosched.workloads.convolution import Conv2d, check_conv2d, conv2d, conv2d_nhwc_reference
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, layout_free

FLOAT32 = "float32"


def check_conv2d_requantised(*, x_zero: int, y_zero: int, relu: int, **sizes: int) -> str | None:
    """Say why the sizes are impossible, see `Conv2d.problem`; None if they are fine."""
    return check_conv2d(**sizes)


def dense_requantised(M: int, N: int, K: int, y_zero: int, relu: int, types: Types) -> list[Tensor]:
    """A @ W^T + bias, scaled by `scale` per column."""
    A = te.placeholder((M, K), types.inputs, name="A")
    W = te.placeholder((N, K), types.weights, name="W")
    k = te.reduce_axis((0, K), name="k")
    T = te.compute(
        (M, N),
        lambda i, j: te.sum(types.wide(A[i, k]) * types.wide(W[j, k]), axis=k),
        name="T",
        attrs=layout_free(W),
    )
    return [A, W, *_requantised(T, y_zero, relu, types)]


def conv2d_nhwc_requantised(
    x_zero: int, y_zero: int, relu: int, types: Types, **sizes: int
) -> list[Tensor]:
    """`conv2d_nhwc` with bias, scaled by `scale` per channel."""
    X, K, Y = conv2d(Conv2d(**sizes), types, "Y", const(x_zero, types.inputs))
    return [X, K, *_requantised(Y, y_zero, relu, types)]


def _requantised(total: Tensor, y_zero: int, relu: int, types: Types) -> list[Tensor]:
    """Bias, scale and the output computed from `total`; bias and scale run along its last axis."""
    shape, out = total.shape, DType(types.out)
    channels = (shape[-1],)
    bias = te.placeholder(channels, types.acc, name="bias")
    scale = te.placeholder(channels, FLOAT32, name="scale")
    low, high = (const(float(end), FLOAT32) for end in (out.min_value, out.max_value))

    def added(*i: Var) -> Expr:
        return total[i] + bias[i[-1]]

    stage = te.compute(shape, added, name="bias_add")
    if relu:
        positive, zero = stage, const(0, types.acc)
        stage = te.compute(shape, lambda *i: max_(positive[i], zero), name="relu")

    def scaled(*i: Var) -> Expr:
        value = call("nearbyint", cast(FLOAT32, stage[i]) * scale[i[-1]])
        value = value + const(float(y_zero), FLOAT32)
        return cast(types.out, max_(min_(value, high), low))

    return [bias, scale, te.compute(shape, scaled, name="requantised")]


def dense_requantised_reference(
    inputs: Sequence[Array], M: int, N: int, K: int, y_zero: int, relu: int
) -> list[Array]:
    """NumPy reference of `dense_requantised`, equal bit by bit."""
    A, W, bias, scale = inputs
    return [_reference(A @ W.T + bias, scale, y_zero, relu)]


def conv2d_nhwc_requantised_reference(
    inputs: Sequence[Array], x_zero: int, y_zero: int, relu: int, **sizes: int
) -> list[Array]:
    """NumPy reference of `conv2d_nhwc_requantised`, equal bit by bit."""
    X, K, bias, scale = inputs
    border = (sizes["padding"],) * 2
    padded = np.pad(X, [(0, 0), border, border, (0, 0)], constant_values=x_zero)
    (Y,) = conv2d_nhwc_reference([padded, K], **{**sizes, "padding": 0})
    return [_reference(Y + bias, scale, y_zero, relu)]


def _reference(total: Array, scale: Array, y_zero: int, relu: int) -> Array:
    """The output, computed in float32 with each step rounded as in a kernel.

    It is clipped to the range of int32, which `Types.rounded` then narrows.
    """
    total = total.astype(np.int32)
    if relu:
        total = np.maximum(total, 0)
    value = np.rint(total.astype(np.float32) * scale.astype(np.float32)) + np.float32(y_zero)
    return np.clip(value, -(2.0**31), 2.0**31 - 128).astype(np.int64)


def draw(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Choose bias and scales so that outputs use the range of their type, and some exceed it."""
    X, W, bias, scale = inputs
    terms = W.size // bias.size
    ends = [np.iinfo(array.dtype) for array in (X, W)]
    means = [(end.min + end.max) / 2 for end in ends]
    spread = math.sqrt(terms) * math.prod(math.hypot(mean, 74) for mean in means)
    centre = -terms * math.prod(means)
    return [
        X,
        W,
        np.asarray(centre + spread * rng.standard_normal(bias.shape), bias.dtype),
        np.asarray(rng.uniform(30, 90, scale.shape) / spread, scale.dtype),
    ]
