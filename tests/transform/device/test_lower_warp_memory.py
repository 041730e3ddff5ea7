"""Memory of a warp dealt out to its threads: the sizes, the shuffles, and the same results."""

from __future__ import annotations

import textwrap

import pytest

from autosched.errors import ScheduleError
from autosched.tir.expr import Call, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.device.lower_warp_memory import LowerWarpMemory
from kit.types import SameResult

HEAD = """\
def main(A: Buffer((256,), float32), B: Buffer((256,), float32), n: int32):
    launch(threadIdx.x, {width})
    S = allocate(({size},), float32, "warp")
"""


def function(store: str, load: str, size: int = 64, width: int = 32) -> PrimFunc:
    body = store + '\ntvm_storage_sync("warp")\n' + load
    return parse_func(HEAD.format(size=size, width=width) + textwrap.indent(body, "    "))


def local(func: PrimFunc) -> int:
    """The elements of each thread."""
    (memory,) = [s for s in stmts(func.body) if isinstance(s, Allocate)]
    assert memory.buffer_var.scope == "local"
    (size,) = memory.extents
    assert isinstance(size, IntImm)
    return size.value


def shuffles(func: PrimFunc) -> list[str]:
    calls = [e for e in all_exprs(func.body) if isinstance(e, Call)]
    return [repr(e.args[2:]) for e in calls if e.op == "tvm_warp_shuffle"]


ROWS = "for i in range(2):\n    S[i * 32 + threadIdx.x] = A[i * 32 + threadIdx.x]"
PAIRS = "for i in range(2):\n    S[threadIdx.x * 2 + i] = A[threadIdx.x * 2 + i]"
ONE = "S[threadIdx.x] = A[threadIdx.x]"

CASES: dict[str, tuple[str, str, int, int, int, str]] = {
    "rows": (
        ROWS,
        "for i in range(2):\n    B[i * 32 + threadIdx.x] = S[i * 32 + (threadIdx.x + 1) % 32]",
        64,
        32,
        2,
        "((threadIdx.x + 1) % 32, 32, 32)",
    ),
    "pairs": (
        PAIRS,
        "for i in range(2):\n    B[threadIdx.x * 2 + i] = S[(threadIdx.x + 3) % 32 * 2 + i]",
        64,
        32,
        2,
        "((threadIdx.x + 3) % 32, 32, 32)",
    ),
    "sixteen threads": (
        ONE,
        "B[threadIdx.x] = S[15 - threadIdx.x]",
        16,
        16,
        1,
        "(15 - threadIdx.x, 16, 32)",
    ),
    "one thread for all": (ONE, "B[threadIdx.x] = S[5]", 32, 32, 1, "(5, 32, 32)"),
    "one element too many for one each": (
        ONE,
        "B[threadIdx.x] = S[31 - threadIdx.x]",
        33,
        32,
        2,
        "(31 - threadIdx.x, 32, 32)",
    ),
}


@pytest.mark.parametrize(
    ("store", "load", "size", "width", "each", "shuffle"), CASES.values(), ids=CASES
)
def test_shuffles(
    store: str,
    load: str,
    size: int,
    width: int,
    each: int,
    shuffle: str,
    same_result: SameResult,
) -> None:
    before = function(store, load, size, width)
    after = LowerWarpMemory()(before)
    assert local(after) == each
    assert shuffles(after) == [shuffle]
    same_result(before, after, 3)


@pytest.mark.parametrize(
    ("store", "load"),
    [
        (ROWS, "for i in range(2):\n    B[i * 32 + threadIdx.x] = S[i * 32 + threadIdx.x]"),
        (PAIRS, "for i in range(2):\n    B[threadIdx.x * 2 + i] = S[threadIdx.x * 2 + i]"),
        (
            "S[ramp(threadIdx.x * 2, 1, 2)] = A[ramp(threadIdx.x * 2, 1, 2)]",
            "B[ramp(threadIdx.x * 2, 1, 2)] = S[ramp(threadIdx.x * 2, 1, 2)]",
        ),
    ],
    ids=["rows", "pairs", "vectors"],
)
def test_a_thread_reads_its_own_without_shuffles(
    store: str, load: str, same_result: SameResult
) -> None:
    before = function(store, load)
    after = LowerWarpMemory()(before)
    assert local(after) == 2
    assert not shuffles(after)
    same_result(before, after, 3)


def test_lanes_that_take_part() -> None:
    """The mask names the threads that there are; it is no question to the hardware."""
    after = LowerWarpMemory()(function(ONE, "B[threadIdx.x] = S[3 - threadIdx.x]", 4, 4))
    assert "tvm_warp_shuffle(uint32(15)," in repr(after)


def test_a_condition_all_threads_meet_alike(same_result: SameResult) -> None:
    load = "if n < 5:\n    B[threadIdx.x] = S[31 - threadIdx.x]"
    before = function(ONE, load, 32)
    same_result(before, LowerWarpMemory()(before), 3)


def test_warps_of_one_thread_stay() -> None:
    func = function(ROWS, "B[threadIdx.x] = S[threadIdx.x]")
    assert LowerWarpMemory(warp_size=1)(func) is func


def test_other_memory_stays() -> None:
    text = HEAD.format(size=4, width=32).replace('"warp"', '"shared"') + "    S[0] = A[0]\n"
    func = parse_func(text)
    assert LowerWarpMemory()(func) is func


OWN = "B[threadIdx.x] = S[threadIdx.x]"


@pytest.mark.parametrize(
    ("store", "load", "width", "message"),
    [
        ("S[31 - threadIdx.x] = 1.0", OWN, 32, "a positive multiple of threadIdx.x, found 31 -"),
        ("S[0] = 1.0", OWN, 32, "a positive multiple of threadIdx.x, found 0"),
        ("S[threadIdx.x + 1] = 1.0", OWN, 32, "a thread stores into the part of thread"),
        (ONE + "\nS[threadIdx.x * 2] = 1.0", OWN, 32, r"need one factor, found \[1, 2\]"),
        (ONE, OWN, 24, "a constant extent that divides a warp of 32 threads, found 24"),
        (ONE, OWN, 64, "a constant extent that divides a warp of 32 threads, found 64"),
        (
            PAIRS,
            "B[threadIdx.x] = S[threadIdx.x]",
            32,
            "must not depend on the loading thread",
        ),
        (
            ONE,
            "if threadIdx.x < 7:\n    B[threadIdx.x] = S[31 - threadIdx.x]",
            32,
            "stands under threadIdx.x < 7, which not all threads of a warp meet alike",
        ),
        (
            ONE,
            "B[threadIdx.x] = if_then_else(threadIdx.x < 7, S[31 - threadIdx.x], 0.0)",
            32,
            "stands under threadIdx.x < 7",
        ),
        (
            ONE,
            'call_extern("f", S, dtype=int32)',
            32,
            "the pointer S is used as such",
        ),
        (
            "S[ramp(threadIdx.x, 1, 2)] = A[0:2]",
            OWN,
            32,
            "must begin at a multiple of its lanes",
        ),
        ("S[ramp(threadIdx.x * 4, 2, 2)] = A[0:2]", OWN, 32, "must go to neighbours"),
        (
            "with V = declare(S, (8,), float32, strides=(2,)):\n    V[threadIdx.x] = 1.0",
            OWN,
            32,
            "the access to V is not flat",
        ),
    ],
)
def test_refused(store: str, load: str, width: int, message: str) -> None:
    with pytest.raises(ScheduleError, match=f"LowerWarpMemory: main: .*{message}"):
        LowerWarpMemory()(function(store, load, 64, width))


def test_without_threads() -> None:
    text = """\
def main(A: Buffer((256,), float32)):
    launch(blockIdx.x, 4)
    S = allocate((32,), float32, "warp")
    S[0] = A[0]
"""
    with pytest.raises(ScheduleError, match="cannot find the warp index"):
        LowerWarpMemory()(parse_func(text))
