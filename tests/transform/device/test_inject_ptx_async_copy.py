"""Which copies become asynchronous, and that they copy the same."""

from __future__ import annotations

import textwrap

import pytest

from autosched.errors import ScheduleError
from autosched.tir.expr import Call, Expr
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import AttrStmt
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.device.inject_ptx_async_copy import InjectPTXAsyncCopy
from autosched.transform.device.merge_shared_memory_allocations import MergeSharedMemoryAllocations
from autosched.transform.device.thread_sync import ThreadSync
from kit.types import SameResult

HEAD = """\
def main(A: Buffer((512,), {t}), B: Buffer((512,), {t}), n: int32):
    launch(threadIdx.x, 32)
    S = allocate((512,), {t}, "{scope}")
    E = view(S, (256,), {t}, strides=(2,))
    L = allocate((16,), {t}, "local")
"""
WAIT = """\
ptx_commit_group(dtype=int32)
ptx_wait_group(0)
tvm_storage_sync("shared")
B[threadIdx.x] = S[31 - threadIdx.x]
"""


def function(
    copy: str, dtype: str = "float32", scope: str = "shared", rest: str = WAIT
) -> PrimFunc:
    body = 'with attr(S, "async_scope", 1):\n' + textwrap.indent(copy, "    ") + "\n" + rest
    return parse_func(HEAD.format(t=dtype, scope=scope) + textwrap.indent(body, "    "))


def copies(func: PrimFunc) -> list[tuple[Expr, ...]]:
    found = [e for e in all_exprs(func.body) if isinstance(e, Call)]
    return [e.args for e in found if e.op == "ptx_cp_async"]


def has_scope(func: PrimFunc) -> bool:
    return any(isinstance(s, AttrStmt) and s.key == "async_scope" for s in stmts(func.body))


EIGHT = "S[ramp(threadIdx.x * 8, 1, 8)] = A[ramp(threadIdx.x * 8, 1, 8)]"
FOUR = "S[ramp(threadIdx.x * 4, 1, 4)] = "

TAKEN: dict[str, tuple[str, str, str]] = {
    "a scalar of 4 bytes": ("float32", "S[threadIdx.x] = A[threadIdx.x + 7]", "threadIdx.x + 7, 4"),
    "the seed's": (
        "float32",
        "S[threadIdx.x] = A[threadIdx.x]",
        "threadIdx.x, 4",
    ),
    "8 of 2 bytes": ("float16", EIGHT, "threadIdx.x * 8, 16"),
    "8 bytes": (
        "float64",
        "S[threadIdx.x] = A[threadIdx.x]",
        "threadIdx.x, 8",
    ),
    "where it holds": (
        "float32",
        "S[threadIdx.x] = if_then_else(threadIdx.x < n, A[threadIdx.x], 0.0)",
        "threadIdx.x < n",
    ),
    "a vector where it holds": (
        "float32",
        FOUR + "if_then_else(n < 5, A[ramp(threadIdx.x * 4, 1, 4)], broadcast(0.0, 4))",
        "n < 5",
    ),
    "the zero of integers": (
        "int32",
        "S[threadIdx.x] = if_then_else(threadIdx.x < n, A[threadIdx.x], 0)",
        "threadIdx.x < n",
    ),
    "a ramp and one place for all lanes": (
        "float32",
        "S[ramp(0, 1, 4) + broadcast(threadIdx.x * 4, 4)] = A[ramp(threadIdx.x * 4, 1, 4)]",
        "threadIdx.x * 4, 16",
    ),
}


@pytest.mark.parametrize(("dtype", "copy", "ending"), TAKEN.values(), ids=TAKEN)
def test_taken(dtype: str, copy: str, ending: str, same_result: SameResult) -> None:
    before = function(copy, dtype)
    after = InjectPTXAsyncCopy()(before)
    (arguments,) = copies(after)
    assert ", ".join(map(repr, arguments)).endswith(ending)
    assert not has_scope(after)
    same_result(before, after, 9)


KEPT: dict[str, tuple[str, str]] = {
    "2 bytes": ("float16", "S[threadIdx.x] = A[threadIdx.x]"),
    "32 bytes": ("float32", EIGHT),
    "from where it is not aligned": ("float32", FOUR + "A[ramp(threadIdx.x, 1, 4)]"),
    "to where it is not aligned": (
        "float32",
        "S[ramp(threadIdx.x * 4 + 2, 1, 4)] = A[ramp(threadIdx.x * 4, 1, 4)]",
    ),
    "another value": (
        "float32",
        "S[threadIdx.x] = if_then_else(threadIdx.x < n, A[threadIdx.x], 1.0)",
    ),
    "minus zero": (
        "float32",
        "S[threadIdx.x] = if_then_else(threadIdx.x < n, A[threadIdx.x], -0.0)",
    ),
    "the other branch": (
        "float32",
        "S[threadIdx.x] = if_then_else(threadIdx.x < n, 0.0, A[threadIdx.x])",
    ),
    "a computation": ("float32", "S[threadIdx.x] = A[threadIdx.x] + 1.0"),
    "from local memory": ("float32", "S[threadIdx.x] = L[0]"),
    "to local memory": ("float32", "L[0] = A[threadIdx.x]"),
    "every second element": ("float32", FOUR + "A[ramp(threadIdx.x, 2, 4)]"),
    "to every second element": (
        "float32",
        "S[ramp(threadIdx.x * 8, 2, 4)] = A[ramp(threadIdx.x * 4, 1, 4)]",
    ),
    "to a view of every second element": ("float32", "E[threadIdx.x] = A[threadIdx.x]"),
    "from a view of another type": (
        "int32",
        "V = view(A, (1024,), int16)\n"
        'T = allocate((64,), int16, "shared")\n'
        "T[ramp(threadIdx.x * 2, 1, 2)] = V[ramp(threadIdx.x * 2, 1, 2)]",
    ),
    "masked": (
        "float32",
        "store(S[0:4], A[0:4], predicate=ramp(threadIdx.x, 1, 4) < broadcast(n, 4))",
    ),
}


@pytest.mark.parametrize(("dtype", "copy"), KEPT.values(), ids=KEPT)
def test_kept(dtype: str, copy: str) -> None:
    after = InjectPTXAsyncCopy()(function(copy, dtype))
    assert not copies(after)
    assert not has_scope(after)
    assert repr(after).count("ptx_") == 2, "commit and wait stay"


def test_an_index_that_memory_holds_is_read_where_the_condition_holds(
    same_result: SameResult,
) -> None:
    """Rows that data choose, of a matrix whose terms no tile divides: the index ends with them."""
    text = """\
def main(A: Buffer((512,), float32), I: Buffer((20,), int32), B: Buffer((512,), float32)):
    launch(threadIdx.x, 32)
    S = allocate((32,), float32, "shared")
    with attr(S, "async_scope", 1):
        S[threadIdx.x] = if_then_else(threadIdx.x < 20, A[I[threadIdx.x] % 512], 0.0)
"""
    before = parse_func(text + textwrap.indent(WAIT, "    "))
    after = InjectPTXAsyncCopy()(before)
    assert len(copies(after)) == 1
    same_result(before, after)


def test_loops_inside(same_result: SameResult) -> None:
    copy = "for i in range(4):\n    S[i * 32 + threadIdx.x] = A[i * 32 + threadIdx.x]"
    before = function(copy)
    after = InjectPTXAsyncCopy()(before)
    assert len(copies(after)) == 1
    same_result(before, after, 0)


def test_stores_outside_stay() -> None:
    func = parse_func(HEAD.format(t="float32", scope="shared") + "    S[0] = A[0]\n    B[0] = S[0]")
    assert InjectPTXAsyncCopy()(func) is func


def test_a_scope_in_a_scope() -> None:
    copy = 'attr(S, "async_scope", 1)\nS[threadIdx.x] = A[threadIdx.x]'
    with pytest.raises(ScheduleError, match="main: an async_scope inside another one"):
        InjectPTXAsyncCopy()(function(copy))


def test_barriers_first_then_copies_then_one_memory(same_result: SameResult) -> None:
    """The order of the pipeline: offsets in elements become bytes; no barrier is missing."""
    rest = """\
T = allocate((32,), float32, "shared.dyn")
T[threadIdx.x] = A[threadIdx.x]
ptx_commit_group(dtype=int32)
ptx_wait_group(0)
B[threadIdx.x] = S[31 - threadIdx.x] + T[31 - threadIdx.x]
"""
    before = ThreadSync("shared.dyn")(
        function("S[threadIdx.x] = A[threadIdx.x]", scope="shared.dyn", rest=rest)
    )
    copied = InjectPTXAsyncCopy()(before)
    after = MergeSharedMemoryAllocations()(copied)
    assert [repr(a[1]) for a in copies(copied)] == ["threadIdx.x"]
    assert [repr(a[1]) for a in copies(after)] == ["threadIdx.x * 4"]
    same_result(before, after, 0)


def test_into_memory_that_was_merged_before(same_result: SameResult) -> None:
    """Offsets into memory of bytes count bytes."""
    text = """\
def main(A: Buffer((512,), float32), B: Buffer((512,), float32)):
    launch(threadIdx.x, 32)
    M = allocate((512,), uint8, "shared.dyn")
    S = view(M, (128,), float32)
    with attr(M, "async_scope", 1):
        S[threadIdx.x + 32] = A[threadIdx.x]
    ptx_commit_group(dtype=int32)
    ptx_wait_group(0)
    tvm_storage_sync("shared.dyn")
    B[threadIdx.x] = S[63 - threadIdx.x]
"""
    before = parse_func(text)
    after = InjectPTXAsyncCopy()(before)
    ((_, offset, *_),) = copies(after)
    assert repr(offset) == "(threadIdx.x + 32) * 4"
    same_result(before, after)
