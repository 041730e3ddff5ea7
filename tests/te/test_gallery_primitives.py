"""The example in the docstring of every primitive computes what the plain program computes."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from kit.te import both_axes, compute_of
from kit.types import Array, Check


def _map2d() -> tuple[Schedule, Tensor, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    return s, B, [A, B], lambda a: a + 1


def _chain() -> tuple[Schedule, Tensor, Tensor, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    return s, B, C, [A, C], lambda a: (a + 1) * 2


def _row_sums() -> tuple[Schedule, Tensor, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((16, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    return s, C, [A, C], lambda a: a.sum(1)


def split() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].split(compute_of(B).axis[0], factor=4)
    return s, args, reference


def split_nparts() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].split(compute_of(B).axis[0], nparts=5)
    return s, args, reference


def split_guarded() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].split(compute_of(B).axis[0], factor=5)
    return s, args, reference


def fuse() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].fuse(*compute_of(B).axis)
    return s, args, reference


def fuse_nothing() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].fuse()
    return s, args, reference


def reorder() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].reorder(*reversed(compute_of(B).axis))
    return s, args, reference


def tile() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].tile(*both_axes(B), 4, 8)
    return s, args, reference


def bind() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].bind(compute_of(B).axis[0], te.thread_axis("blockIdx.x"))
    return s, args, reference


def vectorize() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].vectorize(compute_of(B).axis[1])
    return s, args, reference


def unroll() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].unroll(compute_of(B).axis[1])
    return s, args, reference


def parallel() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].parallel(compute_of(B).axis[0])
    return s, args, reference


def pragma() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].pragma(compute_of(B).axis[0], "auto_unroll_max_step", 16)
    return s, args, reference


def storage_align() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    M = te.placeholder((16, 16), name="M")
    T = te.compute((16, 16), lambda i, j: M[j, i], name="T")
    s = te.create_schedule(T.op)
    MS = s.cache_read(M, "shared", [T])
    s[MS].storage_align(compute_of(MS).axis[0], 32, 1)
    return s, [M, T], lambda m: m.T


def prefetch() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s[B].prefetch(args[0], compute_of(B).axis[0], 1)
    return s, args, reference


def compute_at() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, C, args, reference = _chain()
    s[B].compute_at(s[C], compute_of(C).axis[0])
    return s, args, reference


def compute_inline() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, _, args, reference = _chain()
    s[B].compute_inline()
    return s, args, reference


def compute_root() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, C, args, reference = _chain()
    s[B].compute_at(s[C], compute_of(C).axis[0])
    s[B].compute_root()
    return s, args, reference


def set_scope() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, _, args, reference = _chain()
    s[B].set_scope("local")
    return s, args, reference


def set_store_predicate() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, C, args, reference = _row_sums()
    _, ki = s[C].split(compute_of(C).reduce_axis[0], factor=4)
    thread = te.thread_axis("threadIdx.x")
    s[C].bind(ki, thread)
    s[C].set_store_predicate(te.eq(thread.var, 0))
    return s, args, reference


def double_buffer() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, C, args, reference = _chain()
    co, _ = s[C].split(compute_of(C).axis[0], factor=4)
    s[B].compute_at(s[C], co)
    s[B].double_buffer()
    return s, args, reference


def cache_read() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, B, args, reference = _map2d()
    s.cache_read(args[0], "local", [B])
    return s, args, reference


def cache_write() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    s, C, args, reference = _row_sums()
    s.cache_write(C, "local")
    return s, args, reference


def rfactor() -> tuple[Schedule, list[Tensor], Callable[[Array], np.float32]]:
    A = te.placeholder((64,), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, ki = s[B].split(k, factor=16)
    s.rfactor(B, ki)
    return s, [A, B], lambda a: a.sum()


def create_group() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
    s = te.create_schedule(D.op)
    group = s.create_group(outputs=C, inputs=A)
    group.compute_at(s[D], D.op.axis[0])
    return s, [A, D], lambda a: (a + 1) * 2 - 3


def scan() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    X = te.placeholder((7, 5), name="X")
    state = te.placeholder((7, 5), name="state")
    init = te.compute((1, 5), lambda _, i: X[0, i], name="init")
    update = te.compute((7, 5), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    return te.create_schedule(total.op), [X, total], lambda x: np.cumsum(x, 0)


def argmax() -> tuple[Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]]:
    A = te.placeholder((6, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    reducer = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((6,), lambda i: reducer((k.var, A[i, k]), axis=k), name="arg")
    s = te.create_schedule(index.op)
    return s, [A, index, value], lambda a: (a.argmax(1), a.max(1))


EXAMPLES = {
    example.__name__: example
    for example in (
        split,
        split_nparts,
        split_guarded,
        fuse,
        fuse_nothing,
        reorder,
        tile,
        bind,
        vectorize,
        unroll,
        parallel,
        pragma,
        storage_align,
        prefetch,
        compute_at,
        compute_inline,
        compute_root,
        set_scope,
        set_store_predicate,
        double_buffer,
        cache_read,
        cache_write,
        rfactor,
        create_group,
        scan,
        argmax,
    )
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example(name: str, check: Check) -> None:
    check(*EXAMPLES[name]())
