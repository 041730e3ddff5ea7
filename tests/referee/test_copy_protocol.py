"""Pipelines of asynchronous copies: what is proved is what the interpreter finds right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.referee.check import lowered
from autosched.referee.copy_protocol import copies, early_reads
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.parser import parse_func
from autosched.transform.device.thread_sync import kernels

SYNC = 'tvm_storage_sync("shared")'
STEPS, WIDTH = 12, 32

PIPELINE = """\
def main(A: Buffer(({length},), float32), B: Buffer(({length},), float32)):
    launch(threadIdx.x, {width})
    S = allocate(({stages} * {width},), float32, "shared")
    for a in range({ahead}):
        ptx_cp_async(S, a * {width} + threadIdx.x, A, a * {width} + threadIdx.x, 4, dtype=float32)
        ptx_commit_group(dtype=int32)
    for k in range({steps}):
        ptx_wait_group({wait}, dtype=int32)
        {before}
        if k < {steps} - {ahead}:
            ptx_cp_async(S, {filled} * {width} + threadIdx.x, A,
                (k + {ahead}) * {width} + threadIdx.x, 4, dtype=float32)
        ptx_commit_group(dtype=int32)
        B[k * {width} + threadIdx.x] = S[k % {stages} * {width} + {width} - 1 - threadIdx.x]
        {after}
    ptx_wait_group(0, dtype=int32)
"""


def pipeline(stages: int, ahead: int, wait: int, before: str, after: str) -> PrimFunc:
    text = PIPELINE.format(
        stages=stages, ahead=ahead, wait=wait, before=before, after=after, steps=STEPS,
        width=WIDTH, length=STEPS * WIDTH, filled=f"(k + {ahead}) % {stages}",
    )  # fmt: skip
    return parse_func(text.replace("A,\n                ", "A, "))


def proved(func: PrimFunc) -> bool:
    (kernel,) = kernels(func.body)
    assert copies(kernel)
    return not early_reads(kernel)


def is_right(func: PrimFunc) -> bool:
    """Whether the interpreter finds nothing early, and no race."""
    a = np.arange(STEPS * WIDTH, dtype=np.float32)
    b = np.zeros_like(a)
    try:
        interp.run(func, [a, b], check_races=True)
    except InterpreterError:
        return False
    np.testing.assert_array_equal(b.reshape(STEPS, WIDTH), a.reshape(STEPS, WIDTH)[:, ::-1])
    return True


@pytest.mark.parametrize(("stages", "ahead"), [(2, 1), (3, 1), (3, 2), (4, 3), (3, 3), (2, 2)])
def test_pipelines_are_proved_where_they_are_right(stages: int, ahead: int) -> None:
    found = set()
    for wait, before, after in itertools.product(range(4), (SYNC, ""), (SYNC, "")):
        if before == after == "":
            continue
        func = pipeline(stages, ahead, wait, before or "evaluate(0)", after or "evaluate(0)")
        found.add(is_right(func))
        assert proved(func) == is_right(func), (wait, before, after)
    assert found == ({True, False} if ahead < stages else {False})


def test_a_part_that_is_filled_in_the_place_of_another_is_not_proved() -> None:
    text = str(pipeline(3, 2, 1, SYNC, SYNC))
    assert proved(parse_func(text))
    assert "(k + 2) % 3" in text
    for wrong in ("(k + 1) % 3", "k % 3", "(k + 2) % 4"):
        assert not proved(parse_func(text.replace("(k + 2) % 3", wrong))), wrong


def test_groups_that_are_not_committed_any_more_are_not_counted() -> None:
    """At the end of the data nothing is copied: who waits for all but one needs an empty group."""
    lines = str(pipeline(3, 2, 1, SYNC, SYNC)).split("\n")
    (copy,) = (k for k, line in enumerate(lines) if "(k + 2) % 3" in line)
    assert "ptx_commit_group" in lines[copy + 1]
    lines[copy + 1] = " " * 4 + lines[copy + 1]
    func = parse_func("\n".join(lines))
    assert (proved(func), is_right(func)) == (False, False)


@pytest.mark.parametrize(
    ("guard", "index", "is_proved"),
    [
        ("threadIdx.x < 8", "threadIdx.x * 4", True),  # of 32 threads eight copy 16 bytes each
        ("threadIdx.x < 9", "threadIdx.x * 4", False),
        ("threadIdx.x < 8", "threadIdx.x * 4 + 1", False),  # by one element
        ("i * 3 + threadIdx.x < 8", "i * 12 + threadIdx.x * 4", True),
        ("i * 3 + threadIdx.x < 9", "i * 12 + threadIdx.x * 4", False),
        ("i * 3 - threadIdx.x < 8", "i * 12 + threadIdx.x * 4", False),
        ("threadIdx.x < 8", "bitwise_xor(threadIdx.x * 4, i * 4)", True),
        ("threadIdx.x < 8", "bitwise_xor(threadIdx.x * 4, i * 32)", False),
        ("threadIdx.x < 8", "bitwise_xor(threadIdx.x * 4, i)", False),  # past the end by three
        ("threadIdx.x < 6", "bitwise_xor(threadIdx.x * 4, i * 4) + 8", True),  # 20 at most
        ("threadIdx.x < 7", "bitwise_xor(threadIdx.x * 4, i * 4) + 8", False),
        ("i * 3 + threadIdx.x < 8", "bitwise_xor(i * 12 + threadIdx.x * 4, i * 4)", True),
        ("i * 3 + threadIdx.x < 9", "bitwise_xor(i * 12 + threadIdx.x * 4, i * 4)", False),
        ("threadIdx.x < 8", "max(i * 32 + threadIdx.x * 4, i * 32 + 4) - i * 32", True),
        ("threadIdx.x < 9", "max(i * 32 + threadIdx.x * 4, i * 32 + 4) - i * 32", False),
        ("threadIdx.x < 8", "i * 32 + 32 - max(i * 32 + threadIdx.x * 4, i * 32 + 4)", True),
        ("threadIdx.x < 8", "if_then_else(i < threadIdx.x, threadIdx.x * 4, i * 4)", True),
        ("threadIdx.x < 8", "I[threadIdx.x]", False),
    ],
)
def test_what_a_copy_fills_is_bounded_by_conditions(
    guard: str, index: str, is_proved: bool
) -> None:
    """The other half of S is read while the copy is under way."""
    func = parse_func(f"""
def main(A: Buffer((256,), float32), B: Buffer((64,), float32), I: Buffer((64,), int32)):
    launch(threadIdx.x, 32)
    S = allocate((64,), float32, "shared")
    S[threadIdx.x + 32] = A[threadIdx.x]
    tvm_storage_sync("shared")
    for i in range(2):
        if {guard}:
            ptx_cp_async(S, {index}, A, threadIdx.x * 4, 16, dtype=float32)
    ptx_commit_group(dtype=int32)
    B[threadIdx.x] = S[63 - threadIdx.x]
    ptx_wait_group(0, dtype=int32)
""")
    assert proved(func) == is_proved


@pytest.mark.parametrize(
    "args",
    [
        {"M": 512, "N": 512, "K": 512, "in_dtype": "float16", "acc_dtype": "float32"},
        {"M": 500, "N": 300, "K": 700},
    ],
)
def test_candidates_are_proved(args: dict[str, Any]) -> None:
    """Of pipelines, which are nearly all that copy asynchronously, none was."""
    task = Task.from_workload("matmul", target="cuda", **args)
    asked = 0
    for steps in SearchSpace(task).sample(np.random.default_rng(1), 8):
        try:
            func = lowered(task, steps)[1]
        except ScheduleError:
            continue
        for kernel in kernels(func.body):
            if copies(kernel):
                asked += 1
                assert not early_reads(kernel)
    assert asked > 1


def test_reads_that_stop_at_the_border_are_proved() -> None:
    """An index of shared memory has a maximum in it, of the slot and of other loops."""
    expr = "Y[i, o] = sum(k, c, X[clip(i + k - 1, 0, 63), c] * W[k, c, o])"
    shapes = {"X": (64, 32), "W": (3, 32, 64), "Y": (64, 64)}
    task = Task.from_expression(expr, shapes, target="cuda")
    asked = 0
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 12):
        for kernel in kernels(lowered(task, steps)[1].body):
            asked += copies(kernel)
            assert not early_reads(kernel)
    assert asked > 3
