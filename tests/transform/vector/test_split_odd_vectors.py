"""SplitOddVectors: which vectors are cut, that results stay, and what LLVM makes of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import te
from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import assembly
from autosched.driver import build, lower
from autosched.runtime.cpu import load
from autosched.target import HardwareParams, Target, cpu_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.parser import parse_func
from autosched.transform.vector.split_odd_vectors import SplitOddVectors
from kit.types import BodyText, SameResult

FIT = SplitOddVectors(vector_bytes=32)
AVX2 = Target("cpu", HardwareParams(1), 1, "haswell", "+avx2,+fma", "", 32)
AVX512 = Target("cpu", HardwareParams(1), 1, "skylake-avx512", "+avx512f,+fma", "", 64)
PARAMETERS = (
    "A: Buffer((64,), float32), H: Buffer((64,), float16), D: Buffer((64,), float64), "
    "B: Buffer((64,), float32), I: Buffer((64,), int8), F: Buffer((64,), bool)"
)

CUT = {
    "B[0:20] = A[0:20]": [8, 8, 4],
    "B[0:12] = A[ramp(3, 2, 12)] * broadcast(A[1], 12)": [8, 4],
    "B[ramp(0, 2, 24)] = A[0:24]": [8, 8, 8],
    "H[0:20] = H[0:20] + H[20:40]": [20],
    "H[0:20] = float16x20(A[0:20])": [8, 8, 4],
    "D[0:6] = D[0:6] + broadcast(D[7], 6)": [6],
    "D[0:6] = float64x6(A[0:6])": [4, 2],
    "D[0:6] = D[0:6] + D[1:7]": [6],
    "I[0:40] = I[0:40]": [32, 8],
    "B[0:9] = if_then_else(F[0:9], A[0:9], broadcast(0.0, 9))": [8, 1],
    "B[0:32] = A[0:32]": [32],
    "B[0:7] = A[0:7]": [7],
    "B[0:20] = B[0:20] + A[0:20]": [8, 8, 4],
    "B[0:20] = B[1:21]": [20],
}
"""Statements and the lanes of those that they become."""


def lanes_of(text: str) -> list[int]:
    """The lanes of each store of a body, which is to elements from 0 on."""
    found = []
    for index in re.findall(r"^\s*[A-Z]\[(.*?)\] = ", text, re.MULTILINE):
        first, colon, end = index.partition(":")
        ramp = re.fullmatch(r"ramp\(\d+, \d+, (\d+)\)", index)
        found.append(int(ramp[1]) if ramp else int(end) - int(first) if colon else 1)
    return found


@pytest.mark.parametrize("statement", CUT)
def test_which_vectors_are_cut(
    statement: str, body_text: BodyText, same_result: SameResult
) -> None:
    before = parse_func(f"def main({PARAMETERS}):\n    {statement}\n")
    after = FIT(before)
    assert lanes_of(body_text(after)) == CUT[statement]
    assert (after is before) == (len(CUT[statement]) == 1)
    same_result(before, after)


LONG = {
    "B[0:64] = A[0:64]": (4, [16]),
    "B[0:44] = A[0:44] + broadcast(A[1], 44)": (2, [16, 8, 4]),
    "B[0:20] = A[0:20]": (1, [16, 4]),
    "B[0:40] = B[0:40] + A[24:64]": (2, [16, 8]),
    "B[0:40] = B[1:41]": (1, [40]),
}
"""The same where vectors have 16 lanes at most: the rounds of the loop, then the lanes."""


@pytest.mark.parametrize("statement", LONG)
def test_long_vectors_are_cut_into_loops(
    statement: str, body_text: BodyText, same_result: SameResult
) -> None:
    before = parse_func(f"def main({PARAMETERS}):\n    {statement}\n")
    after = SplitOddVectors(vector_bytes=32, most_lanes=16)(before)
    text = body_text(after)
    rounds = re.findall(r"for lane\.o in range\((\d+), ", text)
    times, lanes = LONG[statement]
    assert [int(n) for n in rounds] == [times] * (times > 1)
    assert lanes_of(text.replace("lane.o * 16:lane.o * 16 + 16", "0:16")) == lanes
    same_result(before, after)


def test_long_vectors_with_indices_of_64_bits(same_result: SameResult, body_text: BodyText) -> None:
    before = parse_func(
        f"def main({PARAMETERS}):\n"
        "    B[ramp(int64(0), int64(1), 64)] = A[ramp(int64(63), int64(-1), 64)]\n"
    )
    after = SplitOddVectors(most_lanes=16)(before)
    assert "for lane.o in range(4" in body_text(after)
    same_result(before, after)


def test_a_vector_of_thousands_of_lanes_is_little_code() -> None:
    """84 s of LLVM's time and 35 MB of text, one exponential of 4,096."""
    A = te.placeholder((4100,), name="A")
    B = te.compute((4100,), lambda i: te.exp(A[i]), name="B")
    sch = te.create_schedule(B.op)
    sch[B].vectorize(B.op.axis[0])
    assert len(emit_llvm(lower(sch, [A, B], AVX512), AVX512)) < 1e6
    kernel = load(build(sch, [A, B], cpu_target(threads=1)))
    x = np.linspace(-4, 4, 4100).astype(np.float32)
    np.testing.assert_allclose(kernel(x), np.exp(x), rtol=1e-6)


def test_a_predicate_is_cut_with_its_store(body_text: BodyText, same_result: SameResult) -> None:
    before = parse_func(
        f"def main({PARAMETERS}):\n"
        "    store(B[0:12], load(A[0:12], predicate=F[0:12]), predicate=F[20:32])\n"
    )
    after = FIT(before)
    assert body_text(after).count("predicate=F[28:32]") == 1
    same_result(before, after)


def product(lanes: int, rows: int = 4, dtype: str = "float32") -> tuple[Schedule, list[Tensor]]:
    """Rows by columns, `lanes` of which are a vector."""
    A, B = (
        te.placeholder((8, 24), dtype, name="A"),
        te.placeholder((24, 3 * lanes), dtype, name="B"),
    )
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((8, 3 * lanes), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = te.create_schedule(C.op)
    i, j = C.op.axis
    i_outer, i_inner = sch[C].split(i, factor=rows)
    j_outer, j_inner = sch[C].split(j, factor=lanes)
    sch[C].reorder(i_outer, j_outer, C.op.reduce_axis[0], i_inner, j_inner)
    sch[C].vectorize(j_inner)
    return sch, [A, B, C]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("lanes", [3, 12, 17, 20, 28, 40, 48, 80, 100])
def test_products_of_any_number_of_lanes(lanes: int, dtype: str) -> None:
    sch, tensors = product(lanes, dtype=dtype)
    kernel = load(build(sch, tensors, cpu_target(threads=1)))
    rng = np.random.default_rng(lanes)
    a = rng.integers(-4, 5, (8, 24)).astype(dtype)
    b = rng.integers(-4, 5, (24, 3 * lanes)).astype(dtype)
    c = np.full((8, 3 * lanes), 7, dtype)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("target", "lanes"), [(AVX2, 12), (AVX2, 20), (AVX512, 20), (AVX512, 48), (AVX512, 80)]
)
def test_sums_stay_in_vector_registers(target: Target, lanes: int) -> None:
    """They were one register, or place in memory, for each lane."""
    code = assembly(emit_llvm(lower(*product(lanes), target), target), target)
    assert "vfmadd231ps" in code
    assert "vinsertps" not in code  # which makes a vector of scalars
