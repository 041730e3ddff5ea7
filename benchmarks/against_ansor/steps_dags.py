"""Small computations of all shapes, written once for both sides of steps.py: `te` is either one's.

Sizes are drawn by the caller. TVM's te and autosched's have the same names for all that is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Te = Any
Tensors = list[Any]


def matmul(te: Te, m: int, n: int, l: int) -> Tensors:
    A, B = te.placeholder((m, l), name="A"), te.placeholder((l, n), name="B")
    k = te.reduce_axis((0, l), name="k")
    return [A, B, te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=[k]), name="C")]


def matmul_relu(te: Te, m: int, n: int, l: int) -> Tensors:
    A, B, C = matmul(te, m, n, l)
    bias = te.placeholder((n,), name="bias")
    D = te.compute((m, n), lambda i, j: C[i, j] + bias[j], name="D")
    E = te.compute((m, n), lambda i, j: te.max(D[i, j], 0.0), name="E")
    return [A, B, bias, E]


def two_products(te: Te, m: int, n: int, l: int) -> Tensors:
    A, B, C = matmul(te, m, n, l)
    W = te.placeholder((n, m), name="W")
    r = te.reduce_axis((0, n), name="r")
    return [
        A,
        B,
        W,
        te.compute((m, m), lambda i, j: te.sum(C[i, r] * W[r, j], axis=[r]), name="D"),
    ]


def conv1d(te: Te, m: int, n: int, l: int) -> Tensors:
    X, K = te.placeholder((m, n), name="X"), te.placeholder((3, n, l), name="K")
    P = te.compute(
        (m + 2, n),
        lambda i, c: te.if_then_else(te.all(i >= 1, i < m + 1), X[i - 1, c], 0.0),
        name="pad",
    )
    r, c = te.reduce_axis((0, 3), name="rx"), te.reduce_axis((0, n), name="rc")
    Y = te.compute((m, l), lambda i, o: te.sum(P[i + r, c] * K[r, c, o], axis=[r, c]), name="Y")
    return [X, K, Y]


def chain(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n, l), name="A")
    shape = (m, n, l)
    B = te.compute(shape, lambda i, j, k: A[i, j, k] + 1.0, name="B")
    C = te.compute(shape, lambda i, j, k: B[i, j, k] * 2.0, name="C")
    D = te.compute(shape, lambda i, j, k: te.exp(C[i, j, k]), name="D")
    return [A, D]


def softmax(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n), name="A")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    M = te.compute((m,), lambda i: te.max(A[i, k], axis=[k]), name="M")
    E = te.compute((m, n), lambda i, j: te.exp(A[i, j] - M[i]), name="E")
    S = te.compute((m,), lambda i: te.sum(E[i, r], axis=[r]), name="S")
    return [A, te.compute((m, n), lambda i, j: E[i, j] / S[i], name="N")]


def two_outputs(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] * A[i, j], name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] + 1.0, name="C")
    k = te.reduce_axis((0, n), name="k")
    D = te.compute((m,), lambda i: te.sum(B[i, k], axis=[k]), name="D")
    return [A, C, D]


def broadcast(te: Te, m: int, n: int, l: int) -> Tensors:
    A, b = te.placeholder((m, n), name="A"), te.placeholder((n,), name="b")
    B = te.compute((n,), lambda j: b[j] * 3.0, name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] + B[j], name="C")
    return [A, b, C]


def norm(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((l, m, n), name="A")
    i, j = te.reduce_axis((0, m), name="i"), te.reduce_axis((0, n), name="j")
    C = te.compute((l,), lambda b: te.sum(A[b, i, j] * A[b, i, j], axis=[i, j]), name="C")
    return [A, te.compute((l,), lambda b: te.sqrt(C[b]), name="D")]


def argmax(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n), name="A")
    at = te.placeholder((m, n), name="at", dtype="int32")

    def combine(x: Any, y: Any) -> tuple[Any, Any]:
        return (
            te.if_then_else(x[1] >= y[1], x[0], y[0]),
            te.if_then_else(x[1] >= y[1], x[1], y[1]),
        )

    def identity(t0: str, t1: str) -> tuple[Any, Any]:
        return te.min_value(t0), te.min_value(t1)

    largest = te.comm_reducer(combine, identity, name="argmax")
    k = te.reduce_axis((0, n), name="k")
    both = te.compute((m,), lambda i: largest((at[i, k], A[i, k]), axis=k), name="T")
    return [A, at, *both]


def transpose(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n), name="A")
    B = te.compute((n, m), lambda i, j: A[j, i], name="B")
    return [A, te.compute((n, m), lambda i, j: B[i, j] + A[j, i], name="C")]


def pair(te: Te, m: int, n: int, l: int) -> Tensors:
    A = te.placeholder((m, n), name="A")
    B, C = te.compute((m, n), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="P")
    return [A, te.compute((m, n), lambda i, j: B[i, j] + C[i, j], name="D")]


DAGS: dict[str, Callable[[Te, int, int, int], Tensors]] = {
    function.__name__: function
    for function in (
        matmul,
        matmul_relu,
        two_products,
        conv1d,
        chain,
        softmax,
        two_outputs,
        broadcast,
        norm,
        argmax,
        transpose,
        pair,
    )
}
