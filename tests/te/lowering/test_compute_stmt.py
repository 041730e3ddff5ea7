"""Loops, guards and stores of one stage: the worked examples of the specification."""

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IterVar
from kit.types import Check


def body(s: Schedule, args: list[Tensor]) -> str:
    """The lines of the function after its header."""
    lines = repr(schedule_to_prim_func(s, args)).splitlines()
    return "\n".join(line[4:] for line in lines[2:])


def row_sums(rows: int, columns: int) -> tuple[Tensor, Tensor, Schedule, IterVar, IterVar]:
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    C = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return A, C, te.create_schedule(C.op), C.op.axis[0], k


def test_reduction_is_initialised_inside_the_common_loops() -> None:
    A, C, s, i, k = row_sums(10, 7)
    io, ii = s[C].split(i, factor=4)
    ko, ki = s[C].split(k, factor=3)
    s[C].reorder(io, ko, ii, ki)
    s[C].unroll(ii)
    s[C].pragma(io, "auto_unroll_max_step", 16)
    s[C].pragma(io, "unroll_explicit", 1)
    row, column = "i.inner + i.outer * 4", "k.inner + k.outer * 3"
    assert (
        body(s, [A, C])
        == f"""\
realize(C[0:10], float32, "global")
pragma(i.outer, "auto_unroll_max_step", 16)
pragma(i.outer, "unroll_explicit", 1)
for i.outer in range(3):
    for i.inner.init in unrolled(4):
        if likely(i.inner.init + i.outer * 4 < 10):
            C[i.inner.init + i.outer * 4] = 0.0
    for k.outer in range(3):
        for i.inner in unrolled(4):
            for k.inner in range(3):
                if likely({row} < 10):
                    if likely({column} < 7):
                        C[{row}] = C[{row}] + A[{row}, {column}]"""
    )


def test_guard_of_an_attached_stage_that_sticks_out() -> None:
    A = te.placeholder((20,), name="A")
    P = te.compute(
        (22,), lambda i: te.if_then_else(te.all(i >= 1, i < 21), A[i - 1], 0.0), name="P"
    )
    B = te.compute((20,), lambda i: P[i] + P[i + 1] + P[i + 2], name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(B.op.axis[0], factor=6)
    s[P].compute_at(s[B], outer)
    assert (
        body(s, [A, B])
        == """\
realize(B[0:20], float32, "global")
for i.outer in range(4):
    realize(P[i.outer * 6:i.outer * 6 + 8], float32, "", shape=(22,))
    for i in range(8):
        if likely(i + i.outer * 6 < 22):
            P[i + i.outer * 6] = if_then_else(i + i.outer * 6 >= 1 and i + i.outer * 6 < 21, \
A[i + i.outer * 6 - 1], 0.0)
    for i.inner in range(6):
        if likely(i.inner + i.outer * 6 < 20):
            B[i.inner + i.outer * 6] = P[i.inner + i.outer * 6] + P[i.inner + i.outer * 6 + 1] \
+ P[i.inner + i.outer * 6 + 2]"""
    )


def test_a_loop_of_one_iteration_disappears() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=8)
    assert (
        body(s, [A, B])
        == """\
realize(B[0:3], float32, "global")
for i.inner in range(3):
    B[i.inner] = A[i.inner] + 1.0"""
    )


def test_reduction_with_condition_and_init() -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=te.all(k > i), init=1.0), name="C")
    assert (
        body(te.create_schedule(C.op), [A, C])
        == """\
realize(C[0:4], float32, "global")
for i in range(4):
    C[i] = 1.0
    for k in range(6):
        if k > i:
            C[i] = C[i] + A[i, k]"""
    )


def test_several_outputs_and_store_predicate() -> None:
    A = te.placeholder((4,), name="A")
    B, C = te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    s = te.create_schedule(B.op)
    s[B].set_store_predicate(B.op.axis[0] < 3)
    assert (
        body(s, [A, B, C])
        == """\
realize(B.v0[0:4], float32, "global")
realize(B.v1[0:4], float32, "global")
for i in range(4):
    if i < 3:
        B.v0[i] = A[i] + 1.0
        B.v1[i] = A[i] * 2.0"""
    )


def test_data_axis_inside_a_bound_reduction_is_refused() -> None:
    _, C, s, i, k = row_sums(4, 8)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    s[C].reorder(k, i)
    with pytest.raises(ScheduleError, match="stage C, axis i: a data axis inside"):
        schedule_to_prim_func(s, [C])


def test_what_a_reduction_begins_with_is_read_inside_of_the_axes_alone(check: Check) -> None:
    """Beyond them there may be no memory; a constant is stored anywhere, as in Ansor."""
    A, S = te.placeholder((11, 7), name="A"), te.placeholder((11,), name="S")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((11,), lambda i: te.sum(A[i, k], axis=k, init=S[10 - i]), name="C")
    D = te.compute((11,), lambda i: C[i] * 2.0, name="D")
    for factor in (4, 6):
        s = te.create_schedule(D.op)
        outer, _ = s[D].split(D.op.axis[0], factor=factor)
        s[C].compute_at(s[D], outer)
        assert "if likely(i + i.outer" in body(s, [A, S, D]).split("C[i + i.outer")[0]
        check(s, [A, S, D], lambda a, s: 2 * (a.sum(1) + s[::-1]))
