"""Where barriers stand, and that what they protect has no race and what lacks one has."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import For, Stmt
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import map_children, stmts
from autosched.transform.device.merge_shared_memory_allocations import (
    MergeSharedMemoryAllocations,
)
from autosched.transform.device.thread_sync import ThreadSync, kernels, missing_barriers

HEAD = """\
def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
"""


def function(body: str, threads: int = 32) -> PrimFunc:
    """A kernel with shared memory S and R of 64 elements."""
    start = f"launch(threadIdx.x, {threads})\n" if "launch" not in body else ""
    memory = "".join(f'{name} = allocate((64,), float32, "shared")\n' for name in "SR")
    text = start + body if "allocate" in body else start + memory + body
    return parse_func(HEAD + textwrap.indent(textwrap.dedent(text), "    "))


def synced(body: str, threads: int = 32, scope: str = "shared") -> str:
    """The lines of the body after the pass; a barrier is a line `sync`."""
    after = ThreadSync(scope)(function(body, threads))
    lines = to_text(after).split("\n")[1:]
    kept = [line[4:] for line in lines if not re.search(r"launch|allocate", line)]
    return "\n".join(re.sub(r"tvm_storage_sync\(.*\)", "sync", line) for line in kept)


def has_race(func: PrimFunc) -> bool:
    arrays = [np.arange(64, dtype=np.float32) for _ in range(2)]
    try:
        interp.run(func, [*arrays, 3], check_races=True)
    except interp.RaceError:
        return True
    return False


SAFE = {
    "the same element in a view": """\
V = view(S, (60,), float32, elem_offset=4)
S[threadIdx.x + 4] = A[threadIdx.x]
B[threadIdx.x] = V[threadIdx.x]
""",
    "the same element": """\
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = S[threadIdx.x]
""",
    "four elements of one's own": """\
for j in range(2):
    S[threadIdx.x * 2 + j] = A[threadIdx.x]
for k in range(2):
    B[threadIdx.x * 2 + k] = S[threadIdx.x * 2 + k]
""",
    "a permutation by bits": """\
S[bitwise_xor(threadIdx.x, 5)] = A[threadIdx.x]
B[threadIdx.x] = S[bitwise_xor(threadIdx.x, 5)]
""",
    "what all threads write in a loop over elements": """\
for i in range(8):
    S[i] = 1.0
""",
    "disjoint halves": """\
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = S[threadIdx.x + 32]
""",
    "a let": """\
t: int32 = threadIdx.x * 2
S[t] = A[threadIdx.x]
B[threadIdx.x] = S[threadIdx.x * 2]
""",
    "an offset that is the same for all": """\
S[threadIdx.x + n * 2] = A[threadIdx.x]
B[threadIdx.x] = S[threadIdx.x + n * 2]
""",
}
NEEDED = {
    "another thread's element": (
        """\
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = S[31 - threadIdx.x]
""",
        """\
S[threadIdx.x] = A[threadIdx.x]
sync
B[threadIdx.x] = S[31 - threadIdx.x]""",
    ),
    "write after write": (
        """\
S[threadIdx.x] = A[threadIdx.x]
S[threadIdx.x + 1] = A[threadIdx.x]
""",
        """\
S[threadIdx.x] = A[threadIdx.x]
sync
S[threadIdx.x + 1] = A[threadIdx.x]""",
    ),
    "a view that begins at the next thread's element": (
        """\
V = view(S, (63,), float32, elem_offset=1)
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = V[threadIdx.x]
""",
        """\
V = view(S, (63,), float32, elem_offset=1)
S[threadIdx.x] = A[threadIdx.x]
sync
B[threadIdx.x] = V[threadIdx.x]""",
    ),
    "a view of every other element": (
        """\
V = view(S, (32,), float32, strides=(2,))
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = V[threadIdx.x]
""",
        """\
V = view(S, (32,), float32, strides=(2,))
S[threadIdx.x] = A[threadIdx.x]
sync
B[threadIdx.x] = V[threadIdx.x]""",
    ),
    "write after read": (
        """\
B[threadIdx.x] = S[31 - threadIdx.x]
S[threadIdx.x] = A[threadIdx.x]
""",
        """\
B[threadIdx.x] = S[31 - threadIdx.x]
sync
S[threadIdx.x] = A[threadIdx.x]""",
    ),
    "around a loop, through an index that moves": (
        """\
for i in range(4):
    S[(threadIdx.x + i) % 32] = A[threadIdx.x]
    B[threadIdx.x] = S[(threadIdx.x + i) % 32]
""",
        """\
for i in range(4):
    sync
    S[(threadIdx.x + i) % 32] = A[threadIdx.x]
    B[threadIdx.x] = S[(threadIdx.x + i) % 32]""",
    ),
    "around tiles whose width a loop outside gives": (
        """\
for a in range(2):
    for i in range((a + 7) * 8 // 32 + 1):
        if i * 32 + threadIdx.x < (a + 7) * 8:
            S[(i * 32 + threadIdx.x) // (a + 7) * 8 + (i * 32 + threadIdx.x) % (a + 7)] = 1.0
    B[threadIdx.x] = S[63 - threadIdx.x]
""",
        """\
for a in range(2):
    sync
    for i in range((a + 7) * 8 // 32 + 1):
        if i * 32 + threadIdx.x < (a + 7) * 8:
            S[(i * 32 + threadIdx.x) // (a + 7) * 8 + (i * 32 + threadIdx.x) % (a + 7)] = 1.0
    sync
    B[threadIdx.x] = S[63 - threadIdx.x]""",
    ),
    "none behind a branch for what is read behind a barrier in it": (
        """\
if n < 5:
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
B[threadIdx.x] = B[threadIdx.x] + S[(threadIdx.x + 1) % 32]
""",
        """\
if n < 5:
    S[threadIdx.x] = A[threadIdx.x]
    sync
    B[threadIdx.x] = S[31 - threadIdx.x]
B[threadIdx.x] = B[threadIdx.x] + S[(threadIdx.x + 1) % 32]""",
    ),
    "one behind a branch with a barrier that may be skipped": (
        """\
if n < 5:
    S[threadIdx.x] = A[threadIdx.x]
    if n < 2:
        tvm_storage_sync("shared")
B[threadIdx.x] = S[31 - threadIdx.x]
""",
        """\
if n < 5:
    S[threadIdx.x] = A[threadIdx.x]
    if n < 2:
        sync
sync
B[threadIdx.x] = S[31 - threadIdx.x]""",
    ),
    "one behind a branch for what another has without a barrier": (
        """\
if n < 2:
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
else:
    S[threadIdx.x] = 1.0
B[threadIdx.x] = S[(threadIdx.x + 1) % 32]
""",
        """\
if n < 2:
    S[threadIdx.x] = A[threadIdx.x]
    sync
    B[threadIdx.x] = S[31 - threadIdx.x]
else:
    S[threadIdx.x] = 1.0
sync
B[threadIdx.x] = S[(threadIdx.x + 1) % 32]""",
    ),
    "none behind a loop of any length for what is behind its barrier": (
        """\
for i in range(n):
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
B[threadIdx.x] = B[threadIdx.x] + S[(threadIdx.x + 1) % 32]
""",
        """\
for i in range(n):
    sync
    S[threadIdx.x] = A[threadIdx.x]
    sync
    B[threadIdx.x] = S[31 - threadIdx.x]
B[threadIdx.x] = B[threadIdx.x] + S[(threadIdx.x + 1) % 32]""",
    ),
    "one behind a loop for what ends it": (
        """\
S[threadIdx.x] = 0.0
tvm_storage_sync("shared")
while S[0] < 1.0:
    tvm_storage_sync("shared")
    S[threadIdx.x] = 2.0
    tvm_storage_sync("shared")
S[(threadIdx.x + 1) % 32] = 5.0
""",
        """\
S[threadIdx.x] = 0.0
sync
while S[0] < 1.0:
    sync
    S[threadIdx.x] = 2.0
    sync
sync
S[(threadIdx.x + 1) % 32] = 5.0""",
    ),
    "in a loop whose length a block gives": (
        """\
launch(blockIdx.x, 2)
launch(threadIdx.x, 32)
S = allocate((64,), float32, "shared")
for i in range(blockIdx.x + 2):
    S[(threadIdx.x + i) % 32] = A[threadIdx.x]
    B[blockIdx.x * 32 + threadIdx.x] = S[(threadIdx.x + i) % 32]
""",
        """\
for i in range(blockIdx.x + 2):
    sync
    S[(threadIdx.x + i) % 32] = A[threadIdx.x]
    B[blockIdx.x * 32 + threadIdx.x] = S[(threadIdx.x + i) % 32]""",
    ),
    "one before the first reader of what all write": (
        """\
for i in range(8):
    S[i] = 1.0
B[threadIdx.x] = S[threadIdx.x // 4]
""",
        """\
for i in range(8):
    S[i] = 1.0
sync
B[threadIdx.x] = S[threadIdx.x // 4]""",
    ),
    "one barrier for two buffers": (
        """\
S[threadIdx.x] = A[threadIdx.x]
R[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = S[31 - threadIdx.x] + R[31 - threadIdx.x]
""",
        """\
S[threadIdx.x] = A[threadIdx.x]
R[threadIdx.x] = A[threadIdx.x]
sync
B[threadIdx.x] = S[31 - threadIdx.x] + R[31 - threadIdx.x]""",
    ),
    "before a branch, not inside it": (
        """\
S[threadIdx.x] = A[threadIdx.x]
if threadIdx.x < 4:
    B[threadIdx.x] = S[31 - threadIdx.x]
""",
        """\
S[threadIdx.x] = A[threadIdx.x]
sync
if threadIdx.x < 4:
    B[threadIdx.x] = S[31 - threadIdx.x]""",
    ),
    "inside a branch that all threads take alike": (
        """\
if n < 4:
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
""",
        """\
if n < 4:
    S[threadIdx.x] = A[threadIdx.x]
    sync
    B[threadIdx.x] = S[31 - threadIdx.x]""",
    ),
    "halves that threads choose": (
        """\
S[threadIdx.x % 2 * 32 + threadIdx.x // 2] = A[threadIdx.x]
B[threadIdx.x] = S[(threadIdx.x + 1) % 2 * 32 + (15 - threadIdx.x // 2)]
""",
        """\
S[threadIdx.x % 2 * 32 + threadIdx.x // 2] = A[threadIdx.x]
sync
B[threadIdx.x] = S[(threadIdx.x + 1) % 2 * 32 + (15 - threadIdx.x // 2)]""",
    ),
    "next to an element that a thread looks up": (
        """\
launch(threadIdx.x, 32)
P = allocate((1,), int32, "local")
S = allocate((64,), float32, "shared")
P[0] = threadIdx.x
S[P[0] + 1] = A[threadIdx.x]
B[threadIdx.x] = S[P[0]]
""",
        """\
P[0] = threadIdx.x
S[P[0] + 1] = A[threadIdx.x]
sync
B[threadIdx.x] = S[P[0]]""",
    ),
    "next to an element of the lane": (
        """\
S[ptx_lane_id(dtype=int32) + 1] = A[threadIdx.x]
B[threadIdx.x] = S[ptx_lane_id(dtype=int32)]
""",
        """\
S[ptx_lane_id(dtype=int32) + 1] = A[threadIdx.x]
sync
B[threadIdx.x] = S[ptx_lane_id(dtype=int32)]""",
    ),
    "a loop of unknown length whose index moves": (
        """\
for i in range(n):
    S[threadIdx.x + i] = A[threadIdx.x]
""",
        """\
for i in range(n):
    sync
    S[threadIdx.x + i] = A[threadIdx.x]""",
    ),
}
MATRIX = """\
launch(threadIdx.y, 8)
launch(threadIdx.x, 4)
S = allocate((64,), float32, "shared")
{}
"""


@pytest.mark.parametrize("body", SAFE.values(), ids=SAFE)
def test_no_barrier_where_threads_do_not_meet(body: str) -> None:
    func = function(body)
    assert ThreadSync()(func) is func


@pytest.mark.parametrize(("body", "expected"), NEEDED.values(), ids=NEEDED)
def test_barriers_where_they_meet(body: str, expected: str) -> None:
    assert synced(body) == expected


@pytest.mark.parametrize("body", [b for b, _ in NEEDED.values()], ids=NEEDED)
def test_with_the_barriers_there_is_no_race(body: str) -> None:
    func = function(body)
    assert has_race(func)
    assert not has_race(ThreadSync()(func))


@pytest.mark.parametrize(
    ("index", "needed"),
    [("threadIdx.y * 4 + threadIdx.x", False), ("threadIdx.y", True), ("threadIdx.x", True)],
)
def test_all_axes_of_the_block_count(index: str, needed: bool) -> None:
    store, load = f"S[{index}] = A[threadIdx.x]", f"B[threadIdx.x] = S[{index}]"
    func = function(MATRIX.format(f"{store}\n{load}"))
    assert (ThreadSync()(func) is not func) == needed


def test_axes_that_are_bound_twice_are_one() -> None:
    body = """\
launch(blockIdx.x, 2)
S = allocate((64,), float32, "shared")
with launch(threadIdx.x, 32):
    S[threadIdx.x] = A[threadIdx.x]
launch(threadIdx.x_1, 32, tag="threadIdx.x")
B[threadIdx.x_1] = S[threadIdx.x_1]
"""
    func = function(body)
    assert ThreadSync()(func) is func
    assert "sync" in synced(body.replace("= S[threadIdx.x_1]", "= S[31 - threadIdx.x_1]"))


def test_a_barrier_that_stands_there_is_enough() -> None:
    func = function("""\
for i in range(4):
    tvm_storage_sync("shared")
    S[threadIdx.x] = A[threadIdx.x]
    tvm_storage_sync("shared")
    B[threadIdx.x] = S[31 - threadIdx.x]
""")
    assert ThreadSync()(func) is func
    (kernel,) = kernels(func.body)
    assert missing_barriers(kernel, "shared", "main") == set()


WARPS = 'S[threadIdx.x] = A[threadIdx.x]\n{}tvm_storage_sync("warp")\n{}'
MIRRORED = "B[threadIdx.x] = S[{} - threadIdx.x]\n"
TREE = "if threadIdx.x < {0}:\n    S[threadIdx.x] = S[threadIdx.x] + S[threadIdx.x + {0}]\n"
OF_WARPS: dict[str, tuple[str, int, bool]] = {
    "one warp": (WARPS.format("", MIRRORED.format(31)), 32, True),
    "threads of two warps": (WARPS.format("", MIRRORED.format(63)), 64, False),
    "within each of two warps": (
        WARPS.format("", "B[threadIdx.x] = S[threadIdx.x // 32 * 32 + 31 - threadIdx.x % 32]"),
        64,
        True,
    ),
    "a step of a tree": (WARPS.format("", TREE.format(16)), 32, True),
    "a step by lanes of one warp among two": (
        "if threadIdx.x < 32:\n    S[threadIdx.x] = A[threadIdx.x]\n"
        f'tvm_storage_sync("warp")\n{TREE.format(16)}',
        64,
        True,
    ),
    "a step across warps": (WARPS.format("", TREE.format(32)), 64, False),
    "the barrier comes too late": (WARPS.format(MIRRORED.format(31), ""), 32, False),
}


@pytest.mark.parametrize(("body", "threads", "enough"), OF_WARPS.values(), ids=OF_WARPS)
def test_a_barrier_of_a_warp_orders_its_lanes_alone(body: str, threads: int, enough: bool) -> None:
    before = function(body, threads)
    after = ThreadSync()(before)
    assert (after is before) == enough
    assert not has_race(after)
    (kernel,) = kernels(after.body)
    assert missing_barriers(kernel, "shared", "main") == set()


def test_a_launch_orders_what_comes_before_it() -> None:
    func = function("""\
S = allocate((64,), float32, "shared")
with launch(threadIdx.x, 32):
    S[threadIdx.x] = A[threadIdx.x]
launch(threadIdx.x_1, 32, tag="threadIdx.x")
B[threadIdx.x_1] = S[31 - threadIdx.x_1]
""")
    assert ThreadSync()(func) is func


def test_dynamic_memory_that_may_share_bytes_counts_as_one() -> None:
    body = """\
S = allocate((64,), float32, "shared.dyn")
R = allocate((64,), float16, "shared.dyn")
S[threadIdx.x] = A[threadIdx.x]
R[threadIdx.x] = float16(A[threadIdx.x])
"""
    assert synced(body, scope="shared.dyn").count("sync") == 1
    func = function(body)
    assert ThreadSync("shared")(func) is func
    other = function(body.replace("shared.dyn", "shared"))
    assert ThreadSync("shared")(other) is other


IN_USE_TOGETHER = """\
S = allocate((64,), float32, "shared.dyn")
R = allocate((64,), {}, "shared.dyn")
for k in range(4):
    S[threadIdx.x] = A[threadIdx.x + k]
    R[threadIdx.x] = {}(A[threadIdx.x])
    B[threadIdx.x] = S[31 - threadIdx.x] + float32(R[31 - threadIdx.x])
"""


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dynamic_memory_in_use_together_shares_nothing(dtype: str) -> None:
    """Tiles of a product: no barrier stands between filling one and the other."""
    body = IN_USE_TOGETHER.format(dtype, dtype)
    lines = synced(body, scope="shared.dyn").splitlines()
    assert [n for n, line in enumerate(lines) if "sync" in line] == [1, 4]
    merged = MergeSharedMemoryAllocations()(ThreadSync("shared.dyn")(function(body)))
    (kernel,) = kernels(merged.body)
    assert missing_barriers(kernel, "shared.dyn", "main") == set()
    assert not has_race(merged)


def test_pointers_given_to_calls_may_be_written() -> None:
    body = """\
S[threadIdx.x] = A[threadIdx.x]
call_extern("f", address_of(S[0]))
B[threadIdx.x] = S[threadIdx.x]
"""
    assert synced(body).count("sync") == 2


@pytest.mark.parametrize(
    "head", ["if threadIdx.x < n:", "while A[0] < 1.0:", "for i in range(threadIdx.x):"]
)
def test_a_barrier_where_not_all_threads_come(head: str) -> None:
    body = f"""\
{head}
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
"""
    with pytest.raises(ScheduleError, match=r"ThreadSync: main: a barrier for S is needed inside"):
        ThreadSync()(function(body))


def test_a_condition_said_to_be_the_same_for_all_threads() -> None:
    body = """\
if tvm_thread_invariant(A[0] < 1.0):
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[31 - threadIdx.x]
"""
    assert synced(body).count("sync") == 1


def test_an_index_that_is_read_from_memory_may_be_any() -> None:
    body = """\
S[int32(A[threadIdx.x])] = A[threadIdx.x]
B[threadIdx.x] = S[int32(A[threadIdx.x])]
"""
    assert synced(body).count("sync") == 1


def test_threads_too_many_to_count() -> None:
    """Nothing is counted out past a limit: these threads do not meet, and get barriers."""
    body = """\
for i in range(4096):
    S[threadIdx.x * 4096 + i] = A[threadIdx.x]
for j in range(4096):
    B[threadIdx.x] = S[threadIdx.x * 4096 + j]
"""
    assert synced(body).count("sync") == 2


def test_there_are_no_barriers_between_blocks() -> None:
    with pytest.raises(ValueError, match="no barriers for scope 'global'"):
        ThreadSync("global")


@pytest.mark.parametrize(
    "skipped",
    [
        "if n < 5:\n    O[threadIdx.x] = S[31 - threadIdx.x]\n",
        "for i in range(n):\n    O[threadIdx.x] = S[31 - threadIdx.x]\n",
        "if n < 5:\n    O[threadIdx.x] = S[31 - threadIdx.x]\nelse:\n    O[0] = 1.0\n",
        'for i in range(n):\n    tvm_storage_sync("shared")\n    O[threadIdx.x] = S[0]\n',
    ],
    ids=["a branch", "a loop", "one of two branches", "a barrier that was there"],
)
def test_a_barrier_that_may_be_skipped_does_not_count_behind(skipped: str) -> None:
    """What runs when n says so has a barrier; the read behind it needs one in any case."""
    head = """\
def main(A: Buffer((32,), float32), O: Buffer((32,), float32), n: int32):
    launch(threadIdx.x, 32)
    S = allocate((32,), float32, "shared")
"""
    body = (
        "S[threadIdx.x] = A[threadIdx.x]\n"
        + skipped.replace("31 - threadIdx.x", "threadIdx.x")
        + "if n < 7:\n"
        "    S[threadIdx.x] = 1.0\n"
        "    O[threadIdx.x] = S[31 - threadIdx.x]\n"
        "O[threadIdx.x] = O[threadIdx.x] + S[31 - threadIdx.x]\n"
    )
    func = parse_func(head + textwrap.indent(body, "    "))
    after = ThreadSync("shared")(func)
    for n in (0, 6, 9):
        values = [np.arange(32, dtype=np.float32), np.zeros(32, np.float32), n]
        interp.run(after, values, check_races=True)


def test_barriers_in_both_branches_count() -> None:
    body = """\
S[threadIdx.x] = A[threadIdx.x]
if A[0] < 0.0:
    tvm_storage_sync("shared")
    B[threadIdx.x] = 1.0
else:
    tvm_storage_sync("shared")
    B[threadIdx.x] = 2.0
B[threadIdx.x] = S[31 - threadIdx.x]
"""
    assert synced(body).count("sync") == 2


@pytest.mark.parametrize("place", ["S[640 + threadIdx.x]", "T[3968 + threadIdx.x]"])
def test_whole_tiles_of_wgmma_are_read(place: str) -> None:
    """Not their first rows alone: what threads store to the tenth, or the last, needs a barrier."""
    product = 'ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, S, 0, T, 0, 0, 1, 0, dtype=float32)'
    text = f"""\
def main(A: Buffer((128,), float16)):
    launch(threadIdx.x, 128)
    C = allocate((1024,), float32, "wmma.accumulator")
    S = allocate((4096,), float16, "shared")
    T = allocate((4096,), float16, "shared")
    {place} = A[threadIdx.x]
    {product}
"""
    assert "tvm_storage_sync" in to_text(ThreadSync("shared")(parse_func(text)))


APART = """\
def main(A: Buffer((65536,), float32), B: Buffer((65536,), float32)):
    launch(threadIdx.x, 256)
    S = allocate((65536,), float32, "shared")
    for k in range(4):
        for i in range(64):
            S[{to}] = A[k * 16384 + i * 256 + threadIdx.x]
        for j in range(64):
            B[k * 16384 + j * 256 + threadIdx.x] = S[{at}]
"""


@pytest.mark.parametrize(
    ("to", "at", "number"),
    [
        # Each thread reads another's, of the half, or of the slot, that is not being filled.
        ("i * 256 + threadIdx.x", "32768 + j * 256 + 255 - threadIdx.x", 0),
        ("k * 4096 + i * 256 + threadIdx.x", "k * 4096 + 32768 + j * 256 + 255 - threadIdx.x", 0),
        # They meet in the same iteration, and in another one only where slots overlap.
        ("k * 16384 + i * 256 + threadIdx.x", "k * 16384 + j * 256 + 255 - threadIdx.x", 1),
        ("k * 16383 + i * 256 + threadIdx.x", "k * 16383 + j * 256 + 255 - threadIdx.x", 2),
        ("i * 256 + threadIdx.x", "j * 256 + 255 - threadIdx.x", 2),
    ],
)
def test_places_that_lie_apart_need_no_barrier(to: str, at: str, number: int) -> None:
    """Of more elements than are counted out, by the ends of what each iteration touches."""
    found = ThreadSync("shared")(parse_func(APART.format(to=to, at=at)))
    assert to_text(found).count("tvm_storage_sync") == number


GUARDED = """\
def main(A: Buffer((65536,), float32), B: Buffer((65536,), float32)):
    launch(threadIdx.x, 125)
    S = allocate((65536,), float32, "shared")
    for k in range(4):
        for i in range(17):
            if i * 125 + threadIdx.x < {limit}:
                S[{to}] = A[k * 16384 + i * 125 + threadIdx.x]
        for j in range(17):
            B[k * 16384 + j * 125 + threadIdx.x] = S[{at} + j * 125 + 124 - threadIdx.x]
"""


@pytest.mark.parametrize(
    ("limit", "to", "at", "number"),
    [
        # The last turn of the threads would go on to where others read: the guard ends it.
        (2080, "i * 125 + threadIdx.x", "2080", 0),
        (2081, "i * 125 + threadIdx.x", "2080", 2),
        # In a remainder and a quotient the sum has its bound, too.
        (2070, "(i * 125 + threadIdx.x) % 9 * 300 + (i * 125 + threadIdx.x) // 9", "2630", 0),
        (2080, "(i * 125 + threadIdx.x) % 9 * 300 + (i * 125 + threadIdx.x) // 9", "2630", 2),
        # What is not bounded alike decides nothing.
        (2080, "i * 126 + threadIdx.x", "2080", 2),
    ],
)
def test_guards_bound_what_threads_touch(limit: int, to: str, at: str, number: int) -> None:
    text = GUARDED.format(limit=limit, to=to, at=at)
    assert to_text(ThreadSync("shared")(parse_func(text))).count("tvm_storage_sync") == number


AHEAD = """\
def main(A: Buffer((65536,), float32), B: Buffer((65536,), float32)):
    launch(threadIdx.x, 256)
    S = allocate((65536,), float32, "shared")
    for k in range(2):
        if k < {limit}:
            for i in range(64):
                S[k * 16384 + i * 256 + threadIdx.x + 16384] = A[i * 256 + threadIdx.x]
        {around}
            for j in range(64):
                B[k * 16384 + j * 256 + threadIdx.x] = S[k * 8192 + j * 256 + 33023 - threadIdx.x]
"""


@pytest.mark.parametrize("around", ["if k < {limit}:", "for n in range(1):"])
def test_guards_bound_the_iterations(around: str) -> None:
    """A pipeline fills nothing in its last iteration, whose tile would lie where others read."""
    for limit, needed in ((1, False), (2, True)):
        text = AHEAD.format(limit=limit, around=around.format(limit=limit))
        joined = text.replace("        if k < 1:\n            for j", "            for j")
        for kernel in (text, joined):
            found = to_text(ThreadSync("shared")(parse_func(kernel)))
            assert ("tvm_storage_sync" in found) == needed, kernel


def test_what_a_guard_does_not_bound() -> None:
    """Conditions of numbers that the kernel gets, and such as never hold, say nothing."""
    for condition, limit in (("n", "4"), ("k", "0"), ("k + n", "1")):
        text = AHEAD.format(limit=1, around="for m in range(1):").replace("B: B", "n: int32, B: B")
        text = text.replace("if k < 1", f"if {condition} < {limit}")
        assert "tvm_storage_sync" in to_text(ThreadSync("shared")(parse_func(text)))


def test_a_loop_of_one_iteration_has_no_next_one() -> None:
    to, at = "i * 256 + threadIdx.x", "j * 256 + 255 - threadIdx.x"
    text = APART.format(to=to, at=at).replace("range(4)", "range(1)")
    text = text.replace("(64)", "(257)").replace("65536", "66048")  # more than are counted out
    assert to_text(ThreadSync("shared")(parse_func(text))).count("tvm_storage_sync") == 1


def test_loops_with_one_variable_are_decided_each_for_itself() -> None:
    body = """\
for i in range({}):
    S[threadIdx.x] = A[threadIdx.x]
    B[threadIdx.x] = S[threadIdx.x * (i + 1) % 32]
"""
    assert "sync" not in synced(body.format(1))
    twice = function(body.format(1) + body.format(2))
    first, second = (s for s in stmts(twice.body) if isinstance(s, For))
    again = second.with_(
        loop_var=first.loop_var,
        body=substitute_stmt(second.body, {second.loop_var: first.loop_var}),
    )

    def go(s: Stmt) -> Stmt:
        return again if s is second else map_children(s, go)

    func = twice.with_body(go(twice.body))
    assert has_race(func) and not has_race(ThreadSync()(func))
