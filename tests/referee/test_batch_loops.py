"""Loops as vectors: what comes out is the same to the bit, and what depends on order stays."""

from __future__ import annotations

import inspect
import textwrap

import numpy as np
import pytest

from autosched.referee import batch_loops as module
from autosched.referee.batch_loops import batch_loops
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text

HEAD = """\
def main(A: Buffer((256,), float32), B: Buffer((256,), float32)):
    launch(blockIdx.x, 2)
    launch(threadIdx.x, 8)
    C = allocate((64,), float32, "local")
    S = allocate((64,), float32, "shared")
    for z in range(64):
        C[z] = A[z + threadIdx.x]
    tvm_storage_sync("shared")
"""
TAIL = """\
for y in range(16):
    B[blockIdx.x * 128 + threadIdx.x * 16 + y] = C[y]
"""


def function(body: str) -> PrimFunc:
    return parse_func(HEAD + textwrap.indent(textwrap.dedent(body) + TAIL, "    "))


def results(func: PrimFunc) -> list[float]:
    a = np.random.default_rng(0).normal(size=256).astype(np.float32)
    b = np.zeros(256, np.float32)
    interp.run(func, [a, b])
    found: list[float] = b.tolist()
    return found


INDEPENDENT = {
    "one loop": """\
for i in range(8):
    C[i] = C[i] * A[i + 3]
""",
    "a tile of two loops around nothing else": """\
for i in range(4):
    for j in range(4):
        C[i * 4 + j] = C[i * 4 + j] + A[threadIdx.x * 4 + i] * A[j]
""",
    "a reduction inside": """\
for i in range(4):
    for k in range(5):
        C[i] = C[i] + A[k * 4 + i] * A[threadIdx.x + k]
""",
    "two statements on parts of one buffer": """\
for i in range(4):
    C[i] = C[i] + A[i]
    C[i + 4] = C[i + 4] * A[i]
""",
    "a cooperative fetch": """\
for i in range(4):
    S[i * 8 + threadIdx.x] = if_then_else(2 <= i * 8 + threadIdx.x, A[i * 8 + threadIdx.x - 2], 0.0)
tvm_storage_sync("shared")
C[0] = S[threadIdx.x]
""",
    "steps that are not whole": """\
for i in range(4):
    for j in range(2):
        C[i * 9 + j * 2] = A[i * 2 + j]
""",
}
DEPENDENT = {
    "the next element": """\
for i in range(8):
    C[i + 1] = C[i] + A[i]
""",
    "one element for all": """\
for i in range(8):
    C[0] = C[0] + A[i]
""",
    "elements that meet": """\
for i in range(4):
    for j in range(4):
        C[i * 2 + j] = C[i * 2 + j] + A[i * 4 + j]
""",
    "what another statement writes later": """\
for i in range(4):
    C[i] = A[i]
    C[i + 2] = C[i + 2] * A[i]
""",
    "an index that jumps": """\
for i in range(8):
    C[i % 3] = C[i % 3] + A[i]
""",
    "another step": """\
for i in range(4):
    C[i * 2] = C[i] + A[i]
""",
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_iterations_become_lanes(name: str) -> None:
    func = function(INDEPENDENT[name])
    batched = batch_loops(func)
    middle = to_text(batched).split("tvm_storage_sync", 1)[1]
    assert "for i in" not in middle and "for j in" not in middle
    assert results(batched) == results(func)


@pytest.mark.parametrize("name", DEPENDENT)
def test_iterations_that_meet_stay_in_order(name: str) -> None:
    func = function(DEPENDENT[name])
    batched = batch_loops(func)
    assert "for i in" in to_text(batched)
    assert results(batched) == results(func)


def test_the_docstring_shows_what_happens() -> None:
    text = inspect.getdoc(module)
    assert text is not None
    before, after = text.split("before:\n")[1].split("after:\n")
    after = after.split("\n\nEvery element")[0]
    func = parse_func(textwrap.dedent(before))
    assert to_text(batch_loops(func)).strip() == textwrap.dedent(after).strip()


def test_without_such_loops_the_function_stays() -> None:
    head = "def main(A: Buffer((4,), float32)):\n    launch(threadIdx.x, 4)\n"
    func = parse_func(head + "    A[threadIdx.x] = 0.0\n")
    assert batch_loops(func) is func
