"""Threads that all add to one element of shared or global memory."""

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cuda_target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.parser import parse_func
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import GPU_PIPELINE

HEAD = """\
def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
    launch(threadIdx.x, {threads})
    S = allocate((32,), float32, "shared")
"""


@pytest.mark.parametrize(
    "store",
    [
        "S[0] = S[0] + A[3]",
        "for k in range(4):\n        S[k] = S[k] + A[k]",
        # What all threads read alike does not keep them apart.
        "if A[3] > 0.0:\n        S[0] = S[0] + A[3]",
        "if S[1] > 0.0:\n        S[0] = S[0] + A[3]",
        "for k in range(int32(A[3])):\n        S[0] = S[0] + A[k]",
        "S[int32(A[3])] = S[int32(A[3])] + A[3]",
        "S[threadIdx.x] = A[threadIdx.x]\n    if S[1] > 0.0:\n        S[0] = S[0] + A[3]",
    ],
)
def test_updates_of_all_threads_are_refused(store: str) -> None:
    func = parse_func(HEAD.format(threads=32) + f"    {store}\n    B[threadIdx.x] = S[0]\n")
    with pytest.raises(
        ScheduleError, match=r"all threads along threadIdx.x add to the same element of S"
    ):
        ThreadSync()(func)


@pytest.mark.parametrize(
    ("store", "threads"),
    [
        ("S[0] = S[0] + A[3]", 1),
        ("S[threadIdx.x] = S[threadIdx.x] + A[3]", 32),
        ("if threadIdx.x == 0:\n        S[0] = S[0] + A[3]", 32),
        ("if A[threadIdx.x] > 0.0:\n        S[0] = S[0] + A[3]", 32),
        ("S[0] = A[3]", 32),
        ("t: int32 = threadIdx.x\n    S[t] = S[t] + A[3]", 32),
    ],
)
def test_others_are_not(store: str, threads: int) -> None:
    func = parse_func(HEAD.format(threads=threads) + f"    {store}\n    B[0] = S[0]\n")
    synced = str(ThreadSync()(func))
    assert store.splitlines()[-1].strip() in synced
    assert ("tvm_storage_sync" in synced) == (threads > 1)


REGISTERS = """\
def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
    launch(threadIdx.x, 32)
    S = allocate((32,), float32, "shared")
    L = allocate((4,), float32, "local")
    M = allocate((4,), float32, "local")
    {fill}
    M[0] = L[1] + 1.0
    if M[0] > 0.0:
        S[0] = S[0] + A[3]
    B[threadIdx.x] = S[0]
"""


@pytest.mark.parametrize(
    "fill",
    [
        "L[1] = A[3]",
        "for k in range(4):\n        L[k] = S[k]",
        "if A[2] > 0.0:\n        L[1] = 2.0\n    L[0] = L[1]",
    ],
)
def test_what_each_thread_has_for_itself_may_be_the_same_for_all(fill: str) -> None:
    """A condition on such memory was taken to keep threads apart."""
    func = parse_func(REGISTERS.format(fill=fill))
    with pytest.raises(ScheduleError, match=r"all threads along threadIdx.x add to the same elem"):
        ThreadSync()(func)


@pytest.mark.parametrize(
    "fill",
    [
        "L[1] = A[threadIdx.x]",
        "L[1] = 0.0\n    if threadIdx.x == 0:\n        L[1] = 1.0",
        "t: int32 = threadIdx.x\n    L[1] = float32(t)",
        "for k in range(threadIdx.x):\n        L[1] = A[k]",
        "L[threadIdx.x] = 1.0",
        'L[1] = 0.0\n    call_extern("load", address_of(L[1]))',
    ],
)
def test_what_each_thread_has_for_itself_may_differ(fill: str) -> None:
    synced = str(ThreadSync()(parse_func(REGISTERS.format(fill=fill))))
    assert "S[0] = S[0] + A[3]" in synced and "tvm_storage_sync" in synced


def guarded_by_registers(largest: bool) -> tuple[Schedule, list[Tensor]]:
    """A reduction whose `where` reads a flag that each thread computes for itself."""
    A = te.placeholder((8, 9), name="A")
    F = te.compute((1,), lambda i: A[0, i], name="F")
    k = te.reduce_axis((0, 9), "k")
    reduce = te.max if largest else te.sum
    S = te.compute((8,), lambda i: reduce(A[i, k], axis=k, where=F[0] > 0.0), name="S")
    B = te.compute((8,), lambda i: S[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    for stage, scope in ((s[S], "shared"), (s[F], "local")):
        stage.set_scope(scope)
        stage.compute_at(s[B], outer)
    return s, [A, B]


@pytest.mark.parametrize("largest", [True, False])
def test_a_condition_on_registers_from_a_schedule(largest: bool) -> None:
    """It was lowered, and the interpreter found the race."""
    with pytest.raises(ScheduleError, match=r"bind a loop of its stage to threadIdx.x"):
        lower(*guarded_by_registers(largest), cuda_target())


def reduction_in_shared_memory(bound: bool) -> tuple[Schedule, list[Tensor]]:
    A = te.placeholder((64, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    S = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="S")
    B = te.compute((64,), lambda i: S[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[S].set_scope("shared")
    s[S].compute_at(s[B], outer)
    if bound:
        s[S].bind(S.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [A, B]


def test_from_a_schedule() -> None:
    lower(*reduction_in_shared_memory(bound=True), cuda_target())
    with pytest.raises(ScheduleError, match=r"bind a loop of its stage to threadIdx.x"):
        lower(*reduction_in_shared_memory(bound=False), cuda_target())


GRID = """\
def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
    launch(blockIdx.x, 4)
    launch(threadIdx.x, 8)
    launch(threadIdx.y, 8)
    S = allocate((256,), float32, "{scope}")
    {store}
"""
PLACE = "blockIdx.x * 64 + threadIdx.y * 8 + threadIdx.x"
WITHOUT_Y = "blockIdx.x * 8 + threadIdx.x"


@pytest.mark.parametrize(
    ("scope", "index", "missed"),
    [
        ("global", WITHOUT_Y, "threadIdx.y"),
        ("global", "blockIdx.x * 8 + threadIdx.y", "threadIdx.x"),
        ("global", "threadIdx.y * 8 + threadIdx.x", "blockIdx.x"),
        ("global", "blockIdx.x", "threadIdx.x and threadIdx.y"),
        ("shared", WITHOUT_Y, "threadIdx.y"),
    ],
)
def test_an_axis_that_the_index_misses(scope: str, index: str, missed: str) -> None:
    name = "B" if scope == "global" else "S"
    store = f"{name}[{index}] = {name}[{index}] + A[0]"
    message = f"all threads along {missed} add to the same element of {name} in {scope} memory"
    with pytest.raises(ScheduleError, match=f"{message}; bind a loop of its stage to {missed}$"):
        ThreadSync()(parse_func(GRID.format(scope="shared", store=store)))


@pytest.mark.parametrize(
    "store",
    [
        f"B[{PLACE}] = B[{PLACE}] + A[0]",
        f"if threadIdx.y == 0:\n        B[{WITHOUT_Y}] = B[{WITHOUT_Y}] + A[0]",
        f"t: bool = threadIdx.y == 0\n    if t:\n        B[{WITHOUT_Y}] = B[{WITHOUT_Y}] + A[0]",
        f"if A[threadIdx.y] < 1.0:\n        B[{WITHOUT_Y}] = B[{WITHOUT_Y}] + A[0]",
        f"for k in range(threadIdx.y):\n        B[{WITHOUT_Y}] = B[{WITHOUT_Y}] + A[k]",
        f"B[{WITHOUT_Y}] = A[{WITHOUT_Y}]",  # equal values
        "S[threadIdx.y * 8 + threadIdx.x] = S[threadIdx.y * 8 + threadIdx.x] + A[0]",
    ],
)
def test_updates_that_do_not_meet(store: str) -> None:
    func = parse_func(GRID.format(scope="shared", store=store))
    assert ThreadSync()(func) is func


def test_each_warp_has_its_memory() -> None:
    store = "S[threadIdx.x] = S[threadIdx.x] + A[0]"
    func = parse_func(GRID.format(scope="warp", store=store))
    assert ThreadSync("warp")(func) is func
    with pytest.raises(ScheduleError, match=r"threadIdx.x and threadIdx.y add .* in warp memory"):
        ThreadSync("warp")(parse_func(GRID.format(scope="warp", store="S[0] = S[0] + A[0]")))


def fetched_by_more_threads(bind_c: bool, rows: bool = False) -> tuple[Schedule, list[Tensor]]:
    """C's operand is fetched by a block of 4 x 8 threads; C itself is bound to x or none of them.

    With `rows`, to both: each computes its own four rows.
    """
    A = te.placeholder((16, 16), name="A")
    B = te.placeholder((16, 8), name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    fetched = s.cache_read(B, "shared", [C])
    i, j = C.op.axis
    if rows:
        i, inner = s[C].split(i, factor=4)
        s[C].bind(inner, te.thread_axis("threadIdx.y"))
    s[C].bind(i, te.thread_axis("blockIdx.x"))
    if bind_c:
        s[C].bind(j, te.thread_axis("threadIdx.x"))
    outer, rest = s[C].split(k, factor=4)
    if not bind_c:
        s[C].reorder(outer, j, rest)
    s[fetched].compute_at(s[C], outer)
    y, x = s[fetched].leaf_iter_vars
    s[fetched].bind(y, te.thread_axis("threadIdx.y"))
    s[fetched].bind(x, te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


@pytest.mark.parametrize(
    ("bind_c", "missed"), [(True, "threadIdx.y"), (False, "threadIdx.x and threadIdx.y")]
)
def test_a_stage_bound_to_fewer_threads_than_what_it_reads(bind_c: bool, missed: str) -> None:
    message = f"all threads along {missed} add to the same element of C in global memory"
    with pytest.raises(ScheduleError, match=message):
        lower(*fetched_by_more_threads(bind_c), cuda_target())


def test_a_stage_bound_to_all_of_them() -> None:
    s, args = fetched_by_more_threads(bind_c=True, rows=True)
    kernel = Sequential(GPU_PIPELINE)(schedule_to_prim_func(s, args))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (16, n)).astype(np.float32) for n in (16, 8))
    c = np.zeros((16, 8), np.float32)
    interp.run(kernel, [a, b, c], check_races=True)
    np.testing.assert_array_equal(c, a @ b)
