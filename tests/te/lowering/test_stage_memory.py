"""The memory of a stage that names none."""

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.referee.device_pipeline import DEVICE_PASSES
from autosched.te.lowering.stage_memory import filled_rank, realized_scope
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.transform.framework.passes import Sequential
from kit.te import compute_of
from kit.types import Check


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
    assert (filled_rank(s[C], {}), realized_scope(s[C], {})) == (rank, scope)
    s[C].set_scope("warp")
    assert (filled_rank(s[C], {}), realized_scope(s[C], {})) == (2, "warp")


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
    assert filled_rank(s[update], {}) == 0
    assert filled_rank(s[init], {init.op: s[total]}) == 0


def test_what_first_steps_read_is_inside_of_the_scan_s_threads() -> None:
    """Each thread stored one element of its own memory and read all three."""
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    part = te.compute((3,), lambda i: X[0, i] * 2, name="part")
    init = te.compute((1, 3), lambda _, i: part[2 - i], name="init")
    update = te.compute((4, 3), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    threads = te.thread_axis((0, 3), "threadIdx.x")
    s[total].env_threads(threads)
    s[part].compute_at(s[init], compute_of(init).axis[0])
    s[part].bind(compute_of(part).axis[0], threads)
    message = "stage part, axis i.* local, inside of blocks shared: set one that these threads"
    with pytest.raises(ScheduleError, match=message):
        schedule_to_prim_func(s, [X, total])
    s[part].set_scope("shared")
    func = Sequential(DEVICE_PASSES)(schedule_to_prim_func(s, [X, total]))
    x = np.random.default_rng(0).integers(-4, 5, (4, 3)).astype("float32")
    found = np.zeros_like(x)
    interp.run(func, [x, found], check_races=True)
    np.testing.assert_array_equal(found, np.cumsum([2 * x[0, ::-1], *x[1:]], axis=0))


@pytest.mark.parametrize("how", ["set_scope", "cache_read", "cache_write"])
@pytest.mark.parametrize("loop", [0, 1])
def test_threads_do_not_all_fill_global_memory(how: str, loop: int) -> None:
    """Each stored all elements of what no kernel could allocate."""
    s, A, C, D = _two_levels("blockIdx.x", "threadIdx.x")
    name, stage = "C", s[C]
    if how == "set_scope":
        s[C].set_scope("global")
    elif how == "cache_read":
        name, stage = "A.global", s[s.cache_read(A, "global", [C])]
    else:
        name, stage = "C.global", s[s.cache_write(C, "global")]
    at = s[D].leaf_iter_vars[loop]
    stage.compute_at(s[D], at)
    threads = ["blockIdx.x", "blockIdx.x and threadIdx.x"][loop]
    message = (
        rf"schedule_ops: stage {name} is set to global memory and computed inside of {threads}: "
        r"all of these threads .* shared or local .* or compute it outside of the threads"
    )
    with pytest.raises(ScheduleError, match=message):
        schedule_to_prim_func(s, [A, D])


def _scan(scope: str) -> tuple[Schedule, Tensor, Tensor]:
    """Running sums on threads, a copy of a row of X in each step."""
    X, state = te.placeholder((4, 8), name="X"), te.placeholder((4, 8), name="state")
    init = te.compute((1, 8), lambda _, i: X[0, i], name="init")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    threads = te.thread_axis((0, 8), "threadIdx.x")
    s[total].env_threads(threads)
    for tensor in (init, update):
        s[tensor].bind(compute_of(tensor).axis[1], threads)
    copy = s.cache_read(X, scope, [update])
    assert isinstance(total.op, ScanOp)
    s[copy].compute_at(s[total], total.op.scan_axis)
    return s, X, total


def test_the_threads_of_a_scan_do_not_all_fill_global_memory() -> None:
    s, X, total = _scan("global")
    with pytest.raises(
        ScheduleError, match=r"stage X\.global is set to .* inside of threadIdx\.x:"
    ):
        schedule_to_prim_func(s, [X, total])


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_step_of_a_scan_reads_memory_that_a_kernel_has(scope: str) -> None:
    s, X, total = _scan(scope)
    func = Sequential(DEVICE_PASSES)(schedule_to_prim_func(s, [X, total]))
    x = np.random.default_rng(0).integers(-4, 5, (4, 8)).astype("float32")
    found = np.zeros_like(x)
    interp.run(func, [x, found], check_races=True)
    np.testing.assert_array_equal(found, x.cumsum(0))


def test_global_memory_outside_of_the_threads(check: Check) -> None:
    s, A, C, D = _two_levels("", "threadIdx.x")
    s[C].set_scope("global")
    s[C].compute_at(s[D], s[D].leaf_iter_vars[0])
    s[C].bind(compute_of(C).axis[0], te.thread_axis("threadIdx.x"))
    check(s, [A, D], lambda a: a * 2 + 1)
