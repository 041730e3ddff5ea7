"""Hand-written CPU schedules of common operators compute what NumPy computes."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from kit.te import both_axes, compute_of, factor_of
from kit.types import Array, Check


def _matmul(
    m: int = 12, n: int = 10, k: int = 14, relu: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Callable[[Array, Array], Array]]:
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    if not relu:
        return A, B, C, C, lambda a, b: a @ b
    D = te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return A, B, C, D, lambda a, b: np.maximum(a @ b, 0)


def matmul_tiled() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, _, reference = _matmul()
    s = te.create_schedule(C.op)
    i, j = compute_of(C).axis
    (k,) = compute_of(C).reduce_axis
    io, jo, ii, ji = s[C].tile(i, j, 4, 5)
    ko, ki = s[C].split(k, factor=7)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s, [A, B, C], reference


def matmul_tiled_unevenly() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, _, reference = _matmul(11, 9, 13)
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*both_axes(C), 4, 4)
    ko, ki = s[C].split(compute_of(C).reduce_axis[0], factor=5)
    s[C].reorder(io, ko, jo, ki, ii, ji)
    s[C].unroll(ii)
    return s, [A, B, C], reference


def matmul_cache_write() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, _, reference = _matmul()
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    io, jo, _, ji = s[C].tile(*both_axes(C), 4, 5)
    s[C].vectorize(ji)
    s[CL].compute_at(s[C], jo)
    ic, jc = CL.op.axis
    ko, ki = s[CL].split(CL.op.reduce_axis[0], factor=4)
    s[CL].reorder(ko, ic, ki, jc)
    s[CL].unroll(ki)
    s[CL].vectorize(jc)
    s[C].parallel(io)
    return s, [A, B, C], reference


def matmul_cache_write_after_split() -> tuple[
    Schedule, list[Tensor], Callable[[Array, Array], Array]
]:
    A, B, C, _, reference = _matmul(11, 9, 6)
    s = te.create_schedule(C.op)
    _io, _jo, _ii, _ji = s[C].tile(*both_axes(C), 4, 4)
    CL = s.cache_write(C, "global")
    assert len(CL.shape) == 4
    return s, [A, B, C], reference


def matmul_cache_write_packed() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, _, reference = _matmul(12, 8, 6)
    s = te.create_schedule(C.op)
    i, j, _ = s[C].leaf_iter_vars
    jo, ji = s[C].split(j, factor=4)
    s[C].reorder(jo, i, ji)
    s.cache_write(C, "global")
    i, j = compute_of(s[C]).axis
    s[C].vectorize(s[C].split(j, factor=4)[1])
    return s, [A, B, C], reference


def matmul_packed_input() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    m, n, k = 12, 10, 14
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    P = te.compute((n // 5, k, 5), lambda jo, k, ji: B[k, jo * 5 + ji], name="P")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * P[j // 5, r, j % 5], axis=r), name="C")
    s = te.create_schedule(C.op)
    s[P].vectorize(P.op.axis[2])
    io, jo, _, ji = s[C].tile(*both_axes(C), 4, 5)
    s[C].reorder(io, jo, r)
    s[C].vectorize(ji)
    return s, [A, B, C], lambda a, b: a @ b


def matmul_packed_input_at_a_tile() -> tuple[
    Schedule, list[Tensor], Callable[[Array, Array], Array]
]:
    A, B, C, _, reference = _matmul()
    s = te.create_schedule(C.op)
    BL = s.cache_read(B, "global", [C])
    _io, jo, _ii, _ji = s[C].tile(*both_axes(C), 5, 4)
    s[BL].compute_at(s[C], jo)
    return s, [A, B, C], reference


def matmul_relu_fused() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, D, reference = _matmul(relu=True)
    s = te.create_schedule(D.op)
    io, jo, _ii, _ji = s[D].tile(*both_axes(D), 3, 4)
    s[C].compute_at(s[D], jo)
    i, j = compute_of(C).axis
    s[C].reorder(compute_of(C).reduce_axis[0], i, j)
    s[D].parallel(s[D].fuse(io, jo))
    return s, [A, B, D], reference


def matmul_rfactor() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, _, reference = _matmul()
    s = te.create_schedule(C.op)
    _ko, ki = s[C].split(compute_of(C).reduce_axis[0], factor=4)
    CF = factor_of(s.rfactor(C, ki))
    assert len(CF.shape) == 3
    s[CF].parallel(compute_of(CF).axis[0])
    return s, [A, B, C], reference


def matmul_rfactor_of_a_fused_pair() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((6, 5, 7), name="A")
    x, y = te.reduce_axis((0, 5), "x"), te.reduce_axis((0, 7), "y")
    C = te.compute((6,), lambda i: te.sum(A[i, x, y], axis=[x, y]), name="C")
    s = te.create_schedule(C.op)
    fused = s[C].fuse(x, y)
    outer, _ = s[C].split(fused, factor=8)
    CF = factor_of(s.rfactor(C, outer, 1))
    s[CF].vectorize(compute_of(CF).axis[1])
    return s, [A, C], lambda a: a.sum((1, 2))


def rfactor_keeps_other_loops() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((6, 5, 7), name="A")
    x, y = te.reduce_axis((0, 5), "x"), te.reduce_axis((0, 7), "y")
    C = te.compute((6,), lambda i: te.max(A[i, x, y], axis=[x, y]), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=4)
    s[C].split(x, nparts=2)
    _, yi = s[C].split(y, factor=3)
    s.rfactor(C, yi, -1)
    return s, [A, C], lambda a: a.max((1, 2))


def rfactor_with_a_condition() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 10), "k")
    C = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k.var < 7), name="C")
    s = te.create_schedule(C.op)
    ko, _ = s[C].split(k, factor=4)
    s.rfactor(C, ko)
    return s, [A, C], lambda a: a[:7].sum(keepdims=True)


def _conv(
    stride: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Callable[[Array, Array], Array]]:
    size, channels, filters, kernel = 9, 3, 4, 3
    A = te.placeholder((channels, size, size), name="A")
    W = te.placeholder((filters, channels, kernel, kernel), name="W")
    P = te.compute(
        (channels, size + 2, size + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < size + 1, x >= 1, x < size + 1), A[c, y - 1, x - 1], 0.0
        ),
        name="P",
    )
    rc = te.reduce_axis((0, channels), "rc")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    out = (size - 1) // stride + 1
    C = te.compute(
        (filters, out, out),
        lambda f, y, x: te.sum(
            P[rc, y * stride + ry, x * stride + rx] * W[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="C",
    )
    D = te.compute((filters, out, out), lambda f, y, x: te.max(C[f, y, x], 0.0), name="D")

    def reference(a: Array, w: Array) -> Array:
        padded = np.pad(a, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
        windows = windows[:, ::stride, ::stride]
        result: Array = np.maximum(np.einsum("cyxkl,fckl->fyx", windows, w), 0)
        return result

    return A, W, P, C, D, reference


def conv_padding_inlined() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, W, P, C, D, reference = _conv()
    s = te.create_schedule(D.op)
    s[P].compute_inline()
    _f, _y, x = compute_of(D).axis
    xo, _xi = s[D].split(x, factor=4)
    s[C].compute_at(s[D], xo)
    return s, [A, W, D], reference


def conv_chain_three_deep() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, W, P, C, D, reference = _conv(stride=2)
    s = te.create_schedule(D.op)
    _f, y, x = compute_of(D).axis
    _yo, xo, _yi, _xi = s[D].tile(y, x, 2, 3)
    s[C].compute_at(s[D], xo)
    s[P].compute_at(s[C], compute_of(C).reduce_axis[0])
    AL = s.cache_read(A, "local", [P])
    s[AL].compute_at(s[P], compute_of(P).axis[1])
    return s, [A, W, D], reference


def conv_channels_reordered() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, W, P, C, D, reference = _conv()
    s = te.create_schedule(D.op)
    f, y, x = compute_of(C).axis
    rc, ry, rx = compute_of(C).reduce_axis
    fo, fi = s[C].split(f, factor=3)
    s[C].reorder(fo, y, rc, ry, rx, x, fi)
    s[C].vectorize(fi)
    s[P].compute_at(s[C], y)
    s[D].compute_root()
    return s, [A, W, D], reference


def softmax_rows() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((5, 7), name="A")
    k, r = te.reduce_axis((0, 7), "k"), te.reduce_axis((0, 7), "r")
    M = te.compute((5,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((5, 7), lambda i, j: te.exp(A[i, j] - M[i]), name="E")
    S = te.compute((5,), lambda i: te.sum(E[i, r], axis=r), name="S")
    O = te.compute((5, 7), lambda i, j: E[i, j] / S[i], name="O")
    s = te.create_schedule(O.op)
    i, j = O.op.axis
    for tensor in (S, E, M):
        s[tensor].compute_at(s[O], i)
    s[O].vectorize(j)

    def reference(a: Array) -> Array:
        e = np.exp(a - a.max(1, keepdims=True))
        result: Array = e / e.sum(1, keepdims=True)
        return result

    return s, [A, O], reference


def blur_in_two_steps() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((18, 20), name="A")
    H = te.compute((18, 18), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="H")
    V = te.compute((16, 18), lambda y, x: H[y, x] + H[y + 1, x] + H[y + 2, x], name="V")
    s = te.create_schedule(V.op)
    _yo, xo, _, xi = s[V].tile(*both_axes(V), 5, 8)
    s[H].compute_at(s[V], xo)
    s[V].vectorize(xi)

    def reference(a: Array) -> Array:
        h = a[:, :-2] + a[:, 1:-1] + a[:, 2:]
        result: Array = h[:-2] + h[1:-1] + h[2:]
        return result

    return s, [A, V], reference


def transpose_and_reverse() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((6, 10), name="A")
    B = te.compute((10, 6), lambda i, j: A[j, 9 - i], name="B")
    C = te.compute((10, 6), lambda i, j: B[9 - i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    outer, _ = s[C].split(fused, factor=9)
    s[B].compute_at(s[C], outer)
    return s, [A, C], lambda a: a.T * 2


def fuse_of_fused_loops() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((3, 5, 7), name="A")
    B = te.compute((3, 5, 7), lambda i, j, k: A[i, j, k] * 3.0, name="B")
    s = te.create_schedule(B.op)
    i, j, k = B.op.axis
    ij = s[B].fuse(i, j)
    o, m = s[B].split(ij, factor=4)
    mk = s[B].fuse(m, k)
    p, q = s[B].split(mk, nparts=3)
    s[B].fuse(o, p)
    s[B].unroll(q)
    return s, [A, B], lambda a: a * 3


def two_outputs_one_reading_the_other() -> tuple[
    Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]
]:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[7 - i] * 2.0, name="C")
    s = te.create_schedule([B.op, C.op])
    s[B].split(B.op.axis[0], factor=3)
    return s, [A, B, C], lambda a: (a + 1, (a + 1)[::-1] * 2)


GALLERY = {
    case.__name__: case
    for case in (
        matmul_tiled,
        matmul_tiled_unevenly,
        matmul_cache_write,
        matmul_cache_write_after_split,
        matmul_cache_write_packed,
        matmul_packed_input,
        matmul_packed_input_at_a_tile,
        matmul_relu_fused,
        matmul_rfactor,
        matmul_rfactor_of_a_fused_pair,
        rfactor_keeps_other_loops,
        rfactor_with_a_condition,
        conv_padding_inlined,
        conv_chain_three_deep,
        conv_channels_reordered,
        softmax_rows,
        blur_in_two_steps,
        transpose_and_reverse,
        fuse_of_fused_loops,
        two_outputs_one_reading_the_other,
    )
}


@pytest.mark.parametrize("name", GALLERY)
def test_cpu_schedule(name: str, check: Check) -> None:
    check(*GALLERY[name]())
