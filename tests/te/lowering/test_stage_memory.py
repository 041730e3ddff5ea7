"""The memory of a stage that names none."""

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.referee.device_pipeline import DEVICE_PASSES
from autosched.te.lowering.stage_memory import filled_rank, realized_scope
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.transform.framework.passes import Sequential
from kit.te import compute_of


def _two_levels(first: str, second: str) -> tuple[Schedule, Tensor, Tensor, Tensor]:
    """C computed in the inner one of two loops of D, which are bound to the tags."""
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] * 2.0, name="C")
    D = te.compute((64,), lambda i: C[i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[D].split(compute_of(D).axis[0], nparts=4)
    if first:
        s[D].bind(outer, te.thread_axis(first))
    if second:
        s[D].bind(inner, te.thread_axis(second))
    s[C].compute_at(s[D], inner)
    return s, A, C, D


@pytest.mark.parametrize(
    ("first", "second", "rank", "scope"),
    [
        ("", "", 0, ""),
        ("blockIdx.x", "", 1, ""),
        ("blockIdx.x", "threadIdx.x", 3, ""),
        ("blockIdx.x", "vthread", 1, ""),
        ("threadIdx.x", "blockIdx.x", 3, "local"),
    ],
)
def test_memory_follows_from_the_real_threads_around(
    first: str, second: str, rank: int, scope: str
) -> None:
    s, _, C, _ = _two_levels(first, second)
    assert (filled_rank(s[C]), realized_scope(s[C])) == (rank, scope)
    s[C].set_scope("warp")
    assert (filled_rank(s[C]), realized_scope(s[C])) == (2, "warp")


def test_a_block_inside_of_threads_leaves_each_thread_its_memory() -> None:
    s, A, _, D = _two_levels("threadIdx.x", "blockIdx.x")
    func = Sequential(DEVICE_PASSES)(schedule_to_prim_func(s, [A, D]))
    a, d = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    interp.run(func, [a, d], check_races=True)
    np.testing.assert_array_equal(d, a * 2 + 1)


def _rows(scope: str, around: str) -> tuple[Schedule, Tensor, Tensor]:
    """The rows of A less their sums, which threads add up inside of a loop bound to `around`."""
    A = te.placeholder((8, 45), name="A")
    k = te.reduce_axis((0, 45), "k")
    M = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="M")
    D = te.compute((8, 45), lambda i, j: A[i, j] - M[i], name="D")
    s = te.create_schedule(D.op)
    block, i = s[D].split(compute_of(D).axis[0], factor=4)
    y, _ = s[D].split(i, nparts=2)
    _, x = s[D].split(compute_of(D).axis[1], factor=16)
    s[D].bind(block, te.thread_axis("blockIdx.x"))
    s[D].bind(y, te.thread_axis(around))
    s[D].bind(x, te.thread_axis("threadIdx.x"))
    s[M].compute_at(s[D], y)
    s[M].set_scope(scope)
    s[M].bind(s[M].split(k, factor=16)[1], te.thread_axis("threadIdx.x"))
    return s, A, D


def test_threads_do_not_fill_memory_that_is_local_because_of_where_it_is() -> None:
    s, A, D = _rows("", "threadIdx.y")
    message = r"stage M, axis k\.inner bound to threadIdx\.x: its 16 iterations would fill local"
    with pytest.raises(ScheduleError, match=message + ".*set one that these threads share"):
        schedule_to_prim_func(s, [A, D])


def test_a_map_in_threads_does_not_use_them_again() -> None:
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] * 2.0, name="C")
    D = te.compute((64,), lambda i: C[i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    thread, _ = s[D].split(compute_of(D).axis[0], factor=4)
    s[D].bind(thread, te.thread_axis("threadIdx.x"))
    s[C].compute_at(s[D], thread)
    s[C].bind(compute_of(C).axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"stage C, axis i bound to threadIdx\.x: its 4 iter"):
        schedule_to_prim_func(s, [A, D])


@pytest.mark.parametrize(("scope", "around"), [("shared", "threadIdx.y"), ("", "vthread")])
def test_threads_fill_together_what_they_share(scope: str, around: str) -> None:
    s, A, D = _rows(scope, around)
    func = Sequential(DEVICE_PASSES)(schedule_to_prim_func(s, [A, D]))
    a = np.random.default_rng(0).integers(-4, 5, (8, 45)).astype("float32")
    d = np.zeros_like(a)
    interp.run(func, [a, d], check_races=True)
    np.testing.assert_array_equal(d, a - a.sum(1, keepdims=True))


def test_the_update_of_a_scan_fills_the_memory_of_the_scan() -> None:
    X = te.placeholder((8, 32), name="X")
    state = te.placeholder((8, 32), name="state")
    init = te.compute((1, 32), lambda _, i: X[0, i], name="init")
    update = te.compute((8, 32), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    s[total].env_threads(te.thread_axis((0, 32), "threadIdx.x"))
    assert filled_rank(s[update]) == 0
