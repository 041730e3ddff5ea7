"""What a watched run reports, with the statement and the thread, and what it lets pass."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import (
    AlignmentError,
    BarrierError,
    CopyError,
    InterpreterError,
    TooLargeError,
    UninitialisedError,
)
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text

Array = np.ndarray[Any, Any]

HEAD = "def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):\n"
SYNC = 'tvm_storage_sync("shared")\n'


def function(body: str, threads: int = 64, blocks: int = 2) -> PrimFunc:
    """A kernel with shared memory S of 128 and local memory L of 4 elements."""
    start = f"launch(blockIdx.x, {blocks})\nlaunch(threadIdx.x, {threads})\n"
    memory = 'S = allocate((128,), float32, "shared")\nL = allocate((4,), float32, "local")\n'
    return parse_func(HEAD + textwrap.indent(start + memory + textwrap.dedent(body), "    "))


def run(func: PrimFunc, **options: Any) -> tuple[Array, Watch]:
    """B and the watch after a run in which A counts and B means nothing."""
    watch = Watch(outputs={"B"}, **options)
    a, b = np.arange(256, dtype=np.float32), np.full(256, -9, np.float32)
    interp.run(func, [a, b], watch=watch)
    return b, watch


def refused(func: PrimFunc, kind: type[InterpreterError], **options: Any) -> InterpreterError:
    with pytest.raises(kind) as caught:
        run(func, **options)
    return caught.value


def statement(error: InterpreterError) -> str:
    assert error.stmt is not None
    return to_text(error.stmt).strip()


# -- reads of what nothing has written


def test_reading_shared_memory_that_a_mask_left_out() -> None:
    body = f"""\
    if threadIdx.x < 63:
        S[threadIdx.x] = A[threadIdx.x]
    {SYNC}
    B[blockIdx.x * 64 + threadIdx.x] = S[63 - threadIdx.x] * 0.0
    """
    error = refused(function(body), UninitialisedError)
    assert str(error).startswith("S[63] (flat index) is read, but nothing was written there")
    assert error.where == "thread 0 of block 0"
    assert statement(error).startswith("B[")


def test_reading_a_local_element_before_its_first_store() -> None:
    body = """\
    for k in range(2):
        L[1] = L[1] + A[threadIdx.x]
    B[blockIdx.x * 64 + threadIdx.x] = L[1]
    """
    error = refused(function(body), UninitialisedError)
    assert "L[1] is read" in str(error)
    assert statement(error).startswith("L[1] = L[1]")
    init = "    L[1] = 0.0\n" + body
    assert run(function(init))[0][5] == 10


def test_a_local_element_that_only_some_threads_wrote() -> None:
    body = """\
    if threadIdx.x != 7:
        L[2] = 1.0
    if {condition}:
        B[blockIdx.x * 64 + threadIdx.x] = L[2]
    """
    error = refused(function(body.format(condition="threadIdx.x < 9")), UninitialisedError)
    assert error.where == "thread 7 of block 0"
    run(function(body.format(condition="threadIdx.x < 7")))


def test_outputs_mean_nothing_before_they_are_written() -> None:
    at = "blockIdx.x * 64 + threadIdx.x"
    error = refused(function(f"B[{at}] = B[{at}] + 1.0\n"), UninitialisedError)
    assert "B[0]" in str(error)


def test_memory_is_fresh_in_every_step_that_allocates_it() -> None:
    body = """\
    for k in range(2):
        T = allocate((1,), float32, "local")
        if k == 0:
            T[0] = 1.0
        B[blockIdx.x * 64 + threadIdx.x] = T[0]
    """
    assert "T[0] is read" in str(refused(function(body), UninitialisedError))


# -- races


def test_threads_of_one_block_race_in_global_memory_until_a_barrier() -> None:
    body = """\
    B[blockIdx.x * 64 + threadIdx.x] = A[threadIdx.x]
    {between}
    L[0] = B[blockIdx.x * 64 + 63 - threadIdx.x]
    """
    error = refused(function(body.format(between="L[1] = 0.0")), interp.RaceError)
    assert "read by thread 0 of block 0, written by thread 63 of block 0" in str(error)
    run(function(body.format(between=SYNC)))


def test_blocks_are_never_ordered() -> None:
    body = f"""\
    B[blockIdx.x * 64 + threadIdx.x] = A[threadIdx.x]
    {SYNC}
    L[0] = B[threadIdx.x]
    """
    error = refused(function(body), interp.RaceError)
    assert "read by thread 0 of block 1, written by thread 0 of block 0" in str(error)
    run(function(body, blocks=1))


@pytest.mark.parametrize("threads", [64, 1024])
def test_two_blocks_write_one_element(threads: int) -> None:
    """In one go of the interpreter, and far apart: many blocks run in parts."""
    body = "B[threadIdx.x % 64] = 1.0\n"
    run(function(body, threads=64, blocks=1))
    error = refused(function(body, threads, blocks=2 if threads == 64 else 60), interp.RaceError)
    assert "of block" in str(error) and statement(error).startswith("B[")


def test_reads_of_several_threads_are_remembered() -> None:
    """The first and the last reader of an element are not the only ones."""
    body = """\
    S[threadIdx.x] = A[threadIdx.x]
    {sync}
    L[0] = S[threadIdx.x // 4]
    {between}
    if threadIdx.x == {writer}:
        S[0] = 1.0
    """
    for writer in range(4):
        func = function(body.format(sync=SYNC, between="L[1] = 0.0", writer=writer))
        error = refused(func, interp.RaceError)
        assert "written by thread" in str(error) and "read by several threads" in str(error)
    run(function(body.format(sync=SYNC, between=SYNC, writer=2)))


def test_a_barrier_of_one_block_orders_no_other() -> None:
    body = f"""\
    S[threadIdx.x] = A[threadIdx.x]
    if blockIdx.x == 0:
        {SYNC.strip()}
    B[blockIdx.x * 64 + threadIdx.x] = S[63 - threadIdx.x]
    """
    error = refused(function(body), interp.RaceError)
    assert "thread 0 of block 1" in str(error)


def test_warp_memory_needs_barriers_of_the_warp() -> None:
    body = """\
    W = allocate((32,), float32, "warp")
    W[threadIdx.x % 32] = A[threadIdx.x]
    {between}
    B[blockIdx.x * 64 + threadIdx.x] = W[31 - threadIdx.x % 32]
    """
    refused(function(body.format(between="L[1] = 0.0")), interp.RaceError)
    found, _ = run(function(body.format(between='tvm_storage_sync("warp")')))
    assert found[33] == 62


@pytest.mark.parametrize("scope", ["warp", "shared"])
def test_a_barrier_of_the_warp_is_one_for_what_several_of_its_threads_wrote(scope: str) -> None:
    body = f"""\
    W = allocate((128,), float32, "{scope}")
    for k in range(2):
        W[threadIdx.x // {{together}}] = A[threadIdx.x // {{together}} + k]
        {{between}}
    B[blockIdx.x * 64 + threadIdx.x] = W[threadIdx.x // {{together}}]
    """
    barrier = 'tvm_storage_sync("warp")'
    found, _ = run(function(body.format(together=32, between=barrier)))
    assert found[0] == 1 and found[32] == 2
    error = refused(function(body.format(together=32, between="L[1] = 0.0")), interp.RaceError)
    assert "several threads" in str(error)


@pytest.mark.parametrize("reader", [0, 1])
def test_a_barrier_of_the_warp_does_not_wait_for_what_two_warps_wrote(reader: int) -> None:
    body = f"""\
    S[0] = A[3]
    tvm_storage_sync("warp")
    if threadIdx.x // 32 == {reader}:
        B[blockIdx.x * 64 + threadIdx.x] = S[0]
    """
    error = refused(function(body), interp.RaceError)
    assert "S[0]" in str(error)


def test_barriers_of_a_block_order_nothing_for_another() -> None:
    """Block 0 reads A[5] in its first epoch, block 1 reads it in its second and then writes it."""
    body = f"""\
    if blockIdx.x == {{first}}:
        L[0] = A[5]
    if blockIdx.x == 1:
        {SYNC.strip()}
        L[0] = A[5]
        tvm_storage_sync("warp")
        A[5] = 2.0
    """
    one_warp = {"threads": 32}
    error = refused(function(body.format(first=0), **one_warp), interp.RaceError)
    assert "A[5]" in str(error)
    found, _ = run(function(body.format(first=1), **one_warp))
    assert (found == -9).all()  # B is not written, and nothing is refused


# -- barriers


def test_a_barrier_that_a_thread_misses() -> None:
    body = f"""\
    for k in range(threadIdx.x // 63 + 1):
        S[threadIdx.x] = A[threadIdx.x]
        {SYNC}
    """
    error = refused(function(body), BarrierError)
    assert error.where == "thread 0 of block 0"
    assert statement(error) == SYNC.strip()


# -- bounds and alignment


def test_out_of_bounds_names_the_thread() -> None:
    body = "B[blockIdx.x * 64 + threadIdx.x] = A[blockIdx.x * 64 + threadIdx.x * 3 + 10]\n"
    error = refused(function(body), interp.AccessError)
    assert error.where == "thread 61 of block 1"
    assert "A, " in str(error) and "257" in str(error)


VECTOR = """\
B[ramp(blockIdx.x * 128 + threadIdx.x * 4, 1, 4)] = A[ramp({first}, 1, 4)]
"""


def test_a_vector_that_is_not_aligned() -> None:
    good = function(VECTOR.format(first="threadIdx.x * 4"), threads=32)
    assert run(good)[0][:5].tolist() == [0, 1, 2, 3, 4]
    bad = function(VECTOR.format(first="threadIdx.x * 4 + threadIdx.x // 5"), threads=32)
    error = refused(bad, AlignmentError)
    assert "A[21] (flat index) is accessed with 16 bytes at once" in str(error)
    assert error.where == "thread 5 of block 0"
    # What is not made as one access need not be aligned.
    run(bad, is_vector=lambda buffer, index: buffer.name == "B")


# -- asynchronous copies

COPY = """\
ptx_cp_async(S, threadIdx.x, A, blockIdx.x * 64 + threadIdx.x, 4, dtype=float32)
{commit}
{wait}
{between}
B[blockIdx.x * 64 + threadIdx.x] = S[63 - threadIdx.x]
"""
GOOD = {
    "commit": "ptx_commit_group(dtype=int32)",
    "wait": "ptx_wait_group(0, dtype=int32)",
    "between": SYNC.strip(),
}


def copy(**changes: str) -> PrimFunc:
    return function(COPY.format(**{**GOOD, **changes}))


def test_a_copy_arrives_at_the_wait() -> None:
    found, _ = run(copy())
    assert found[:128].tolist() == [*range(63, -1, -1), *range(127, 63, -1)]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"wait": ""}, CopyError),
        ({"wait": "ptx_wait_group(1, dtype=int32)"}, CopyError),
        ({"commit": ""}, CopyError),
        ({"between": ""}, interp.RaceError),
        ({"wait": SYNC.strip(), "between": GOOD["wait"]}, interp.RaceError),
    ],
)
def test_a_copy_that_is_not_waited_for_rightly(
    changes: Mapping[str, str], kind: type[InterpreterError]
) -> None:
    error = refused(copy(**changes), kind)
    assert statement(error).startswith("B[") and "S[63]" in str(error)


def test_without_a_watch_a_copy_does_not_arrive_before_its_wait() -> None:
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    interp.run(copy(wait=""), [a, b], check_races=False)
    assert np.isnan(b[:128]).all()


def test_nobody_writes_where_a_copy_comes_from_or_goes_to() -> None:
    for target in ("A[blockIdx.x * 64 + threadIdx.x]", "S[threadIdx.x]"):
        error = refused(copy(between=f"{target} = 0.0", wait=""), CopyError)
        assert statement(error).startswith(target[:2])
        run(copy(between=f"{SYNC}if threadIdx.x < 0:\n    {target} = 0.0\n"))


def test_threads_may_all_make_the_same_copies() -> None:
    """As of a stage that is bound to no thread; the copies were races with each other."""
    body = """\
    for i in range(2):
        ptx_cp_async(S, i, A, {at}, 4, dtype=float32)
        ptx_commit_group(dtype=int32)
    ptx_wait_group({left}, dtype=int32)
    tvm_storage_sync("shared")
    ptx_wait_group(0, dtype=int32)
    tvm_storage_sync("shared")
    B[blockIdx.x * 64 + threadIdx.x] = S[threadIdx.x % 2]
    """
    for left in (0, 1):
        found, _ = run(function(body.format(at="i + 7", left=left)))
        assert found[:4].tolist() == [7, 8, 7, 8]
        refused(function(body.format(at="threadIdx.x", left=left)), interp.RaceError)


def test_a_guarded_copy_fills_with_zeros_and_reads_nothing() -> None:
    body = """\
    ptx_cp_async(S, threadIdx.x, A, 200 + threadIdx.x, 4, threadIdx.x < 56, dtype=float32)
    ptx_commit_group(dtype=int32)
    ptx_wait_group(0, dtype=int32)
    B[blockIdx.x * 64 + threadIdx.x] = S[threadIdx.x]
    """
    found, _ = run(function(body))
    assert found[:64].tolist() == [*range(200, 256), *[0] * 8]


def test_copies_of_sixteen_bytes_are_aligned() -> None:
    body = """\
    ptx_cp_async(S, {to}, A, {at}, 16, dtype=float32)
    ptx_commit_group(dtype=int32)
    ptx_wait_group(0, dtype=int32)
    tvm_storage_sync("shared")
    B[blockIdx.x * 64 + threadIdx.x] = S[threadIdx.x]
    """
    good = {"to": "threadIdx.x * 4", "at": "threadIdx.x * 4"}
    assert run(function(body.format(**good), threads=32))[0][9] == 9
    for name in good:
        wrong = {**good, name: "threadIdx.x * 4 + 2"}
        error = refused(function(body.format(**wrong), threads=16), AlignmentError)
        assert "16 bytes at once" in str(error)


def test_groups_are_counted_per_thread() -> None:
    """Two stages ahead: the older group has arrived when one may still be on its way."""
    body = """\
    for s in range(2):
        ptx_cp_async(S, s * 64 + threadIdx.x, A, s * 64 + threadIdx.x, 4, dtype=float32)
        ptx_commit_group(dtype=int32)
    ptx_wait_group({left}, dtype=int32)
    B[blockIdx.x * 64 + threadIdx.x] = S[{stage} * 64 + threadIdx.x]
    """
    assert run(function(body.format(left=1, stage=0)))[0][3] == 3
    assert run(function(body.format(left=0, stage=1)))[0][3] == 67
    refused(function(body.format(left=1, stage=1)), CopyError)


# -- shuffles

SHUFFLE = """\
L[0] = A[threadIdx.x]
L[1] = tvm_warp_shuffle_down({mask}, L[0], 8, 32, 32, dtype=float32)
if {use}:
    B[blockIdx.x * 64 + threadIdx.x] = L[1]
"""


def test_what_comes_from_a_lane_that_is_not_there_may_not_be_used() -> None:
    """A block of 48 threads: the second warp has 16."""
    body = SHUFFLE.format(mask=-1, use="{use}")
    run(function(body.format(use="threadIdx.x < 40"), threads=48))
    error = refused(function(body.format(use="threadIdx.x < 41"), threads=48), UninitialisedError)
    assert error.where == "thread 40 of block 0" and statement(error).startswith("B[")


def test_what_comes_from_a_lane_outside_the_mask_may_not_be_used() -> None:
    run(function(SHUFFLE.format(mask=0xFFFF, use="threadIdx.x < 8"), threads=32))
    error = refused(
        function(SHUFFLE.format(mask=0xFFFF, use="threadIdx.x < 9"), threads=32), UninitialisedError
    )
    assert error.where == "thread 8 of block 0"


def test_what_comes_from_a_lane_that_does_not_run_means_nothing() -> None:
    body = """\
    L[0] = A[threadIdx.x]
    if threadIdx.x < 8:
        L[0] = tvm_warp_shuffle_down(-1, L[0], 8, 32, 32, dtype=float32)
    B[blockIdx.x * 64 + threadIdx.x] = L[0]
    """
    error = refused(function(body, threads=32), UninitialisedError)
    assert error.where == "thread 0 of block 0"


# -- the rest of a watch


def test_the_elements_written_are_kept() -> None:
    body = "if threadIdx.x < 3:\n    B[blockIdx.x * 64 + threadIdx.x * 2] = 1.0\n"
    _, watch = run(function(body))
    assert np.flatnonzero(watch.written["B"]).tolist() == [0, 2, 4, 64, 66, 68]


def test_only_the_blocks_asked_for_run() -> None:
    body = "B[blockIdx.x * 64 + threadIdx.x] = A[threadIdx.x]\n"
    _, watch = run(function(body, blocks=4), blocks=lambda extents: np.array([1, 3]))
    assert np.flatnonzero(watch.written["B"]).tolist() == [*range(64, 128), *range(192, 256)]


def test_a_run_ends_when_its_time_is_over() -> None:
    body = "for k in range(1000000):\n    L[0] = A[threadIdx.x]\n"
    error = refused(function(body), TooLargeError, seconds=0.01)
    assert str(error) == "not finished after 0.01 s"


@pytest.mark.parametrize(
    ("index", "passes"),
    [("threadIdx.x", 1), ("threadIdx.x * 2", 2), ("threadIdx.x * 32 % 128", 4), ("0", 1)],
)
def test_bank_conflicts_are_counted(index: str, passes: int) -> None:
    body = f"S[{index}] = 0.0\n"
    func = function(body, threads=32)
    _, watch = run(func, counting=True, races=False)
    ((_, name, is_store), count) = next(iter(watch.counts.items()))
    assert (name, is_store) == ("S", True)
    assert (count.requests, count.conflict_degree) == (2, passes)


def test_wide_accesses_are_made_by_parts_of_a_warp() -> None:
    body = "B[0] = 0.0\nS[ramp(threadIdx.x * 4, 1, 4)] = broadcast(0.0, 4)\n"
    _, watch = run(function(body, threads=32, blocks=1), counting=True)
    counts = {name: count for (_, name, _), count in watch.counts.items()}
    assert (counts["S"].requests, counts["S"].passes) == (4, 4)


@pytest.mark.parametrize(
    ("index", "sectors"), [("threadIdx.x", 4), ("threadIdx.x * 8", 32), ("0", 1)]
)
def test_sectors_are_counted(index: str, sectors: int) -> None:
    _, watch = run(function(f"L[0] = A[{index}]\n", threads=32, blocks=1), counting=True)
    count = next(c for (_, name, _), c in watch.counts.items() if name == "A")
    assert (count.requests, count.sectors_per_request) == (1, sectors)


def test_a_read_seen_before_a_write_counts_after_it() -> None:
    """Reads of one name are looked at once between writes and barriers, not once for all."""
    body = """\
    S[threadIdx.x] = A[threadIdx.x]
    {sync}
    L[0] = S[63 - threadIdx.x]
    L[0] = S[63 - threadIdx.x]
    {between}
    S[threadIdx.x] = 0.0
    {after}
    L[0] = S[63 - threadIdx.x]
    """
    nothing = "L[1] = 0.0"
    run(function(body.format(sync=SYNC, between=SYNC, after=SYNC)))
    error = refused(function(body.format(sync=SYNC, between=nothing, after=SYNC)), interp.RaceError)
    assert "written by thread 0 of block 0, read by thread 63" in str(error)
    error = refused(function(body.format(sync=SYNC, between=SYNC, after=nothing)), interp.RaceError)
    assert statement(error).startswith("L[0]")


MERGED = """\
def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
    launch(blockIdx.x, 2)
    launch(threadIdx.x, 64)
    M = allocate(({bytes},), uint8, "shared")
    F = view(M, ({floats},), float32)
    H = view(M, ({halves},), float16)
    F[threadIdx.x] = A[threadIdx.x]
    {first}
    H[{index}] = float16(1)
    {second}
    B[blockIdx.x * 64 + threadIdx.x] = F[threadIdx.x]
"""


def merged(index: str, first: str = SYNC.strip(), second: str = SYNC.strip()) -> PrimFunc:
    """Floats in the first 256 bytes and halves behind them, or where `index` says."""
    sizes = {"bytes": 384, "floats": 96, "halves": 192}
    return parse_func(MERGED.format(index=index, first=first, second=second, **sizes))


def test_memory_seen_as_two_types_races_where_bytes_meet() -> None:
    found, _ = run(merged("threadIdx.x + 128"))
    assert found[3] == 3
    run(merged("threadIdx.x + 128", first="", second=""))  # other bytes need no barrier
    error = refused(merged("threadIdx.x + 1", first=""), interp.RaceError)
    assert str(error).startswith("data race on M[")
    error = refused(merged("threadIdx.x + 127", second=""), interp.RaceError)
    assert statement(error).startswith("B[") or statement(error).startswith("H[")


def test_halves_of_a_float_are_written_apart() -> None:
    text = to_text(merged("threadIdx.x * 2")).replace("F[threadIdx.x] = A[threadIdx.x]", "")
    error = refused(parse_func(text), UninitialisedError)
    assert "M[0] (flat index) is read" in str(error)
