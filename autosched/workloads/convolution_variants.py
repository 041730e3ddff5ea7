"""Convolution variants: transposed, capsule, and with bias, batch normalisation and relu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.op import all_, const, eq, if_then_else, max_
from autosched.workloads.padding import pad, pad_array, windows
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, layout_free, output_size


def check_transpose(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> str | None:
    """Say what is wrong with the padding; None if nothing.

    It may remove at most the border of the window, and must leave a part of the image.
    """
    if padding > K - 1:
        return f"argument padding={padding} must be at most K - 1 = {K - 1}"
    for name, size in (("H", H), ("W", W)):
        whole = (size - 1) * stride + K
        if whole <= 2 * padding:
            return (
                f"argument padding={padding} leaves nothing of the {whole} elements that "
                f"{name}={size} spreads out to"
            )
    return None


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int, types: Types
) -> list[Tensor]:
    """Transposed 2-D convolution: X dilated by `stride`, then convolved with K flipped."""
    X = te.placeholder((N, H, W, CI), types.inputs, name="X")
    weight = te.placeholder((K, K, CI, CO), types.weights, name="K")
    b = K - 1 - padding
    height, width = (H - 1) * stride + 1, (W - 1) * stride + 1
    zero = const(0, types.inputs)
    dilate_pad = te.compute(
        (N, height + 2 * b, width + 2 * b, CI),
        lambda n, h, w, c: if_then_else(
            all_(
                h - b >= 0,
                h - b < height,
                w - b >= 0,
                w - b < width,
                eq((h - b) % stride, 0),
                eq((w - b) % stride, 0),
            ),
            X[n, (h - b) // stride, (w - b) // stride, c],
            zero,
        ),
        name="dilate_pad",
    )
    rh = te.reduce_axis((0, K), name="rh")
    rw = te.reduce_axis((0, K), name="rw")
    rc = te.reduce_axis((0, CI), name="rc")
    Y = te.compute(
        (N, height + 2 * b - K + 1, width + 2 * b - K + 1, CO),
        lambda n, h, w, co: te.sum(
            types.wide(dilate_pad[n, h + rh, w + rw, rc])
            * types.wide(weight[K - 1 - rh, K - 1 - rw, rc, co]),
            axis=[rh, rw, rc],
        ),
        name=types.before("Y"),
    )
    return [X, weight, types.output(Y, "Y")]


def conv2d_transpose_nhwc_reference(
    inputs: Sequence[Array],
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
) -> list[Array]:
    """NumPy reference: every input element adds its window to the output; the border is cut off."""
    X, weight = inputs
    height, width = (H - 1) * stride + K, (W - 1) * stride + K
    full = np.zeros((N, height, width, CO), X.dtype)
    for rh in range(K):
        for rw in range(K):
            rows = slice(rh, rh + (H - 1) * stride + 1, stride)
            columns = slice(rw, rw + (W - 1) * stride + 1, stride)
            full[:, rows, columns] += X @ weight[rh, rw]
    return [full[:, padding : height - padding, padding : width - padding]]


def conv2d_capsule_nhwijc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
    CAP: int,
    types: Types,
) -> list[Tensor]:
    """2-D convolution of CAP x CAP matrices."""
    X = te.placeholder((N, H, W, CAP, CAP, CI), types.inputs, name="X")
    weight = te.placeholder((K, K, CAP, CAP, CI, CO), types.weights, name="K")
    P = pad(X, {1: padding, 2: padding})
    rh = te.reduce_axis((0, K), name="rh")
    rw = te.reduce_axis((0, K), name="rw")
    ck = te.reduce_axis((0, CAP), name="ck")
    rc = te.reduce_axis((0, CI), name="rc")
    sizes = [output_size(size, K, stride, padding) for size in (H, W)]
    Y = te.compute(
        (N, *sizes, CAP, CAP, CO),
        lambda n, h, w, i, j, co: te.sum(
            types.wide(P[n, h * stride + rh, w * stride + rw, i, ck, rc])
            * types.wide(weight[rh, rw, ck, j, rc, co]),
            axis=[rh, rw, ck, rc],
        ),
        name=types.before("Y"),
        attrs=layout_free(weight),
    )
    return [X, weight, types.output(Y, "Y")]


def conv2d_capsule_nhwijc_reference(
    inputs: Sequence[Array],
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
    CAP: int,
) -> list[Array]:
    """NumPy reference of `conv2d_capsule_nhwijc`."""
    X, weight = inputs
    view = windows(pad_array(X, {1: padding, 2: padding}), (1, 2), (K, K), stride)
    return [np.einsum("nhwikcrs,rskjco->nhwijo", view, weight, optimize=True)]


def conv2d_nchw_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int, types: Types
) -> list[Tensor]:
    """2-D convolution, channels first, then bias, batch normalisation and relu."""
    X = te.placeholder((N, CI, H, W), types.inputs, name="X")
    weight = te.placeholder((CO, CI, K, K), types.weights, name="K")
    bias = te.placeholder((CO,), types.acc, name="bias")
    scale = te.placeholder((CO,), types.acc, name="scale")
    offset = te.placeholder((CO,), types.acc, name="offset")
    P = pad(X, {2: padding, 3: padding})
    rc = te.reduce_axis((0, CI), name="rc")
    rh = te.reduce_axis((0, K), name="rh")
    rw = te.reduce_axis((0, K), name="rw")
    shape = (N, CO, output_size(H, K, stride, padding), output_size(W, K, stride, padding))
    Y = te.compute(
        shape,
        lambda n, co, h, w: te.sum(
            types.wide(P[n, rc, h * stride + rh, w * stride + rw])
            * types.wide(weight[co, rc, rh, rw]),
            axis=[rc, rh, rw],
        ),
        name="Y",
        attrs=layout_free(weight),
    )
    bias_add = te.compute(shape, lambda n, co, h, w: Y[n, co, h, w] + bias[co], name="bias_add")
    bn_mul = te.compute(shape, lambda n, co, h, w: bias_add[n, co, h, w] * scale[co], name="bn_mul")
    bn_add = te.compute(shape, lambda n, co, h, w: bn_mul[n, co, h, w] + offset[co], name="bn_add")
    zero = const(0, types.acc)
    relu = te.compute(
        shape, lambda n, co, h, w: types.narrow(max_(bn_add[n, co, h, w], zero)), name="relu"
    )
    return [X, weight, bias, scale, offset, relu]


def conv2d_nchw_bn_relu_reference(
    inputs: Sequence[Array],
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
) -> list[Array]:
    """NumPy reference of `conv2d_nchw_bn_relu`."""
    X, weight, bias, scale, offset = inputs
    view = windows(pad_array(X, {2: padding, 3: padding}), (2, 3), (K, K), stride)
    Y = np.einsum("nchwrs,ocrs->nohw", view, weight, optimize=True)
    columns = (slice(None), None, None)
    return [np.maximum((Y + bias[columns]) * scale[columns] + offset[columns], 0)]
