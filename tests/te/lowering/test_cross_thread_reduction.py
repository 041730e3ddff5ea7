"""Reductions bound to threads."""

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from kit.te import compute_of
from kit.types import Check


def row_sums(rows: int, columns: int, **options: float) -> tuple[Tensor, Tensor, Schedule]:
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    C = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k, **options), name="C")
    return A, C, te.create_schedule(C.op)


def test_worked_example() -> None:
    A, C, s = row_sums(4, 100)
    _, ki = s[C].split(compute_of(C).reduce_axis[0], factor=32)
    s[C].bind(compute_of(C).axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(ki, te.thread_axis("threadIdx.x"))
    column = "threadIdx.x + k.outer * 32"
    assert repr(schedule_to_prim_func(s, [A, C])).splitlines()[2:] == [
        "    " + line
        for line in f"""\
realize(C[0:4], float32, "global")
launch(blockIdx.x, 4)
launch(threadIdx.x, 32)
normal_reduce_temp0 = allocate((1,), float32, "local")
reduce_temp0 = allocate((1,), float32, "local")
normal_reduce_temp0[0] = 0.0
for k.outer in range(4):
    if {column} < 100:
        normal_reduce_temp0[0] = normal_reduce_temp0[0] + A[blockIdx.x, {column}]
with attr(reducer("sum", [x: float32], [y: float32], [x + y], [0.0]), "reduce_scope", 0):
    tvm_thread_allreduce(uint32(1), normal_reduce_temp0[0], True, reduce_temp0[0], threadIdx.x)
if threadIdx.x == 0:
    C[blockIdx.x] = reduce_temp0[0]""".splitlines()
    ]


def test_without_loops_of_its_own_the_source_is_reduced_directly() -> None:
    A, C, s = row_sums(4, 32)
    s[C].bind(compute_of(C).reduce_axis[0], te.thread_axis("threadIdx.x"))
    text = repr(schedule_to_prim_func(s, [A, C]))
    assert "tvm_thread_allreduce(uint32(1), A[i, threadIdx.x], True, reduce_temp0[0]" in text
    assert "normal_reduce_temp" not in text


def test_two_bound_loops_store_from_the_first_thread(check: Check) -> None:
    A, C, s = row_sums(5, 24)
    _, ki = s[C].split(compute_of(C).reduce_axis[0], factor=12)
    ko, ki = s[C].split(ki, factor=4)
    s[C].bind(ko, te.thread_axis("threadIdx.y"))
    s[C].bind(ki, te.thread_axis("threadIdx.x"))
    text = repr(schedule_to_prim_func(s, [A, C]))
    assert text.index("if threadIdx.y == 0") < text.index("if threadIdx.x == 0")
    check(s, [A, C], lambda a: a.sum(1))


def test_guards_on_data_axes_are_kept(check: Check) -> None:
    A, C, s = row_sums(5, 8)
    io, _ = s[C].split(compute_of(C).axis[0], factor=2)
    s[C].bind(io, te.thread_axis("blockIdx.x"))
    s[C].bind(compute_of(C).reduce_axis[0], te.thread_axis("threadIdx.x"))
    check(s, [A, C], lambda a: a.sum(1))


def test_condition_of_the_reduction_guards_the_accumulation(check: Check) -> None:
    A = te.placeholder((3, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, where=k > 2), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    check(s, [A, C], lambda a: a[:, 3:].sum(1))


def test_init_is_refused() -> None:
    _, C, s = row_sums(4, 8, init=1.0)
    s[C].bind(compute_of(C).reduce_axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="stage C: a reduction with init"):
        schedule_to_prim_func(s, [C])


def test_a_condition_that_never_holds(check: Check) -> None:
    A = te.placeholder((3, 5), name="A")
    k = te.reduce_axis((4, 5), "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, where=k < 4), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    check(s, [A, C], lambda a: np.zeros(3))


@pytest.mark.parametrize("threads", [1, 4, 12, 64])
def test_virtual_threads_have_results_of_their_own(threads: int, check: Check) -> None:
    A, C, s = row_sums(5, threads)
    s[C].bind(compute_of(C).axis[0], te.thread_axis("vthread"))
    s[C].bind(compute_of(C).reduce_axis[0], te.thread_axis("threadIdx.x"))
    check(s, [A, C], lambda a: a.sum(1))


@pytest.mark.parametrize("tag", ["blockIdx.x", "vthread"])
def test_other_threads_than_those_of_a_block_are_refused(tag: str) -> None:
    A, C, s = row_sums(4, 8)
    s[C].bind(compute_of(C).reduce_axis[0], te.thread_axis(tag))
    with pytest.raises(ScheduleError, match=f"C, axis k bound to {tag}: a reduction is shared by"):
        schedule_to_prim_func(s, [A, C])


def test_threads_of_data_and_reduction_axes_in_one_are_refused() -> None:
    A, C, s = row_sums(4, 8)
    fused = s[C].fuse(compute_of(C).axis[0], compute_of(C).reduce_axis[0])
    _, inner = s[C].split(fused, factor=2)
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="C, axis i: it is fused with a reduction axis bound"):
        schedule_to_prim_func(s, [A, C])


@pytest.mark.parametrize("scope", ["", "local", "shared"])
@pytest.mark.parametrize("place", ["serial", "thread"])
@pytest.mark.parametrize("factor", [1, 3, 8])
def test_a_stage_computed_inside_of_the_loops(
    check: Check, place: str, scope: str, factor: int
) -> None:
    """Bounds took the serial loop to be around the threads, inside of which it is run.

    What is computed at the loop of the threads mentioned a variable that is not there.
    """
    A = te.placeholder((5, 7), name="A")
    D = te.compute((5, 7), lambda i, j: A[i, j] * 2.0, name="D")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((5,), lambda i: te.sum(D[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    serial, inner = s[C].split(k, factor=factor)
    s[C].bind(compute_of(C).axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    s[D].set_scope(scope)
    s[D].compute_at(s[C], serial if place == "serial" else inner)
    check(s, [A, C], lambda a: a.sum(1) * 2)
