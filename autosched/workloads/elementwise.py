"""Element-wise operators, norms and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, Var
from autosched.tir.op import call, cast, const, max_
from autosched.workloads.types import Types
from autosched.workloads.workload import Array

EPSILON = 1e-5


def norm_bmn(B: int, M: int, N: int, types: Types) -> list[Tensor]:
    """D[b] = sqrt(sum_ij A[b,i,j]^2)."""
    A = te.placeholder((B, M, N), types.inputs, name="A")
    i = te.reduce_axis((0, M), name="i")
    j = te.reduce_axis((0, N), name="j")
    C = te.compute(
        (B,),
        lambda b: te.sum(types.wide(A[b, i, j]) * types.wide(A[b, i, j]), axis=[i, j]),
        name="C",
    )
    D = te.compute((B,), lambda b: types.narrow(call("sqrt", C[b])), name="D")
    return [A, D]


def norm_bmn_reference(inputs: Sequence[Array], B: int, M: int, N: int) -> list[Array]:
    """NumPy reference of `norm_bmn`."""
    return [np.sqrt((inputs[0] ** 2).sum(axis=(1, 2)))]


def norm_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Make four elements three quarters of each sum; its other terms are too many to be seen alone.

    They are the last element, the first, one of the last row and one of the last column. One of
    them, in turn, is half of the sum, so that it shows in 16 bits. Integers do not hold them.
    """
    (A,) = inputs
    if A.dtype.kind in "iu":
        return inputs
    batch, M, N = A.shape
    found = A.astype(np.float64) / 2
    rows, columns = rng.integers(0, M, batch), rng.integers(0, N, batch)
    b, most = np.arange(batch), float(ml_dtypes.finfo(A.dtype).max) / 4  # type: ignore[no-untyped-call]  # ml_dtypes is untyped
    for turn in (3, 2, 1, 0):
        which = (b + turn) % 4  # the last element first, which is left out most easily
        last = which != 1
        i = np.where(which == 3, rows, last * (M - 1))
        j = np.where(which == 2, columns, last * (N - 1))
        size = math.sqrt(M * N / (12 if turn else 2))
        found[b, i, j] = np.copysign(min(size, most), found[b, i, j])
    return [found.astype(A.dtype)]


def softmax(M: int, N: int, types: Types) -> list[Tensor]:
    """Softmax over the rows of A."""
    A = te.placeholder((M, N), types.inputs, name="A")
    k = te.reduce_axis((0, N), name="k")
    maxelem = te.compute((M,), lambda i: te.max(types.wide(A[i, k]), axis=k), name="maxelem")
    exp = te.compute((M, N), lambda i, j: call("exp", types.wide(A[i, j]) - maxelem[i]), name="exp")
    k2 = te.reduce_axis((0, N), name="k")
    expsum = te.compute((M,), lambda i: te.sum(exp[i, k2], axis=k2), name="expsum")
    norm = te.compute((M, N), lambda i, j: types.narrow(exp[i, j] / expsum[i]), name="norm")
    return [A, norm]


def softmax_reference(inputs: Sequence[Array], M: int, N: int) -> list[Array]:
    """NumPy reference of `softmax`."""
    A = inputs[0]
    exp = np.exp(A - A.max(axis=1, keepdims=True))
    return [exp / exp.sum(axis=1, keepdims=True)]


def softmax_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Shift each row so far that exponentials overflow, or are all zero, without its maximum.

    The result does not depend on the shift. In every fourth row one element alone is so far above
    the others, so that the maximum of a part of the row will not do. Types of 8 bits do not hold
    it.
    """
    (A,) = inputs
    if A.dtype.itemsize == 1:
        return inputs
    far = 800 if A.dtype.itemsize == 8 else 120
    found = A.astype(np.float64) + far * rng.choice((-1, 1), (len(A), 1))
    peaks = np.arange(1, len(A), 4)
    columns = rng.integers(0, A.shape[1], len(peaks))
    columns[:1] = A.shape[1] - 1  # of all parts of a row its end is left out most easily
    found[peaks, columns] += far
    return [found.astype(A.dtype)]


def layer_norm(M: int, N: int, types: Types) -> list[Tensor]:
    """(A - mean) * rstd * gamma + beta over the rows of A.

    16-bit floats are computed as float32; otherwise the variance, a difference, could be negative.
    """
    A = te.placeholder((M, N), types.inputs, name="A")
    gamma = te.placeholder((N,), types.acc, name="gamma")
    beta = te.placeholder((N,), types.acc, name="beta")
    k = te.reduce_axis((0, N), name="k")
    k2 = te.reduce_axis((0, N), name="k")
    inner = "float32" if types.acc in ("float16", "bfloat16") else types.acc

    def wide(value: Expr) -> Expr:
        return cast(inner, value)

    share = const(1 / N, inner)
    total = te.compute((M,), lambda i: te.sum(wide(A[i, k]), axis=k), name="sum")
    sqsum = te.compute(
        (M,), lambda i: te.sum(wide(A[i, k2]) * wide(A[i, k2]), axis=k2), name="sqsum"
    )
    mean = te.compute((M,), lambda i: total[i] * share, name="mean")
    rstd = te.compute(
        (M,),
        lambda i: call("rsqrt", sqsum[i] * share - mean[i] * mean[i] + const(EPSILON, inner)),
        name="rstd",
    )

    def normed(i: Var, j: Var) -> Expr:
        value = (wide(A[i, j]) - mean[i]) * rstd[i] * wide(gamma[j]) + wide(beta[j])
        return types.narrow(value)

    Y = te.compute((M, N), normed, name="Y")
    return [A, gamma, beta, Y]


def layer_norm_reference(inputs: Sequence[Array], M: int, N: int) -> list[Array]:
    """NumPy reference of `layer_norm`."""
    A, gamma, beta = inputs
    mean = A.mean(axis=1, keepdims=True)
    variance = (A**2).mean(axis=1, keepdims=True) - mean**2
    return [(A - mean) / np.sqrt(variance + EPSILON) * gamma + beta]


def layer_norm_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Make rows with a mean as large as their deviation, and variances near `EPSILON`.

    Integers and types of 8 bits do not hold them.
    """
    A, gamma, beta = inputs
    if A.dtype.kind in "iu" or A.dtype.itemsize == 1:
        return inputs
    mean = rng.choice((-1.0, 1.0), (len(A), 1))
    scale = rng.choice((0.5, 1.0), (len(A), 1)) / 256
    return [((A.astype(np.float64) + mean) * scale).astype(A.dtype), gamma, beta]


def add_relu(M: int, N: int, types: Types) -> list[Tensor]:
    """max(A + B, 0)."""
    A = te.placeholder((M, N), types.inputs, name="A")
    B = te.placeholder((M, N), types.weights, name="B")
    C = te.compute((M, N), lambda i, j: types.wide(A[i, j]) + types.wide(B[i, j]), name="C")
    zero = const(0, types.acc)
    relu = te.compute((M, N), lambda i, j: types.narrow(max_(C[i, j], zero)), name="relu")
    return [A, B, relu]


def add_relu_reference(inputs: Sequence[Array], M: int, N: int) -> list[Array]:
    """NumPy reference of `add_relu`."""
    return [np.maximum(inputs[0] + inputs[1], 0)]
