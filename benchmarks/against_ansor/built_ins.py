"""The built-in operators in TVM's te; runs in the peer's interpreter alone.

Arguments, stages and names are those of Ansor's workload keys (docs/semantics/records.md), in their
order, so that a line of one side is a line of the other; the types come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from built_in_types import FLOAT32, Types
from tvm import auto_scheduler, te, tir

Tensor = Any
Tensors = list[Any]


def _input(dtype: str, name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, dtype, name=name)


def _operands(t: Types, **shapes: Sequence[int]) -> Tensors:
    """The two of a product."""
    kinds = zip((t.inputs, t.weights), shapes.items(), strict=True)
    return [_input(dtype, name, *shape) for dtype, (name, shape) in kinds]


def _axis(length: int, name: str) -> Any:
    return te.reduce_axis((0, length), name=name)


def _pad(data: Tensor, padding: int, first: int, count: int, value: Any = None) -> Tensor:
    """`data` with a border on `count` axes from `first` on."""
    if padding == 0:
        return data
    padded = range(first, first + count)
    sizes = [int(size) for size in data.shape]

    def element(*at: Any) -> Any:
        inside = [c for a in padded for c in (at[a] >= padding, at[a] < sizes[a] + padding)]
        source = [i - padding if a in padded else i for a, i in enumerate(at)]
        border = tir.const(0, data.dtype) if value is None else value
        return tir.if_then_else(tir.all(*inside), data(*source), border)

    shape = [size + 2 * padding if a in padded else size for a, size in enumerate(sizes)]
    return te.compute(shape, element, name="pad")


def _out(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def matmul(M: int, N: int, K: int, t: Types = FLOAT32) -> Tensors:
    A, B = _operands(t, A=(M, K), B=(K, N))
    k = _axis(K, "k")
    shape = (M, N)
    C = te.compute(shape, lambda i, j: t.sum(A[i, k], B[k, j], [k]), name=t.before("C"))
    return [A, B, t.output(C, "C")]


def batch_matmul(B: int, M: int, N: int, K: int, t: Types = FLOAT32) -> Tensors:
    X, Y = _operands(t, X=(B, M, K), Y=(B, K, N))
    k = _axis(K, "k")
    shape = (B, M, N)
    Z = te.compute(shape, lambda b, i, j: t.sum(X[b, i, k], Y[b, k, j], [k]), name=t.before("Z"))
    return [X, Y, t.output(Z, "Z")]


def dense_bias_relu(M: int, N: int, K: int, t: Types = FLOAT32) -> Tensors:
    A, W = _operands(t, A=(M, K), W=(N, K))
    bias = _input(t.acc, "bias", N)
    k = _axis(K, "k")
    T = te.compute((M, N), lambda i, j: t.sum(A[i, k], W[j, k], [k]), name="T")
    U = te.compute((M, N), lambda i, j: T[i, j] + bias[j], name="U")
    zero = tir.const(0, t.acc)
    relu = te.compute((M, N), lambda i, j: t.narrow(te.max(U[i, j], zero)), name="relu")
    return [A, W, bias, relu]


def conv1d_nlc(
    N: int, L: int, CI: int, CO: int, K: int, stride: int, padding: int, t: Types = FLOAT32
) -> Tensors:
    X, W = _operands(t, X=(N, L, CI), W=(K, CI, CO))
    P = _pad(X, padding, 1, 1)
    rl, rc = _axis(K, "rl"), _axis(CI, "rc")
    Y = te.compute(
        (N, _out(L, K, stride, padding), CO),
        lambda n, l, co: t.sum(P[n, l * stride + rl, rc], W[rl, rc, co], [rl, rc]),
        name=t.before("Y"),
    )
    return [X, W, t.output(Y, "Y")]


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
    t: Types = FLOAT32,
) -> Tensors:
    X, K = _operands(t, X=(N, H, W, CI), K=(KH, KW, CI // groups, CO))
    P = _pad(X, padding, 1, 2)
    rh, rw, rc = _axis(KH, "rh"), _axis(KW, "rw"), _axis(CI // groups, "rc")

    def element(n: Any, h: Any, w: Any, co: Any) -> Any:
        channel = rc if groups == 1 else co // (CO // groups) * (CI // groups) + rc
        at = P[n, h * stride + rh * dilation, w * stride + rw * dilation, channel]
        return t.sum(at, K[rh, rw, rc, co], [rh, rw, rc])

    height = _out(H, KH, stride, padding, dilation)
    width = _out(W, KW, stride, padding, dilation)
    Y = te.compute((N, height, width, CO), element, name=t.before("Y"))
    return [X, K, t.output(Y, "Y")]


def conv3d_ndhwc(
    N: int,
    D: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
    t: Types = FLOAT32,
) -> Tensors:
    X, kernel = _operands(t, X=(N, D, H, W, CI), K=(K, K, K, CI, CO))
    P = _pad(X, padding, 1, 3)
    rd, rh, rw, rc = (_axis(K, "rd"), _axis(K, "rh"), _axis(K, "rw"), _axis(CI, "rc"))

    def element(n: Any, d: Any, h: Any, w: Any, co: Any) -> Any:
        at = P[n, d * stride + rd, h * stride + rh, w * stride + rw, rc]
        return t.sum(at, kernel[rd, rh, rw, rc, co], [rd, rh, rw, rc])

    sizes = [_out(size, K, stride, padding) for size in (D, H, W)]
    Y = te.compute((N, *sizes, CO), element, name=t.before("Y"))
    return [X, kernel, t.output(Y, "Y")]


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, K: int, stride: int, padding: int, t: Types = FLOAT32
) -> Tensors:
    X, kernel = _operands(t, X=(N, H, W, C), K=(K, K, C))
    P = _pad(X, padding, 1, 2)
    rh, rw = _axis(K, "rh"), _axis(K, "rw")
    Y = te.compute(
        (N, _out(H, K, stride, padding), _out(W, K, stride, padding), C),
        lambda n, h, w, c: t.sum(
            P[n, h * stride + rh, w * stride + rw, c], kernel[rh, rw, c], [rh, rw]
        ),
        name=t.before("Y"),
    )
    return [X, kernel, t.output(Y, "Y")]


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int, t: Types = FLOAT32
) -> Tensors:
    X, kernel = _operands(t, X=(N, H, W, CI), K=(K, K, CI, CO))
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
        return tir.if_then_else(inside, at, tir.const(0, t.inputs))

    P = te.compute((N, height + 2 * b, width + 2 * b, CI), dilated, name="dilate_pad")
    rh, rw, rc = _axis(K, "rh"), _axis(K, "rw"), _axis(CI, "rc")
    Y = te.compute(
        (N, height + 2 * b - K + 1, width + 2 * b - K + 1, CO),
        lambda n, h, w, co: t.sum(
            P[n, h + rh, w + rw, rc], kernel[K - 1 - rh, K - 1 - rw, rc, co], [rh, rw, rc]
        ),
        name=t.before("Y"),
    )
    return [X, kernel, t.output(Y, "Y")]


def conv2d_capsule_nhwijc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
    CAP: int = 4,
    t: Types = FLOAT32,
) -> Tensors:
    X, kernel = _operands(t, X=(N, H, W, CAP, CAP, CI), K=(K, K, CAP, CAP, CI, CO))
    P = _pad(X, padding, 1, 2)
    rh, rw, ck, rc = _axis(K, "rh"), _axis(K, "rw"), _axis(CAP, "ck"), _axis(CI, "rc")

    def element(n: Any, h: Any, w: Any, i: Any, j: Any, co: Any) -> Any:
        at = P[n, h * stride + rh, w * stride + rw, i, ck, rc]
        return t.sum(at, kernel[rh, rw, ck, j, rc, co], [rh, rw, ck, rc])

    height, width = _out(H, K, stride, padding), _out(W, K, stride, padding)
    Y = te.compute((N, height, width, CAP, CAP, CO), element, name=t.before("Y"))
    return [X, kernel, t.output(Y, "Y")]


def norm_bmn(B: int, M: int, N: int, t: Types = FLOAT32) -> Tensors:
    A = _input(t.inputs, "A", B, M, N)
    i, j = _axis(M, "i"), _axis(N, "j")
    C = te.compute((B,), lambda b: t.sum(A[b, i, j], A[b, i, j], [i, j]), name="C")
    return [A, te.compute((B,), lambda b: t.narrow(te.sqrt(C[b])), name="D")]


def conv2d_nchw_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int, t: Types = FLOAT32
) -> Tensors:
    X, kernel = _operands(t, X=(N, CI, H, W), K=(CO, CI, K, K))
    bias, scale, offset = (_input(t.acc, name, CO) for name in ("bias", "scale", "offset"))
    P = _pad(X, padding, 2, 2)
    rc, rh, rw = _axis(CI, "rc"), _axis(K, "rh"), _axis(K, "rw")
    shape = (N, CO, _out(H, K, stride, padding), _out(W, K, stride, padding))
    Y = te.compute(
        shape,
        lambda n, co, h, w: t.sum(
            P[n, rc, h * stride + rh, w * stride + rw], kernel[co, rc, rh, rw], [rc, rh, rw]
        ),
        name="Y",
    )
    U = te.compute(shape, lambda n, co, h, w: Y[n, co, h, w] + bias[co], name="bias_add")
    V = te.compute(shape, lambda n, co, h, w: U[n, co, h, w] * scale[co], name="bn_mul")
    Z = te.compute(shape, lambda n, co, h, w: V[n, co, h, w] + offset[co], name="bn_add")
    zero = tir.const(0, t.acc)
    R = te.compute(shape, lambda n, co, h, w: t.narrow(te.max(Z[n, co, h, w], zero)), name="relu")
    return [X, kernel, bias, scale, offset, R]


def softmax(M: int, N: int, t: Types = FLOAT32) -> Tensors:
    A = _input(t.inputs, "A", M, N)
    k, r = _axis(N, "k"), _axis(N, "k")
    largest = te.compute((M,), lambda i: te.max(t.wide(A[i, k]), [k]), name="maxelem")
    exp = te.compute((M, N), lambda i, j: te.exp(t.wide(A[i, j]) - largest[i]), name="exp")
    total = te.compute((M,), lambda i: te.sum(exp[i, r], [r]), name="expsum")
    norm = te.compute((M, N), lambda i, j: t.narrow(exp[i, j] / total[i]), name="norm")
    return [A, norm]


def transpose_batch_matmul_softmax(B: int, S: int, H: int, D: int, t: Types = FLOAT32) -> Tensors:
    Q, K = _operands(t, Q=(B, S, H, D), K=(B, S, H, D))

    def split(b: Any) -> Any:
        return tir.indexdiv(b, H), tir.indexmod(b, H)

    QT = te.compute((B * H, S, D), lambda b, i, d: Q[split(b)[0], i, split(b)[1], d], name="QT")
    KT = te.compute((B * H, D, S), lambda b, d, i: K[split(b)[0], i, split(b)[1], d], name="KT")
    k, r, u = _axis(D, "k"), _axis(S, "r"), _axis(S, "r")
    shape = (B * H, S, S)
    C = te.compute(shape, lambda b, i, j: t.sum(QT[b, i, k], KT[b, k, j], [k]), name="C")
    largest = te.compute((B * H, S), lambda b, i: te.max(C[b, i, r], [r]), name="maxelem")
    exp = te.compute(shape, lambda b, i, j: te.exp(C[b, i, j] - largest[b, i]), name="exp")
    total = te.compute((B * H, S), lambda b, i: te.sum(exp[b, i, u], [u]), name="expsum")
    norm = te.compute(shape, lambda b, i, j: t.narrow(exp[b, i, j] / total[b, i]), name="norm")
    return [Q, K, norm]


def max_pool2d_nchw(
    N: int, C: int, H: int, W: int, K: int, stride: int, padding: int, t: Types = FLOAT32
) -> Tensors:
    X = _input(t.inputs, "X", N, C, H, W)
    P = X
    if padding:
        smallest = te.min_value(t.inputs)
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
        lambda n, c, h, w: te.max(t.wide(P[n, c, h * stride + rh, w * stride + rw]), [rh, rw]),
        name=t.before("Y"),
    )
    return [X, t.output(Y, "Y")]


def layer_norm(M: int, N: int, t: Types = FLOAT32) -> Tensors:
    A, gamma, beta = (
        _input(t.inputs, "A", M, N),
        _input(t.acc, "gamma", N),
        _input(t.acc, "beta", N),
    )
    k, r = _axis(N, "k"), _axis(N, "k")
    inner = t._replace(acc="float32") if t.acc in ("float16", "bfloat16") else t
    part, epsilon = tir.const(1.0 / N, inner.acc), tir.const(1e-5, inner.acc)
    sums = te.compute((M,), lambda i: te.sum(inner.wide(A[i, k]), [k]), name="sum")
    squares = te.compute((M,), lambda i: inner.sum(A[i, r], A[i, r], [r]), name="sqsum")
    mean = te.compute((M,), lambda i: sums[i] * part, name="mean")
    rstd = te.compute(
        (M,), lambda i: te.rsqrt(squares[i] * part - mean[i] * mean[i] + epsilon), name="rstd"
    )

    def normed(i: Any, j: Any) -> Any:
        scaled = (inner.wide(A[i, j]) - mean[i]) * rstd[i] * inner.wide(gamma[j])
        return t.narrow(scaled + inner.wide(beta[j]))

    return [A, gamma, beta, te.compute((M, N), normed, name="Y")]


def add_relu(M: int, N: int, t: Types = FLOAT32) -> Tensors:
    A, B = _operands(t, A=(M, N), B=(M, N))
    C = te.compute((M, N), lambda i, j: t.wide(A[i, j]) + t.wide(B[i, j]), name="C")
    zero = tir.const(0, t.acc)
    relu = te.compute((M, N), lambda i, j: t.narrow(te.max(C[i, j], zero)), name="relu")
    return [A, B, relu]


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
