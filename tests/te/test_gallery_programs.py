"""Scans, external functions, several outputs, groups and tensor intrinsics against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.expr import IterVar
from kit.types import Array, Check


def two_maps_at_once() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((9,), name="A")
    B, C = te.compute((9,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    D = te.compute((9,), lambda i: B[i] * C[i], name="D")
    s = te.create_schedule(D.op)
    io, _ = s[D].split(D.op.axis[0], factor=4)
    s[B].compute_at(s[D], io)
    return s, [A, D], lambda a: (a + 1) * a * 2


def cached_outputs() -> tuple[Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]]:
    A = te.placeholder((9,), name="A")
    B, C = te.compute((9,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=4)
    s.cache_write([B, C], "local")
    return s, [A, B, C], lambda a: (a + 1, a * 2)


def _argmax() -> tuple[Tensor, IterVar, Tensor, Tensor, Callable[[Array], tuple[Array, Array]]]:
    A = te.placeholder((4, 11), name="A")
    k = te.reduce_axis((0, 11), "k")
    reducer = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((4,), lambda i: reducer((k.var, A[i, k]), axis=k), name="arg")
    return A, k, index, value, lambda a: (a.argmax(1), a.max(1))


def argmax_split() -> tuple[Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]]:
    A, k, index, value, reference = _argmax()
    s = te.create_schedule(index.op)
    s[index].split(k, factor=4)
    return s, [A, index, value], reference


def argmax_cached() -> tuple[Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]]:
    A, _k, index, value, reference = _argmax()
    s = te.create_schedule(index.op)
    s.cache_write([index, value], "local")
    return s, [A, index, value], reference


def argmax_rfactor() -> tuple[Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]]:
    A, k, index, value, reference = _argmax()
    s = te.create_schedule(index.op)
    outer, _ = s[index].split(k, factor=4)
    parts = s.rfactor(index, outer)
    assert isinstance(parts, tuple)
    first, second = parts
    assert first.op is second.op
    return s, [A, index, value], reference


def reduction_with_init() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    A = te.placeholder((4, 6), name="A")
    I = te.placeholder((4,), name="I")
    k = te.reduce_axis((0, 6), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=I[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].split(k, factor=4)
    return s, [A, I, B], lambda a, i: a.sum(1) + i


def fibonacci() -> tuple[Schedule, list[Tensor], Callable[[], Array]]:
    n = 8
    state = te.placeholder((n,), name="state")
    init = te.compute((2,), lambda i: te.const(1.0), name="init")
    update = te.compute((n,), lambda t: state[t - 1] + state[t - 2], name="update")
    fib = te.scan(init, update, state, name="fib")
    return te.create_schedule(fib.op), [fib], lambda: np.array([1, 1, 2, 3, 5, 8, 13, 21.0])


def scan_with_an_inner_stage() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    m, n = 6, 5
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    mid = te.compute((m, n), lambda t, i: state[t - 1, i] * 2.0, name="mid")
    update = te.compute((m, n), lambda t, i: mid[t, i] + X[t, i], name="update")
    out = te.scan(init, update, state, [X], name="out")
    s = te.create_schedule(out.op)
    xo, _ = s[update].split(update.op.axis[1], factor=2)
    s[mid].compute_at(s[update], xo)

    def reference(x: Array) -> Array:
        rows = [x[0]]
        for row in x[1:]:
            rows.append(rows[-1] * 2 + row)
        return np.stack(rows)

    return s, [X, out], reference


def scan_with_a_reduction() -> tuple[Schedule, list[Tensor], Callable[[Array, Array], Array]]:
    m, n = 5, 4
    X = te.placeholder((m, n), name="X")
    W = te.placeholder((n, n), name="W")
    state = te.placeholder((m, n), name="state")
    k = te.reduce_axis((0, n), "k")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    dot = te.compute((m, n), lambda t, i: te.sum(state[t - 1, k] * W[k, i], axis=k), name="dot")
    update = te.compute((m, n), lambda t, i: te.max(dot[t, i] + X[t, i], -9.0), name="update")
    out = te.scan(init, update, state, [X, W], name="rnn")
    s = te.create_schedule(out.op)
    s.cache_read(state, "local", [dot])

    def reference(x: Array, w: Array) -> Array:
        rows = [x[0]]
        for row in x[1:]:
            rows.append(np.maximum(rows[-1] @ w + row, -9))
        return np.stack(rows)

    return s, [X, W, out], reference


def scan_of_two_states() -> tuple[
    Schedule, list[Tensor], Callable[[Array, Array], tuple[Array, Array]]
]:
    m, n = 6, 3
    one = te.placeholder((1, n), name="one")
    two = te.placeholder((1, n), name="two")
    A, B = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    a = te.compute((m, n), lambda t, i: B[t - 1, i] + 1.0, name="a")
    b = te.compute((m, n), lambda t, i: A[t - 1, i] + B[t - 1, i], name="b")
    left, right = te.scan([one, two], [a, b], [A, B], name="pair")
    s = te.create_schedule(left.op)

    def reference(x: Array, y: Array) -> tuple[Array, Array]:
        xs, ys = [x[0]], [y[0]]
        for _ in range(m - 1):
            xs, ys = [*xs, ys[-1] + 1], [*ys, xs[-1] + ys[-1]]
        return np.stack(xs), np.stack(ys)

    return s, [one, two, left, right], reference


def group_inside_a_tile() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    A = te.placeholder((20,), name="A")
    B = te.compute(
        (22,), lambda i: te.if_then_else(te.all(i >= 1, i < 21), A[i - 1], 0.0), name="B"
    )
    C = te.compute((20,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    D = te.compute((20,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(D.op)
    group = s.create_group(outputs=C, inputs=A)
    outer, _ = s[D].split(D.op.axis[0], factor=6)
    group.compute_at(s[D], outer)

    def reference(a: Array) -> Array:
        p = np.pad(a, 1)
        result: Array = (p[:-2] + p[1:-1] + p[2:]) * 2
        return result

    return s, [A, D], reference


def _register(name: str, function: Callable[..., int]) -> str:
    interp.register_extern(name, function)
    return name


def extern_function() -> tuple[Schedule, list[Tensor], Callable[[Array], Array]]:
    def sort(source: Array, target: Array) -> int:
        target[...] = np.sort(source)
        return 0

    name = _register("test_sort", sort)
    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1.0, name="B")
    C = te.extern((9,), [B], lambda i, o: te.call_extern(name, i[0].data, o[0].data), name="C")
    D = te.compute((9,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(D.op)
    s[B].split(B.op.axis[0], factor=4)
    return s, [A, D], lambda a: np.sort(a + 1) * 2


def extern_with_two_outputs() -> tuple[
    Schedule, list[Tensor], Callable[[Array], tuple[Array, Array]]
]:
    def split_signs(source: Array, positive: Array, negative: Array) -> int:
        positive[...] = np.maximum(source, 0)
        negative[...] = np.minimum(source, 0)
        return 0

    name = _register("test_signs", split_signs)
    A = te.placeholder((7,), name="A")
    P, N = te.extern(
        [(7,), (7,)],
        [A],
        lambda i, o: te.call_extern(name, i[0].data, o[0].data, o[1].data),
        name="P",
    )
    s = te.create_schedule(P.op)
    return s, [A, P, N], lambda a: (np.maximum(a, 0), np.minimum(a, 0))


GALLERY = {
    case.__name__: case
    for case in (
        two_maps_at_once,
        cached_outputs,
        argmax_split,
        argmax_cached,
        argmax_rfactor,
        reduction_with_init,
        fibonacci,
        scan_with_an_inner_stage,
        scan_with_a_reduction,
        scan_of_two_states,
        group_inside_a_tile,
        extern_function,
        extern_with_two_outputs,
    )
}


@pytest.mark.parametrize("name", GALLERY)
def test_program(name: str, check: Check) -> None:
    check(*GALLERY[name]())
