"""Merged shared memory: bytes worked out by hand, and programs that compute what they did."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Call, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import UninitialisedError
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, SeqStmt, Stmt
from autosched.tir.walk import all_exprs, map_children, stmts
from autosched.transform.device.lower_thread_allreduce import LowerThreadAllreduce
from autosched.transform.device.merge_shared_memory_allocations import MergeSharedMemoryAllocations
from autosched.transform.device.shared_layout import merged_bytes
from autosched.transform.device.thread_sync import ThreadSync, kernels, missing_barriers
from autosched.transform.framework.context import PassContext
from kit.types import SameResult

HEAD = """\
def main(G: Buffer((4096,), float32), O: Buffer((64,), float32)):
    launch(blockIdx.x, 1)
    launch(threadIdx.x, 32)
"""
Sizes = dict[str, tuple[int, str]]


def function(body: str, sizes: Sizes | None = None, scope: str = "shared.dyn") -> PrimFunc:
    rows = [
        f'{name} = allocate(({count},), {dtype}, "{scope}")\n'
        for name, (count, dtype) in (sizes or {}).items()
    ]
    return parse_func(HEAD + textwrap.indent("".join(rows) + body, "    "))


def memory(func: PrimFunc, scope: str = "shared.dyn") -> list[int | str]:
    """The bytes of each allocation in `scope`."""
    found: list[int | str] = []
    for s in stmts(func.body):
        if isinstance(s, Allocate) and s.buffer_var.scope == scope:
            (count,) = s.extents
            each = s.dtype.bytes * s.dtype.lanes
            found.append(count.value * each if isinstance(count, IntImm) else repr(count))
    return found


F32: Sizes = dict.fromkeys("ABC", (1024, "float32"))

GEMM = """\
for k in range(4):
    A[threadIdx.x] = G[k * 32 + threadIdx.x]
    B[threadIdx.x] = G[k * 64 + threadIdx.x]
    for t in range(32):
        O[threadIdx.x] = O[threadIdx.x] + A[t] * B[31 - t]
C[threadIdx.x] = O[threadIdx.x]
O[threadIdx.x + 32] = C[31 - threadIdx.x]
"""

STREAM_K = """\
for i in range(2):
    A[i * 32 + threadIdx.x] = float16(G[i * 32 + threadIdx.x])
for i in range(2):
    B[i * 32 + threadIdx.x] = int8(G[i * 32 + threadIdx.x])
for t in range(32):
    O[threadIdx.x] = O[threadIdx.x] + float32(A[t]) * float32(B[63 - t])
for n in range(8):
    R[threadIdx.x * 512] = float16(O[threadIdx.x])
    if threadIdx.x < 16:
        R[threadIdx.x * 512] = R[threadIdx.x * 512] + R[threadIdx.x * 512 + 8192]
    O[threadIdx.x] = float32(R[0])
for i in range(4):
    C[threadIdx.x * 4 + i] = float16(O[threadIdx.x])
if threadIdx.x < 16:
    O[threadIdx.x] = float32(C[threadIdx.x])
"""
STREAM_SIZES: Sizes = {
    "A": (16640, "float16"),
    "B": (32768, "int8"),
    "R": (65536, "float16"),
    "C": (1024, "float16"),
}

ATTENTION = """\
Q[threadIdx.x] = G[threadIdx.x]
for i in range(4):
    K[threadIdx.x] = G[i * 32 + threadIdx.x]
    O[threadIdx.x] = Q[31 - threadIdx.x] * K[31 - threadIdx.x]
    P[threadIdx.x] = O[threadIdx.x]
    V[threadIdx.x] = G[i * 64 + threadIdx.x]
    O[threadIdx.x] = O[threadIdx.x] + P[31 - threadIdx.x] * V[31 - threadIdx.x]
"""


def around(body: str) -> str:
    """The same in each iteration of a loop over tiles."""
    return "for b in range(4):\n" + textwrap.indent(body, "    ")


ONE_STATEMENT = "O[threadIdx.x] = float32(C[0]) + float32(A[0]) + float32(B[0])\n"

TABLE: dict[str, tuple[str, Sizes, int]] = {
    "gemm": (GEMM, F32, 8192),
    "batched gemm": (around(GEMM), F32, 8192),
    "stream-k": (STREAM_K, STREAM_SIZES, 131072),
    "stream-k tiles": (around(STREAM_K), STREAM_SIZES, 131072),
    "copied from one to the other": (
        "A[threadIdx.x] = 0.0\nB[threadIdx.x] = A[31 - threadIdx.x]\n"
        "O[threadIdx.x] = B[31 - threadIdx.x]\n",
        {"A": (128, "float32"), "B": (128, "float32")},
        1024,
    ),
    "three types in one statement": (
        "A[threadIdx.x] = int8(1)\nB[threadIdx.x] = int16(2)\n"
        "C[threadIdx.x] = int32(A[threadIdx.x]) + int32(B[threadIdx.x])\n"
        "O[threadIdx.x] = float32(C[threadIdx.x])\n",
        {"A": (512, "int8"), "B": (512, "int16"), "C": (512, "int32")},
        3584,
    ),
    "attention": (ATTENTION, dict.fromkeys("QKPV", (2048, "float32")), 24576),
    "carried out of the loop": (
        "for i in range(4):\n"
        "    A[threadIdx.x] = G[i * 32 + threadIdx.x]\n"
        "    B[threadIdx.x] = A[31 - threadIdx.x]\n"
        "O[threadIdx.x] = B[31 - threadIdx.x]\n",
        {"A": (256, "float32"), "B": (256, "float32")},
        2048,
    ),
    "another place in each iteration": (
        "for i in range(4):\n"
        "    A[i * 32 + threadIdx.x] = G[threadIdx.x]\n"
        "    O[threadIdx.x] = A[i * 32 + 31 - threadIdx.x]\n"
        "    B[threadIdx.x] = O[threadIdx.x]\n"
        "    O[threadIdx.x] = B[31 - threadIdx.x]\n",
        {"A": (256, "float32"), "B": (256, "float32")},
        2048,
    ),
    "sibling loops": (
        "for i in range(2):\n    A[i * 32 + threadIdx.x] = G[threadIdx.x]\n"
        "for i in range(2):\n    O[threadIdx.x] = A[i * 32 + 31 - threadIdx.x]\n"
        "for i in range(2):\n    B[i * 32 + threadIdx.x] = O[threadIdx.x]\n"
        "for i in range(2):\n    C[i * 32 + threadIdx.x] = B[i * 32 + 31 - threadIdx.x]\n"
        "O[threadIdx.x] = C[31 - threadIdx.x]\n",
        {"A": (512, "float32"), "B": (256, "float32"), "C": (256, "float32")},
        2048,
    ),
    "odd sizes": (
        "A[threadIdx.x] = int8(1)\nB[threadIdx.x] = int8(2)\nC[threadIdx.x] = 1.0\n"
        "O[threadIdx.x] = float32(A[31 - threadIdx.x]) + float32(B[31 - threadIdx.x])"
        " + C[31 - threadIdx.x]\n",
        {"A": (33, "int8"), "B": (41, "int8"), "C": (32, "float32")},
        212,  # 128, 48 and 33, and whole elements
    ),
    "vectors in memory": (
        "A[threadIdx.x] = broadcast(1.0, 4)\nB[threadIdx.x] = float16(2.0)\n"
        "O[threadIdx.x] = shuffle([A[31 - threadIdx.x]], [2]) + float32(B[31 - threadIdx.x])\n",
        {"B": (33, "float16"), "A": (32, "float32x4")},
        592,  # 512, 66, and whole vectors
    ),
}


def synced(body: str, sizes: Sizes, scope: str = "shared.dyn") -> PrimFunc:
    return ThreadSync(scope, merged=True)(function(body, sizes, scope))


@pytest.mark.parametrize("scope", ["shared.dyn", "shared"])
@pytest.mark.parametrize(("body", "sizes", "total"), TABLE.values(), ids=TABLE)
def test_bytes(body: str, sizes: Sizes, total: int, scope: str, same_result: SameResult) -> None:
    before = synced(body, sizes, scope)
    after = MergeSharedMemoryAllocations(static=True)(before)
    assert memory(after, scope) == [total]
    same_result(before, after)
    (kernel,) = kernels(after.body)
    assert not missing_barriers(kernel, scope, "main")


def test_the_example_of_the_seed() -> None:
    """Both lie at 0: they are not in use together, other than the seed's text says."""
    func = function(
        "A[threadIdx.x] = 0.0\nB[threadIdx.x] = 0.0\n",
        {"A": (128, "float32"), "B": (128, "float32")},
    )
    after = repr(MergeSharedMemoryAllocations()(func))
    assert 'buf_dyn_shmem = allocate((512,), uint8, "shared.dyn")' in after
    assert "A = view(buf_dyn_shmem, (128,), float32)" in after
    assert "B[threadIdx.x] = 0.0" in after


def test_planners() -> None:
    func = synced(STREAM_K, STREAM_SIZES)
    assert memory(MergeSharedMemoryAllocations(planner="best_fit")(func)) == [133120]
    assert memory(MergeSharedMemoryAllocations(planner="first_fit")(func)) == [131072]


def test_bytes_without_merging() -> None:
    func = synced(GEMM, F32)
    (kernel,) = kernels(func.body)
    assert merged_bytes(kernel, "shared.dyn") == 8192
    assert merged_bytes(kernel, "shared") == 0


def test_one_allocation_stays() -> None:
    func = function("A[threadIdx.x] = 0.0\n", {"A": (32, "float32")})
    assert MergeSharedMemoryAllocations()(func) is func


def test_static_memory_stays_unless_asked(same_result: SameResult) -> None:
    func = ThreadSync("shared", merged=True)(function(GEMM, F32, "shared"))
    assert MergeSharedMemoryAllocations()(func) is func
    after = MergeSharedMemoryAllocations(static=True)(func)
    assert memory(after, "shared") == [8192]
    same_result(func, after)


def in_pipeline(func: PrimFunc, on: bool = True) -> PrimFunc:
    with PassContext(config={"tir.merge_static_smem": on}):
        synced = ThreadSync("shared", by_config=True)(func)
        return MergeSharedMemoryAllocations(by_config=True)(synced)


def test_static_memory_in_the_pipeline(same_result: SameResult) -> None:
    """It is merged where that saves bytes, and where it can be told that barriers suffice."""
    func = function(around(GEMM), F32, "shared")
    after = in_pipeline(func)
    assert memory(after, "shared") == [8192]
    same_result(func, after)
    (kernel,) = kernels(after.body)
    assert not missing_barriers(kernel, "shared", "main")
    assert memory(in_pipeline(func, on=False), "shared") == [4096] * 3
    together = TABLE["copied from one to the other"]
    apart = in_pipeline(function(*together[:2], scope="shared"))
    assert memory(apart, "shared") == [512, 512]
    unsure = function(
        "A[threadIdx.x] = 0.0\nO[threadIdx.x] = A[threadIdx.x]\nB[31 - threadIdx.x] = 1.0\n",
        {"A": (32, "float32"), "B": (32, "float32")},
        "shared",
    )
    assert MergeSharedMemoryAllocations(by_config=True)(unsure) is unsure, "a barrier is missing"
    assert memory(in_pipeline(unsure), "shared") == [128]


def test_static_memory_needs_barriers_for_what_will_be_one(same_result: SameResult) -> None:
    """Without one between the last use of A and the first of B, threads would race."""
    body = "A[threadIdx.x] = 0.0\nO[threadIdx.x] = A[threadIdx.x]\nB[31 - threadIdx.x] = 1.0\n"
    func = function(body, {"A": (32, "float32"), "B": (32, "float32")}, "shared")
    assert ThreadSync("shared")(func) is func
    after = MergeSharedMemoryAllocations(static=True)(ThreadSync("shared", merged=True)(func))
    assert memory(after, "shared") == [128]
    same_result(func, after)
    interp.run(after, [np.zeros(4096, np.float32), np.zeros(64, np.float32)], watch=Watch())


def test_memory_of_reductions_is_static_too(same_result: SameResult) -> None:
    """LowerThreadAllreduce allocates it: behind ThreadSync its barriers are for itself alone."""
    body = (
        'R = allocate((1,), float32, "local")\n'
        'with attr(reducer("+", [x: float32], [y: float32], [x + y], [0.0]), "reduce_scope", 0):\n'
        "    tvm_thread_allreduce(uint32(1), 1.0, True, R[0], threadIdx.x)\n"
        "A[31 - threadIdx.x] = R[0]\nO[threadIdx.x] = A[threadIdx.x]\n"
    )
    func = function(body, {"A": (32, "float32")}, "shared")
    through_memory = LowerThreadAllreduce(warp_size=1)
    late = through_memory(ThreadSync("shared", merged=True)(func))
    with pytest.raises(ScheduleError, match="barriers are missing between uses of merged static"):
        MergeSharedMemoryAllocations(static=True)(late)
    before = ThreadSync("shared", merged=True)(through_memory(func))
    after = MergeSharedMemoryAllocations(static=True)(before)
    assert memory(after, "shared") == [128]
    same_result(before, after)


def test_both_spaces_have_their_own() -> None:
    body = (
        'S = allocate((32,), float32, "shared")\nT = allocate((32,), float32, "shared")\n'
        "A[threadIdx.x] = 0.0\nB[threadIdx.x] = A[0]\nS[threadIdx.x] = B[0]\n"
        "T[threadIdx.x] = S[0]\nO[0] = T[0]\n"
    )
    func = function(body, {"A": (32, "float32"), "B": (32, "float32")})
    func = ThreadSync("shared")(ThreadSync("shared.dyn")(func))
    after = MergeSharedMemoryAllocations(static=True)(func)
    assert memory(after) == [256]
    assert memory(after, "shared") == [256]


def test_two_kernels() -> None:
    kernel = """\
    with launch({axis}, 8, tag="threadIdx.x"):
        A{k} = allocate((8,), float32, "shared.dyn")
        B{k} = allocate(({count},), float32, "shared.dyn")
        A{k}[{axis}] = 1.0
        B{k}[{axis}] = A{k}[0]
        O[{axis}] = B{k}[0]
"""
    parts = [kernel.format(axis=f"t{k}", k=k, count=count) for k, count in enumerate((8, 16))]
    func = parse_func(HEAD.split("\n")[0] + "\n" + "".join(parts))
    assert memory(MergeSharedMemoryAllocations()(func)) == [64, 96]


def test_a_buffer_nobody_uses_has_no_bytes() -> None:
    func = function("A[threadIdx.x] = 0.0\n", {"A": (32, "float32"), "B": (32, "float32")})
    assert memory(MergeSharedMemoryAllocations()(func)) == [128]
    unused = function("O[0] = 0.0\n", {"A": (32, "float32"), "B": (32, "float32")})
    assert memory(MergeSharedMemoryAllocations()(unused)) == []


def calls(func: PrimFunc, op: str) -> list[tuple[Expr, ...]]:
    return [e.args for e in all_exprs(func.body) if isinstance(e, Call) and e.op == op]


USED_TOGETHER = "A[threadIdx.x] = 0.0\nB[threadIdx.x] = A[0]\n"
PAIR: Sizes = {"A": (64, "float32"), "B": (32, "float32")}


def test_pointers_move() -> None:
    body = USED_TOGETHER + (
        'call_extern("f", tvm_access_ptr(float32(0), B, 8, 4, 1, dtype=handle), dtype=int32)\n'
        'call_extern("f", address_of(B[3]), dtype=int32)\n'
        'call_extern("f", B, dtype=int32)\n'
        "O[0] = A[0]\n"
    )
    after = MergeSharedMemoryAllocations()(function(body, PAIR))
    text = repr(after)
    assert "tvm_access_ptr(0.0, buf_dyn_shmem, 72, 4, 1" in text
    assert "address_of(B[67])" in text
    (pointer,) = [e for (e,) in calls(after, "address_of") if "64" in repr(e)]
    assert repr(pointer).endswith("[64]")


def test_attributes_move() -> None:
    """Whether they are on the pointer or on a buffer over it."""
    func = function(USED_TOGETHER + "O[0] = B[0]\n", PAIR)
    (buffer,) = {
        s.buffer for s in stmts(func.body) if isinstance(s, BufferStore) and s.buffer.name == "B"
    }
    for node in (buffer.data, buffer):

        def mark(s: Stmt, node: Var | Buffer = node) -> Stmt:
            if isinstance(s, SeqStmt):
                return AttrStmt(node, "volatile_scope", IntImm(1), s)
            return map_children(s, mark)

        marked = func.with_body(mark(func.body))
        after = MergeSharedMemoryAllocations()(marked)
        (own,) = [s.buffer_var for s in stmts(after.body) if isinstance(s, Allocate)]
        (attr,) = [
            s for s in stmts(after.body) if isinstance(s, AttrStmt) and s.key == "volatile_scope"
        ]
        assert getattr(attr.node, "data", attr.node) is own


def test_offsets_of_asynchronous_copies_become_bytes(same_result: SameResult) -> None:
    body = """\
A[threadIdx.x] = G[threadIdx.x]
ptx_cp_async(B, threadIdx.x * 4, G, threadIdx.x * 4, 16, dtype=float32)
ptx_commit_group(dtype=int32)
ptx_wait_group(0, dtype=int32)
tvm_storage_sync("shared.dyn")
O[threadIdx.x] = A[31 - threadIdx.x] + B[threadIdx.x * 3]
"""
    sizes: Sizes = {"A": (32, "float32"), "B": (128, "float32")}
    before = function(body, sizes)
    after = MergeSharedMemoryAllocations(planner="best_fit")(before)
    assert memory(after) == [640]
    ((_, offset, *_),) = calls(after, "ptx_cp_async")
    assert repr(offset) == "threadIdx.x * 4 * 4 + 128"
    same_result(before, after)


def test_a_copy_in_flight_keeps_its_place() -> None:
    body = """\
ptx_cp_async(A, threadIdx.x, G, threadIdx.x, 4, dtype=float32)
ptx_commit_group(dtype=int32)
B[threadIdx.x] = 1.0
O[threadIdx.x] = B[threadIdx.x]
ptx_wait_group(0, dtype=int32)
"""
    after = MergeSharedMemoryAllocations()(function(body, PAIR))
    assert memory(after) == [384]


def test_sizes_known_at_the_launch() -> None:
    text = """\
def main(O: Buffer((64,), float32), n: int32):
    launch(threadIdx.x, 32)
    A = allocate((64,), float32, "shared.dyn")
    B = allocate((n * 3,), float16, "shared.dyn")
    C = allocate((n,), float32, "shared.dyn")
    A[threadIdx.x] = 0.0
    B[threadIdx.x] = float16(A[0])
    C[threadIdx.x] = float32(B[0])
    O[threadIdx.x] = C[threadIdx.x]
"""
    func = parse_func(text)
    after = MergeSharedMemoryAllocations()(func)
    (size,) = memory(after)
    assert isinstance(size, str) and "n" in size
    values = [np.zeros(64, np.float32)]
    interp.run(after, [*values, 33])


def test_a_size_that_the_kernel_decides() -> None:
    body = """\
for i in range(1, 4):
    C = allocate((i,), float32, "shared.dyn")
    C[0] = 0.0
    O[i] = C[0]
A[0] = 1.0
"""
    with pytest.raises(ScheduleError, match="main: the size of C depends on i, which the kernel"):
        MergeSharedMemoryAllocations()(function(body, {"A": (4, "float32")}))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            'A = allocate((4, 4), float32, "shared.dyn")\n'
            'B = allocate((4,), float32, "shared.dyn")\n'
            "A[0, 1] = 1.0\nB[0] = A[0, 1]\n",
            "an access to A has 2 indices; flatten storage first",
        ),
        (
            'A = allocate((4,), float32, "shared.dyn")\nB = allocate((4,), float32, "shared.dyn")\n'
            "V = view(A, (2,), float32, strides=(2,))\nV[1] = 1.0\nB[0] = V[1]\n",
            "an access to V has strides; flatten storage first",
        ),
    ],
)
def test_memory_that_is_not_flat(lines: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        MergeSharedMemoryAllocations()(parse_func(HEAD + textwrap.indent(lines, "    ")))


# -- random programs ----------------------------------------------------------------------------

NAMES = "ABCD"
INDICES = ("t", "7 - t", "(t + {i}) % 8", "{i} * 8 % 16 + t", "t // 2")


def random_body(rng: random.Random, depth: int = 0, variables: tuple[str, ...] = ()) -> str:
    lines = []
    for _ in range(rng.randint(2, 4)):
        kind = rng.random()
        if kind < 0.2 and depth < 2:
            var = f"i{len(variables)}{rng.randint(0, 999)}"
            inner = random_body(rng, depth + 1, (*variables, var))
            lines.append(f"for {var} in range(3):\n" + textwrap.indent(inner, "    "))
            continue
        if kind < 0.3 and depth < 2:
            condition = f"{rng.choice(variables)} < 2" if variables else "n < 5"
            inner = random_body(rng, depth + 1, variables)
            lines.append(f"if {condition}:\n" + textwrap.indent(inner, "    "))
            continue

        def place() -> str:
            i = rng.choice(variables) if variables else "1"
            return rng.choice(INDICES).format(i=i)

        name = rng.choice(NAMES)
        if kind < 0.65:
            other = rng.choice([other for other in NAMES if other != name])
            source = rng.choice(["G[t]", f"{other}[{place()}] + 1", "O[t] + 3"])
            target = place()
            value = "n" if target == "t // 2" else f"int32({source})"
            lines.append(f"{name}[{target}] = {value}\n")
        else:
            lines.append(f"O[t] = O[t] * 3 + int32({name}[{place()}])\n")
    return "".join(lines)


def random_function(seed: int) -> PrimFunc:
    rng = random.Random(seed)
    head = "def main(G: Buffer((8,), int32), O: Buffer((8,), int32), n: int32):\n"
    rows = ['launch(t, 8, tag="threadIdx.x")\n']
    for name in NAMES:
        count = rng.choice([16, 24, 40])
        rows.append(f'{name} = allocate(({count},), int32, "shared.dyn")\n')
    # Half of the memory is written at first, so that enough programs read what was written.
    started = [name for name in NAMES if rng.random() < 0.7]
    first = "".join(f"{name}[t] = G[7 - t]\n{name}[t + 8] = G[t]\n" for name in started)
    text = "".join(rows) + first + random_body(rng) + random_body(rng)
    return parse_func(head + textwrap.indent(text, "    "))


def outcome(func: PrimFunc) -> list[int]:
    arrays = [np.arange(8, dtype=np.int32) * 5 + 1, np.zeros(8, np.int32)]
    interp.run(func, [*arrays, 4], watch=Watch())
    found: list[int] = arrays[1].tolist()
    return found


def test_random_programs_compute_the_same() -> None:
    """Of those that read only what was written; every second one shares bytes."""
    compared = shared = 0
    for seed in range(60):
        try:
            before = ThreadSync("shared.dyn")(random_function(seed))
            wanted = outcome(before)
        except (UninitialisedError, ScheduleError):
            continue
        seen = {str(before)}
        for planner in ("first_fit", "best_fit"):
            after = MergeSharedMemoryAllocations(planner=planner)(before)
            if str(after) not in seen:  # another plan than the first one's
                seen.add(str(after))
                assert outcome(after) == wanted, f"seed {seed}, {planner}:\n{before}\n{after}"
                (kernel,) = kernels(after.body)
                assert not missing_barriers(kernel, "shared.dyn", "main"), seed
                (total,) = memory(after) or [0]
                used = sum(n for n in memory(before) if isinstance(n, int))
                shared += isinstance(total, int) and total < used
        compared += 1
    assert compared > 10
    assert shared > 5


@pytest.mark.parametrize(("condition", "size"), [("threadIdx.x < 16", 256), ("n < 4", 128)])
def test_threads_of_two_cases_share_no_bytes(condition: str, size: int) -> None:
    text = f"""\
def main(G: Buffer((32,), float32), O: Buffer((32,), float32), n: int32):
    launch(threadIdx.x, 32)
    A = allocate((32,), float32, "shared.dyn")
    B = allocate((32,), float32, "shared.dyn")
    if {condition}:
        A[threadIdx.x] = G[threadIdx.x]
        O[threadIdx.x] = A[threadIdx.x]
    else:
        B[31 - threadIdx.x] = G[threadIdx.x]
        O[threadIdx.x] = B[31 - threadIdx.x]
"""
    func = MergeSharedMemoryAllocations()(ThreadSync("shared.dyn")(parse_func(text)))
    assert memory(func) == [size]
    for n in (3, 5):
        g, o = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
        interp.run(func, [g, o, n], check_races=True)
        np.testing.assert_array_equal(o, g)
