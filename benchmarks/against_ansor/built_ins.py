"""The built-in operators of floats in TVM's te; runs in the peer's interpreter alone.

Arguments, stages and names are those of Ansor's workload keys (docs/semantics/records.md), in their
order, so that a line of one side is a line of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import auto_scheduler, te, tir

Tensor = Any
Tensors = list[Any]


def _inputs(**shapes: Sequence[int]) -> Tensors:
    return [te.placeholder(shape, name=name) for name, shape in shapes.items()]


def _axis(length: int, name: str) -> Any:
    return te.reduce_axis((0, length), name=name)


def _pad(data: Tensor, padding: int, first: int, count: int, value: float = 0.0) -> Tensor:
    """`data` with a border on `count` axes from `first` on."""
    if padding == 0:
        return data
    padded = range(first, first + count)
    sizes = [int(size) for size in data.shape]

    def element(*at: Any) -> Any:
        inside = [c for a in padded for c in (at[a] >= padding, at[a] < sizes[a] + padding)]
        source = [i - padding if a in padded else i for a, i in enumerate(at)]
        return tir.if_then_else(tir.all(*inside), data(*source), tir.const(value, data.dtype))

    shape = [size + 2 * padding if a in padded else size for a, size in enumerate(sizes)]
    return te.compute(shape, element, name="pad")


def _out(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def matmul(M: int, N: int, K: int) -> Tensors:
    A, B = _inputs(A=(M, K), B=(K, N))
    k = _axis(K, "k")
    return [A, B, te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], [k]), name="C")]


def batch_matmul(B: int, M: int, N: int, K: int) -> Tensors:
    X, Y = _inputs(X=(B, M, K), Y=(B, K, N))
    k = _axis(K, "k")
    shape = (B, M, N)
    Z = te.compute(shape, lambda b, i, j: te.sum(X[b, i, k] * Y[b, k, j], [k]), name="Z")
    return [X, Y, Z]


def dense_bias_relu(M: int, N: int, K: int) -> Tensors:
    A, W, bias = _inputs(A=(M, K), W=(N, K), bias=(N,))
    k = _axis(K, "k")
    T = te.compute((M, N), lambda i, j: te.sum(A[i, k] * W[j, k], [k]), name="T")
    U = te.compute((M, N), lambda i, j: T[i, j] + bias[j], name="U")
    zero = tir.const(0.0, "float32")
    return [A, W, bias, te.compute((M, N), lambda i, j: te.max(U[i, j], zero), name="relu")]


def conv1d_nlc(N: int, L: int, CI: int, CO: int, K: int, stride: int, padding: int) -> Tensors:
    X, W = _inputs(X=(N, L, CI), W=(K, CI, CO))
    P = _pad(X, padding, 1, 1)
    rl, rc = _axis(K, "rl"), _axis(CI, "rc")
    Y = te.compute(
        (N, _out(L, K, stride, padding), CO),
        lambda n, l, co: te.sum(P[n, l * stride + rl, rc] * W[rl, rc, co], [rl, rc]),
        name="Y",
    )
    return [X, W, Y]


def conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    KH: int,
    KW: int,
    stride: int,
    padding: int,
    dilation: int = 1,
    groups: int = 1,
) -> Tensors:
    X, K = _inputs(X=(N, H, W, CI), K=(KH, KW, CI // groups, CO))
    P = _pad(X, padding, 1, 2)
    rh, rw, rc = _axis(KH, "rh"), _axis(KW, "rw"), _axis(CI // groups, "rc")

    def element(n: Any, h: Any, w: Any, co: Any) -> Any:
        channel = rc if groups == 1 else co // (CO // groups) * (CI // groups) + rc
        at = P[n, h * stride + rh * dilation, w * stride + rw * dilation, channel]
        return te.sum(at * K[rh, rw, rc, co], [rh, rw, rc])

    height = _out(H, KH, stride, padding, dilation)
    width = _out(W, KW, stride, padding, dilation)
    return [X, K, te.compute((N, height, width, CO), element, name="Y")]


def conv3d_ndhwc(
    N: int, D: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> Tensors:
    X, kernel = _inputs(X=(N, D, H, W, CI), K=(K, K, K, CI, CO))
    P = _pad(X, padding, 1, 3)
    rd, rh, rw, rc = (_axis(K, "rd"), _axis(K, "rh"), _axis(K, "rw"), _axis(CI, "rc"))

    def element(n: Any, d: Any, h: Any, w: Any, co: Any) -> Any:
        at = P[n, d * stride + rd, h * stride + rh, w * stride + rw, rc]
        return te.sum(at * kernel[rd, rh, rw, rc, co], [rd, rh, rw, rc])

    sizes = [_out(size, K, stride, padding) for size in (D, H, W)]
    return [X, kernel, te.compute((N, *sizes, CO), element, name="Y")]


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, K: int, stride: int, padding: int
) -> Tensors:
    X, kernel = _inputs(X=(N, H, W, C), K=(K, K, C))
    P = _pad(X, padding, 1, 2)
    rh, rw = _axis(K, "rh"), _axis(K, "rw")
    Y = te.compute(
        (N, _out(H, K, stride, padding), _out(W, K, stride, padding), C),
        lambda n, h, w, c: te.sum(
            P[n, h * stride + rh, w * stride + rw, c] * kernel[rh, rw, c], [rh, rw]
        ),
        name="Y",
    )
    return [X, kernel, Y]


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> Tensors:
    X, kernel = _inputs(X=(N, H, W, CI), K=(K, K, CI, CO))
    b = K - 1 - padding
    height, width = (H - 1) * stride + 1, (W - 1) * stride + 1

    def dilated(n: Any, h: Any, w: Any, c: Any) -> Any:
        inside = tir.all(
            h - b >= 0,
            h - b < height,
            w - b >= 0,
            w - b < width,
            tir.indexmod(h - b, stride).equal(0),
            tir.indexmod(w - b, stride).equal(0),
        )
        at = X[n, tir.indexdiv(h - b, stride), tir.indexdiv(w - b, stride), c]
        return tir.if_then_else(inside, at, tir.const(0.0, "float32"))

    P = te.compute((N, height + 2 * b, width + 2 * b, CI), dilated, name="dilate_pad")
    rh, rw, rc = _axis(K, "rh"), _axis(K, "rw"), _axis(CI, "rc")
    Y = te.compute(
        (N, height + 2 * b - K + 1, width + 2 * b - K + 1, CO),
        lambda n, h, w, co: te.sum(
            P[n, h + rh, w + rw, rc] * kernel[K - 1 - rh, K - 1 - rw, rc, co], [rh, rw, rc]
        ),
        name="Y",
    )
    return [X, kernel, Y]


def conv2d_capsule_nhwijc(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int, CAP: int = 4
) -> Tensors:
    X, kernel = _inputs(X=(N, H, W, CAP, CAP, CI), K=(K, K, CAP, CAP, CI, CO))
    P = _pad(X, padding, 1, 2)
    rh, rw, ck, rc = _axis(K, "rh"), _axis(K, "rw"), _axis(CAP, "ck"), _axis(CI, "rc")

    def element(n: Any, h: Any, w: Any, i: Any, j: Any, co: Any) -> Any:
        at = P[n, h * stride + rh, w * stride + rw, i, ck, rc]
        return te.sum(at * kernel[rh, rw, ck, j, rc, co], [rh, rw, ck, rc])

    height, width = _out(H, K, stride, padding), _out(W, K, stride, padding)
    return [X, kernel, te.compute((N, height, width, CAP, CAP, CO), element, name="Y")]


def norm_bmn(B: int, M: int, N: int) -> Tensors:
    (A,) = _inputs(A=(B, M, N))
    i, j = _axis(M, "i"), _axis(N, "j")
    C = te.compute((B,), lambda b: te.sum(A[b, i, j] * A[b, i, j], [i, j]), name="C")
    return [A, te.compute((B,), lambda b: te.sqrt(C[b]), name="D")]


def conv2d_nchw_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> Tensors:
    X, kernel, bias, scale, offset = _inputs(
        X=(N, CI, H, W), K=(CO, CI, K, K), bias=(CO,), scale=(CO,), offset=(CO,)
    )
    P = _pad(X, padding, 2, 2)
    rc, rh, rw = _axis(CI, "rc"), _axis(K, "rh"), _axis(K, "rw")
    shape = (N, CO, _out(H, K, stride, padding), _out(W, K, stride, padding))
    Y = te.compute(
        shape,
        lambda n, co, h, w: te.sum(
            P[n, rc, h * stride + rh, w * stride + rw] * kernel[co, rc, rh, rw], [rc, rh, rw]
        ),
        name="Y",
    )
    U = te.compute(shape, lambda n, co, h, w: Y[n, co, h, w] + bias[co], name="bias_add")
    V = te.compute(shape, lambda n, co, h, w: U[n, co, h, w] * scale[co], name="bn_mul")
    Z = te.compute(shape, lambda n, co, h, w: V[n, co, h, w] + offset[co], name="bn_add")
    zero = tir.const(0.0, "float32")
    R = te.compute(shape, lambda n, co, h, w: te.max(Z[n, co, h, w], zero), name="relu")
    return [X, kernel, bias, scale, offset, R]


def softmax(M: int, N: int) -> Tensors:
    (A,) = _inputs(A=(M, N))
    k, r = _axis(N, "k"), _axis(N, "k")
    largest = te.compute((M,), lambda i: te.max(A[i, k], [k]), name="maxelem")
    exp = te.compute((M, N), lambda i, j: te.exp(A[i, j] - largest[i]), name="exp")
    total = te.compute((M,), lambda i: te.sum(exp[i, r], [r]), name="expsum")
    return [A, te.compute((M, N), lambda i, j: exp[i, j] / total[i], name="norm")]


def transpose_batch_matmul_softmax(B: int, S: int, H: int, D: int) -> Tensors:
    Q, K = _inputs(Q=(B, S, H, D), K=(B, S, H, D))

    def split(b: Any) -> Any:
        return tir.indexdiv(b, H), tir.indexmod(b, H)

    QT = te.compute((B * H, S, D), lambda b, i, d: Q[split(b)[0], i, split(b)[1], d], name="QT")
    KT = te.compute((B * H, D, S), lambda b, d, i: K[split(b)[0], i, split(b)[1], d], name="KT")
    k, r, t = _axis(D, "k"), _axis(S, "r"), _axis(S, "r")
    shape = (B * H, S, S)
    C = te.compute(shape, lambda b, i, j: te.sum(QT[b, i, k] * KT[b, k, j], [k]), name="C")
    largest = te.compute((B * H, S), lambda b, i: te.max(C[b, i, r], [r]), name="maxelem")
    exp = te.compute(shape, lambda b, i, j: te.exp(C[b, i, j] - largest[b, i]), name="exp")
    total = te.compute((B * H, S), lambda b, i: te.sum(exp[b, i, t], [t]), name="expsum")
    norm = te.compute(shape, lambda b, i, j: exp[b, i, j] / total[b, i], name="norm")
    return [Q, K, norm]


def max_pool2d_nchw(N: int, C: int, H: int, W: int, K: int, stride: int, padding: int) -> Tensors:
    (X,) = _inputs(X=(N, C, H, W))
    P = X
    if padding:
        smallest = te.min_value("float32")
        P = te.compute(
            (N, C, H + 2 * padding, W + 2 * padding),
            lambda n, c, h, w: tir.if_then_else(
                tir.all(h >= padding, h < H + padding, w >= padding, w < W + padding),
                X[n, c, h - padding, w - padding],
                smallest,
            ),
            name="pad",
        )
    rh, rw = _axis(K, "rh"), _axis(K, "rw")
    Y = te.compute(
        (N, C, _out(H, K, stride, padding), _out(W, K, stride, padding)),
        lambda n, c, h, w: te.max(P[n, c, h * stride + rh, w * stride + rw], [rh, rw]),
        name="Y",
    )
    return [X, Y]


def layer_norm(M: int, N: int) -> Tensors:
    A, gamma, beta = _inputs(A=(M, N), gamma=(N,), beta=(N,))
    k, r = _axis(N, "k"), _axis(N, "k")
    part, epsilon = tir.const(1.0 / N, "float32"), tir.const(1e-5, "float32")
    sums = te.compute((M,), lambda i: te.sum(A[i, k], [k]), name="sum")
    squares = te.compute((M,), lambda i: te.sum(A[i, r] * A[i, r], [r]), name="sqsum")
    mean = te.compute((M,), lambda i: sums[i] * part, name="mean")
    rstd = te.compute(
        (M,), lambda i: te.rsqrt(squares[i] * part - mean[i] * mean[i] + epsilon), name="rstd"
    )
    Y = te.compute(
        (M, N), lambda i, j: (A[i, j] - mean[i]) * rstd[i] * gamma[j] + beta[j], name="Y"
    )
    return [A, gamma, beta, Y]


def add_relu(M: int, N: int) -> Tensors:
    A, B = _inputs(A=(M, N), B=(M, N))
    C = te.compute((M, N), lambda i, j: A[i, j] + B[i, j], name="C")
    zero = tir.const(0.0, "float32")
    return [A, B, te.compute((M, N), lambda i, j: te.max(C[i, j], zero), name="relu")]


OPERATORS = {
    operator.__name__: auto_scheduler.register_workload(operator)
    for operator in (
        matmul,
        batch_matmul,
        dense_bias_relu,
        conv1d_nlc,
        conv2d_nhwc,
        conv3d_ndhwc,
        depthwise_conv2d_nhwc,
        conv2d_transpose_nhwc,
        conv2d_capsule_nhwijc,
        norm_bmn,
        conv2d_nchw_bn_relu,
        softmax,
        transpose_batch_matmul_softmax,
        max_pool2d_nchw,
        layer_norm,
        add_relu,
    )
}
