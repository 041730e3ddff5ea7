"""Matrix products: matmul, batch_matmul, dense_bias_relu, transpose_batch_matmul_softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.op import call, const, max_
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, layout_free


def matmul(M: int, N: int, K: int, types: Types) -> list[Tensor]:
    """C[i,j] = sum_k A[i,k]*B[k,j]."""
    A = te.placeholder((M, K), types.inputs, name="A")
    B = te.placeholder((K, N), types.weights, name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute(
        (M, N),
        lambda i, j: te.sum(types.wide(A[i, k]) * types.wide(B[k, j]), axis=k),
        name=types.before("C"),
        attrs=layout_free(B),
    )
    return [A, B, types.output(C, "C")]


def matmul_reference(inputs: Sequence[Array], M: int, N: int, K: int) -> list[Array]:
    """NumPy reference of `matmul`."""
    return [inputs[0] @ inputs[1]]


def batch_matmul(B: int, M: int, N: int, K: int, types: Types) -> list[Tensor]:
    """Z[b,i,j] = sum_k X[b,i,k]*Y[b,k,j]."""
    X = te.placeholder((B, M, K), types.inputs, name="X")
    Y = te.placeholder((B, K, N), types.weights, name="Y")
    k = te.reduce_axis((0, K), name="k")
    Z = te.compute(
        (B, M, N),
        lambda b, i, j: te.sum(types.wide(X[b, i, k]) * types.wide(Y[b, k, j]), axis=k),
        name=types.before("Z"),
        attrs=layout_free(Y),
    )
    return [X, Y, types.output(Z, "Z")]


def batch_matmul_reference(inputs: Sequence[Array], B: int, M: int, N: int, K: int) -> list[Array]:
    """NumPy reference of `batch_matmul`."""
    return [inputs[0] @ inputs[1]]


def dense_bias_relu(M: int, N: int, K: int, types: Types) -> list[Tensor]:
    """relu(A @ W^T + bias)."""
    A = te.placeholder((M, K), types.inputs, name="A")
    W = te.placeholder((N, K), types.weights, name="W")
    bias = te.placeholder((N,), types.acc, name="bias")
    k = te.reduce_axis((0, K), name="k")
    T = te.compute(
        (M, N),
        lambda i, j: te.sum(types.wide(A[i, k]) * types.wide(W[j, k]), axis=k),
        name="T",
        attrs=layout_free(W),
    )
    U = te.compute((M, N), lambda i, j: T[i, j] + bias[j], name="U")
    zero = const(0, types.acc)
    relu = te.compute((M, N), lambda i, j: types.narrow(max_(U[i, j], zero)), name="relu")
    return [A, W, bias, relu]


def dense_bias_relu_reference(inputs: Sequence[Array], M: int, N: int, K: int) -> list[Array]:
    """NumPy reference of `dense_bias_relu`."""
    A, W, bias = inputs
    return [np.maximum(A @ W.T + bias, 0)]


def transpose_batch_matmul_softmax(B: int, S: int, H: int, D: int, types: Types) -> list[Tensor]:
    """Attention weights: softmax(Q K^T) per head; Q and K have the layout (B, S, H, D)."""
    Q = te.placeholder((B, S, H, D), types.inputs, name="Q")
    K = te.placeholder((B, S, H, D), types.weights, name="K")
    QT = te.compute((B * H, S, D), lambda b, i, d: Q[b // H, i, b % H, d], name="QT")
    KT = te.compute((B * H, D, S), lambda b, d, i: K[b // H, i, b % H, d], name="KT")
    k = te.reduce_axis((0, D), name="k")
    C = te.compute(
        (B * H, S, S),
        lambda b, i, j: te.sum(types.wide(QT[b, i, k]) * types.wide(KT[b, k, j]), axis=k),
        name="C",
    )
    r = te.reduce_axis((0, S), name="r")
    maxelem = te.compute((B * H, S), lambda b, i: te.max(C[b, i, r], axis=r), name="maxelem")
    exp = te.compute(
        (B * H, S, S), lambda b, i, j: call("exp", C[b, i, j] - maxelem[b, i]), name="exp"
    )
    r2 = te.reduce_axis((0, S), name="r")
    expsum = te.compute((B * H, S), lambda b, i: te.sum(exp[b, i, r2], axis=r2), name="expsum")
    norm = te.compute(
        (B * H, S, S), lambda b, i, j: types.narrow(exp[b, i, j] / expsum[b, i]), name="norm"
    )
    return [Q, K, norm]


def transpose_batch_matmul_softmax_reference(
    inputs: Sequence[Array], B: int, S: int, H: int, D: int
) -> list[Array]:
    """NumPy reference of `transpose_batch_matmul_softmax`."""
    QT = inputs[0].transpose(0, 2, 1, 3).reshape(B * H, S, D)
    KT = inputs[1].transpose(0, 2, 3, 1).reshape(B * H, D, S)
    C = QT @ KT
    exp = np.exp(C - C.max(axis=-1, keepdims=True))
    return [exp / exp.sum(axis=-1, keepdims=True)]


_FAR = {"float16": 20, "float32": 120, "float64": 800}
"""Distances at which exponentials overflow, or are zero, in the types that hold such scores."""


def attention_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Shift rows of Q K^T so far that exponentials overflow, or are zero, without the maximum.

    The result does not depend on the shift. For every fourth query one key alone is so far above
    the others, so that the maximum of a part of the row will not do. Other scores are of size 1:
    the larger they are, the less exact are their exponentials in 16 bits. In bfloat16 no score that
    is far from zero is exact enough, and those of bytes are as far apart as they are.
    """
    queries, heads, size = inputs[0].shape[1:]
    h, keys = np.arange(heads), rng.integers(0, queries, (heads,))
    keys[0] = queries - 1  # of all parts of a row its end is left out most easily
    if all(array.dtype.kind in "iu" for array in inputs):
        Q, K = inputs[0], inputs[1].copy()
        ends = np.iinfo(K.dtype)
        K[:, keys, h] = np.where(Q[:, min(1, queries - 1)] > 0, ends.max, ends.min)
        return [Q, K]
    if any(array.dtype.kind in "iu" for array in inputs):
        return inputs
    far, signs = _FAR.get(types.acc, 0), rng.choice((-1, 1), inputs[0].shape[:3])
    Q, K = (array.astype(np.float64) for array in inputs)
    Q /= 2.0 ** round(math.log2(size) / 2)
    if far and size == 1:
        Q[..., 0], K[..., 0] = 8 * signs, K[..., 0] / 8 + far / 8
        Q[:, 1::4, :, 0], K[:, keys, h, 0] = far / 4, far / 8 + 8
    elif far:  # in the last elements: the other terms are added up before, and more exactly
        Q[..., -1], K[..., -1] = signs * far / 8, 8
        Q[..., -2] /= 8
        Q[:, 1::4, :, -2], K[:, keys, h, -2] = far / 4, 8
    return [Q.astype(inputs[0].dtype), K.astype(inputs[1].dtype)]
