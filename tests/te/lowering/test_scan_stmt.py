"""Scans: the time loop, its init and update stages, and the threads around them."""

import numpy as np

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from kit.te import compute_of
from kit.types import Array, Check


def running_sum(m: int = 6, n: int = 8) -> tuple[Tensor, ...]:
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    return X, init, update, total


def test_init_before_the_time_loop(check: Check) -> None:
    X, _, update, total = running_sum()
    s = te.create_schedule(total.op)
    s[update].split(compute_of(update).axis[1], factor=4)
    text = repr(schedule_to_prim_func(s, [X, total]))
    assert text.index("total[0, i] = X[0, i]") < text.index("for total.idx in range(5)")
    assert text.count("realize(") == 1
    check(s, [X, total], lambda x: x.cumsum(0))


def test_environment_threads_are_opened_once(check: Check) -> None:
    X, init, update, total = running_sum()
    s = te.create_schedule(total.op)
    threads = te.thread_axis((0, 8), "threadIdx.x")
    s[total].env_threads([threads])
    s[init].bind(compute_of(init).axis[1], threads)
    s[update].bind(compute_of(update).axis[1], threads)
    assert repr(schedule_to_prim_func(s, [X, total])).count("launch(") == 1
    check(s, [X, total], lambda x: x.cumsum(0))


def test_two_stages_in_a_step(check: Check) -> None:
    m, n = 5, 4
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    half = te.compute((m, n), lambda t, i: state[t - 1, i] * 0.5, name="half")
    update = te.compute((m, n), lambda t, i: half[t, i] + X[t, i], name="update")
    out = te.scan(init, update, state, [X], name="out")
    double = te.compute((m, n), lambda t, i: out[t, i] * 2.0, name="double")
    s = te.create_schedule(double.op)

    def reference(x: Array) -> Array:
        rows = [x[0]]
        for row in x[1:]:
            rows.append(rows[-1] * 0.5 + row)
        return np.stack(rows) * 2

    check(s, [X, double], reference)


def test_first_steps_of_which_only_some_are_read(check: Check) -> None:
    m, n = 6, 5
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    init = te.compute((3, n), lambda t, i: X[t, i] * 2.0, name="init")
    update = te.compute((m, n), lambda t, i: state[t - 3, i] + X[t, i], name="update")
    scan = te.scan(init, update, state, [X], name="scan")
    first = te.compute((n,), lambda i: scan[0, i] + 1.0, name="first")
    s = te.create_schedule(first.op)
    assert "realize(scan[0:3, 0:5]" in repr(schedule_to_prim_func(s, [X, first]))
    check(s, [X, first], lambda x: x[0] * 2 + 1)


def test_first_steps_are_those_of_the_part_that_is_computed(check: Check) -> None:
    """They were all of the axis, beside a buffer of a part of it: the kernel wrote out of it."""
    m, n = 6, 16
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    doubled = te.compute((1, n), lambda _, i: X[0, i] * 2.0, name="doubled")
    init = te.compute((1, n), lambda t, i: doubled[t, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    more = te.compute((m, n), lambda t, i: total[t, i] + 1.0, name="more")
    s = te.create_schedule(more.op)
    time, axis = compute_of(more).axis
    outer, inner = s[more].split(axis, factor=8)
    s[more].reorder(outer, time, inner)
    s[total].compute_at(s[more], outer)
    s[doubled].compute_at(s[init], compute_of(init).axis[1])
    text = repr(schedule_to_prim_func(s, [X, more]))
    assert "realize(total[0:6, i.outer * 8:i.outer * 8 + 8]" in text
    assert "total[0, i + i.outer * 8] = doubled[0, i + i.outer * 8]" in text
    assert "realize(doubled[0:1, i.outer * 8 + i:i.outer * 8 + i + 1]" in text

    def reference(x: Array) -> Array:
        total = x.cumsum(0)
        return total + x[:1] + 1

    check(s, [X, more], reference)


def test_first_steps_in_shared_memory_are_those_of_the_block(check: Check) -> None:
    X, init, update, total = running_sum(6, 16)
    more = te.compute((6, 16), lambda t, i: total[t, i] + 1.0, name="more")
    s = te.create_schedule(more.op)
    time, axis = compute_of(more).axis
    outer, inner = s[more].split(axis, factor=8)
    s[more].reorder(outer, time, inner)
    s[more].bind(outer, te.thread_axis("blockIdx.x"))
    s[more].bind(inner, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[more], outer)
    s[total].set_scope("shared")
    for stage in (init, update):
        s[stage].bind(compute_of(stage).axis[1], te.thread_axis("threadIdx.x"))
    check(s, [X, more], lambda x: x.cumsum(0) + 1)


def test_fewer_steps_are_read_than_there_are_first_ones(check: Check) -> None:
    """Of two first steps memory for one was made where the reader is at its first step."""
    m, n = 5, 3
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    init = te.compute((2, n), lambda t, i: X[t, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 2, i] + X[t, i], name="update")
    scan = te.scan(init, update, state, [X], name="scan")
    more = te.compute((m, n), lambda t, i: scan[t, i] + 1.0, name="more")
    s = te.create_schedule(more.op)
    s[scan].compute_at(s[more], compute_of(more).axis[0])
    text = repr(schedule_to_prim_func(s, [X, more]))
    assert "realize(scan[0:max(t - 1, 0) + 2" in text

    def reference(x: Array) -> Array:
        rows = [x[0], x[1]]
        for row in x[2:]:
            rows.append(rows[-2] + row)
        return np.stack(rows) + 1

    check(s, [X, more], reference)
