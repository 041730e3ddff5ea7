"""Hand-written GPU schedules, run in lockstep with the race check, compute what NumPy computes."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IterVar
from kit.te import both_axes, compute_of, factor_of
from kit.types import Array, Check


def _threads(*tags: str) -> list[IterVar]:
    return [te.thread_axis(tag) for tag in tags]


def _matmul(
    m: int = 12, n: int = 16, k: int = 10
) -> tuple[Tensor, Tensor, Tensor, Callable[[Array, Array], Array]]:
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return A, B, C, lambda a, b: a @ b


def elementwise_blocks_and_threads() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = _threads("blockIdx.x", "threadIdx.x")
    io, ii = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(io, block)
    s[B].bind(ii, thread)
    return s, [A, B], lambda a: a * 2


def elementwise_vthread() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((48,), name="A")
    B = te.compute((48,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    vx, tx = _threads("vthread", "threadIdx.x")
    io, ii = s[B].split(B.op.axis[0], nparts=4)
    s[B].bind(io, vx)
    s[B].bind(ii, tx)
    return s, [A, B], lambda a: a * 2


def matmul_one_thread_per_element() -> tuple[
    Schedule, list[Tensor], Callable[[Array, Array], Array]
]:
    A, B, C, reference = _matmul()
    s = te.create_schedule(C.op)
    by, bx, ty, tx = _threads("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    io, jo, ii, ji = s[C].tile(*both_axes(C), 4, 8)
    for iv, thread in ((io, by), (jo, bx), (ii, ty), (ji, tx)):
        s[C].bind(iv, thread)
    return s, [A, B, C], reference


def _shared_matmul(
    m: int, n: int, k: int, factor: int, double: bool = False
) -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, reference = _matmul(m, n, k)
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AS = s.cache_read(A, "shared", [CL])
    BS = s.cache_read(B, "shared", [CL])
    block, ty, tx = _threads("blockIdx.x", "threadIdx.y", "threadIdx.x")
    io, jo, ii, ji = s[C].tile(*both_axes(C), 8, 8)
    fused = s[C].fuse(io, jo)
    iy, ii = s[C].split(ii, factor=2)
    jx, ji = s[C].split(ji, factor=2)
    s[C].reorder(fused, iy, jx, ii, ji)
    s[C].bind(fused, block)
    s[C].bind(iy, ty)
    s[C].bind(jx, tx)
    s[CL].compute_at(s[C], jx)
    ko, ki = s[CL].split(CL.op.reduce_axis[0], factor=factor)
    s[CL].reorder(ko, ki, *CL.op.axis)
    for shared in (AS, BS):
        s[shared].compute_at(s[CL], ko)
        load = s[shared].fuse(*compute_of(shared).axis)
        load, x = s[shared].split(load, factor=4)
        _, y = s[shared].split(load, factor=4)
        s[shared].bind(x, tx)
        s[shared].bind(y, ty)
        if double:
            s[shared].double_buffer()
    return s, [A, B, C], reference


def matmul_shared() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    return _shared_matmul(16, 16, 12, 4)


def matmul_shared_unevenly() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    return _shared_matmul(13, 11, 10, 4)


def matmul_shared_double_buffered() -> tuple[
    Schedule, list[Tensor], Callable[[Array, Array], Array]
]:
    return _shared_matmul(8, 8, 12, 4, double=True)


def matmul_shared_and_local() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A, B, C, reference = _matmul(16, 16, 8)
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AS = s.cache_read(A, "shared", [CL])
    AL = s.cache_read(AS, "local", [CL])
    bx, vy, tx = _threads("blockIdx.x", "vthread", "threadIdx.x")
    i, j = compute_of(C).axis
    io, ii = s[C].split(i, factor=8)
    iv, ii = s[C].split(ii, nparts=2)
    jx, ji = s[C].split(j, factor=4)
    s[C].reorder(io, iv, jx, ii, ji)
    for loop, thread in ((io, bx), (iv, vy), (jx, tx)):
        s[C].bind(loop, thread)
    s[CL].compute_at(s[C], jx)
    (k,) = CL.op.reduce_axis
    ko, ki = s[CL].split(k, factor=4)
    s[CL].reorder(ko, ki, *CL.op.axis)
    s[AS].compute_at(s[CL], ko)
    s[AL].compute_at(s[CL], ki)
    _load, x = s[AS].split(s[AS].fuse(*compute_of(AS).axis), factor=4)
    s[AS].bind(x, te.thread_axis((0, 4), "threadIdx.x"))
    return s, [A, B, C], reference


def shared_with_padded_rows() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    block, ty, tx = _threads("blockIdx.x", "threadIdx.y", "threadIdx.x")
    io, jo, ii, ji = s[B].tile(*both_axes(B), 4, 4)
    fused = s[B].fuse(io, jo)
    for iv, thread in ((fused, block), (ii, ty), (ji, tx)):
        s[B].bind(iv, thread)
    s[AS].compute_at(s[B], fused)
    s[AS].storage_align(compute_of(AS).axis[0], 4, 1)
    s[AS].bind(compute_of(AS).axis[0], ty)
    s[AS].bind(compute_of(AS).axis[1], tx)
    return s, [A, B], lambda a: a.T


def _row_sums(m: int = 6, n: int = 40) -> tuple[Tensor, Tensor, IterVar, Callable[[Array], Array]]:
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, B, k, lambda a: a.sum(1)


def cross_thread_sum() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A, B, k, reference = _row_sums()
    s = te.create_schedule(B.op)
    _, ki = s[B].split(k, factor=8)
    s[B].bind(compute_of(B).axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, B], reference


def cross_thread_sum_unevenly() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A, B, k, reference = _row_sums(4, 100)
    s = te.create_schedule(B.op)
    _, ki = s[B].split(k, factor=32)
    s[B].bind(compute_of(B).axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, B], reference


def cross_thread_only() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A, B, k, reference = _row_sums(4, 16)
    s = te.create_schedule(B.op)
    s[B].bind(compute_of(B).axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    return s, [A, B], reference


def rfactor_across_threads() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A, B, k, reference = _row_sums()
    s = te.create_schedule(B.op)
    _, ki = s[B].split(k, factor=8)
    BF = factor_of(s.rfactor(B, ki))
    (v,) = compute_of(s[B]).reduce_axis
    s[B].bind(compute_of(s[B]).axis[0], te.thread_axis("blockIdx.x"))
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(v, thread)
    s[BF].compute_at(s[B], v)
    s[B].set_store_predicate(te.eq(thread.var, 0))
    return s, [A, B], reference


def rows_of_threads() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A, B, k, reference = _row_sums(7, 24)
    s = te.create_schedule(B.op)
    io, ii = s[B].split(compute_of(B).axis[0], factor=4)
    _ko, ki = s[B].split(k, factor=8)
    s[B].bind(io, te.thread_axis("blockIdx.x"))
    s[B].bind(ii, te.thread_axis("threadIdx.y"))
    s[B].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, B], reference


def argmax_across_threads() -> tuple[
    Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]
]:
    A = te.placeholder((5, 24), name="A")
    k = te.reduce_axis((0, 24), "k")
    reducer = te.comm_reducer(
        lambda x, y: (
            te.select(te.any(x[1] > y[1], te.all(te.eq(x[1], y[1]), x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda t0, t1: (te.max_value(t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((5,), lambda i: reducer((k.var, A[i, k]), axis=k), name="arg")
    s = te.create_schedule(index.op)
    _, ki = s[index].split(k, factor=8)
    s[index].bind(index.op.axis[0], te.thread_axis("blockIdx.x"))
    s[index].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, index, value], lambda a: (a.argmax(1), a.max(1))


def fused_stages_in_one_kernel() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((8, 12), name="A")
    k = te.reduce_axis((0, 12), "k")
    M = te.compute((8,), lambda i: te.max(A[i, k], axis=k), name="M")
    B = te.compute((8, 12), lambda i, j: A[i, j] - M[i], name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    s[B].bind(i, te.thread_axis("blockIdx.x"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[M].compute_at(s[B], i)
    s[M].set_scope("shared")
    _, ki = s[M].split(k, nparts=1)
    s[M].bind(ki, te.thread_axis((0, 12), "threadIdx.x"))
    return s, [A, B], lambda a: a - a.max(1, keepdims=True)


def two_kernels() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((30,), name="A")
    B = te.compute((30,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((30,), lambda i: B[29 - i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    for tensor in (B, C):
        io, ii = s[tensor].split(tensor.op.axis[0], factor=8)
        s[tensor].bind(io, te.thread_axis("blockIdx.x"))
        s[tensor].bind(ii, te.thread_axis("threadIdx.x"))
    return s, [A, C], lambda a: (a[::-1] + 1) * 2


def scan_on_threads() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    m, n = 6, 10
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    for tensor in (init, update):
        xo, xi = s[tensor].split(tensor.op.axis[1], factor=4)
        s[tensor].bind(xo, te.thread_axis("blockIdx.x"))
        s[tensor].bind(xi, te.thread_axis("threadIdx.x"))
    return s, [X, total], lambda x: np.cumsum(x, 0)


GALLERY = {
    case.__name__: case
    for case in (
        elementwise_blocks_and_threads,
        elementwise_vthread,
        matmul_one_thread_per_element,
        matmul_shared,
        matmul_shared_unevenly,
        matmul_shared_double_buffered,
        matmul_shared_and_local,
        shared_with_padded_rows,
        cross_thread_sum,
        cross_thread_sum_unevenly,
        cross_thread_only,
        rfactor_across_threads,
        rows_of_threads,
        argmax_across_threads,
        fused_stages_in_one_kernel,
        two_kernels,
        scan_on_threads,
    )
}


@pytest.mark.parametrize("name", GALLERY)
def test_gpu_schedule(name: str, check: Check) -> None:
    check(*GALLERY[name]())
