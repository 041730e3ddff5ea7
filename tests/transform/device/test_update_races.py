"""Threads that all add to one element of shared memory."""

import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cuda_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.parser import parse_func
from autosched.transform.device.thread_sync import ThreadSync

HEAD = """\
def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
    launch(threadIdx.x, {threads})
    S = allocate((32,), float32, "shared")
"""


@pytest.mark.parametrize(
    "store", ["S[0] = S[0] + A[3]", "for k in range(4):\n        S[k] = S[k] + A[k]"]
)
def test_updates_of_all_threads_are_refused(store: str) -> None:
    func = parse_func(HEAD.format(threads=32) + f"    {store}\n    B[threadIdx.x] = S[0]\n")
    with pytest.raises(ScheduleError, match="all threads of a block add to the same element of S"):
        ThreadSync()(func)


@pytest.mark.parametrize(
    ("store", "threads"),
    [
        ("S[0] = S[0] + A[3]", 1),
        ("S[threadIdx.x] = S[threadIdx.x] + A[3]", 32),
        ("if threadIdx.x == 0:\n        S[0] = S[0] + A[3]", 32),
        ("S[0] = A[3]", 32),
        ("t: int32 = threadIdx.x\n    S[t] = S[t] + A[3]", 32),
    ],
)
def test_others_are_not(store: str, threads: int) -> None:
    func = parse_func(HEAD.format(threads=threads) + f"    {store}\n    B[0] = S[0]\n")
    synced = str(ThreadSync()(func))
    assert store.splitlines()[-1].strip() in synced
    assert ("tvm_storage_sync" in synced) == (threads > 1)


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
    with pytest.raises(ScheduleError, match="bind a loop of its stage to threadIdx"):
        lower(*reduction_in_shared_memory(bound=False), cuda_target())
