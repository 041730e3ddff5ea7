"""JoinRows: which sums become one, that results stay, and what LLVM makes of them."""

from __future__ import annotations

import re
from typing import Any

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
from autosched.tir import interp
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.vector.join_rows import JoinRows
from kit.types import SameResult

AVX512 = Target("cpu", HardwareParams(1), 1, "skylake-avx512", "+avx512f,+avx512vl,+fma", "", 64)
ROWS = """
def main(A: Buffer((200,), float32), B: Buffer((200,), float32), H: Buffer((200,), float16), \
K: Buffer((8,), float32), \
C: Buffer((16,), float32)):
    C.acc = allocate((16,), float32, "local")
    C.acc[0:3] = broadcast(0.0, 3)
    C.acc[3:6] = broadcast(0.0, 3)
    for k in range(4):
        C.acc[0:3] = C.acc[0:3] + A[ramp(k * 9, 1, 3)] * broadcast(K[k], 3)
        C.acc[3:6] = C.acc[3:6] + A[ramp(k * 9 + 5, 1, 3)] * broadcast(K[k], 3)
    C[0:3] = C.acc[0:3]
    C[3:6] = max(C.acc[3:6], C[3:6])
"""
_, HEAD, _, _, START, LOOP, FIRST, SECOND, END, _ = ROWS.splitlines()
THIRD = SECOND.replace("acc[3:6]", "acc[6:9]").replace("+ 5", "+ 16")
MORE = "\n".join(step.replace("(k * 9", "(k * 9 + 100") for step in (FIRST, SECOND))

JOINED: dict[str, tuple[dict[str, str], str]] = {
    "as they are": ({}, "0:8"),
    "the second first": ({FIRST: SECOND, SECOND: FIRST}, "0:8"),
    "the second in front in memory": ({"(k * 9,": "(k * 9 + 5,", "(k * 9 + 5,": "(k * 9,"}, "0:8"),
    "one behind the other": ({"k * 9 + 5": "k * 9 + 3"}, "0:6"),
    "no register has both": ({"k * 9 + 5": "k * 9 + 6"}, ""),
    "rows that overlap": ({"k * 9 + 5": "k * 9 + 2"}, ""),
    "another distance in each round": ({"k * 9 + 5": "k * 8 + 5"}, ""),
    "two weights": ({SECOND: SECOND.replace("K[k]", "K[k + 1]")}, ""),
    "another operand": ({SECOND: SECOND.replace("A[", "B[")}, ""),
    "another start": ({START: START.replace("0.0", "1.0")}, ""),
    "started from memory": ({START: "    C.acc[3:6] = B[0:3]"}, ""),
    "started twice": ({START: f"{START}\n{START}"}, ""),
    "a part is looked at": ({END: "    C[0:2] = C.acc[0:2]"}, ""),
    "a store between": ({SECOND: f"        C[9] = 1.0\n{SECOND}"}, ""),
    "another sum": ({START: f"{START}\n    C.acc[6:9] = broadcast(0.0, 3)"}, "0:8"),
    "a third far away": (
        {
            START: f"{START}\n    C.acc[6:9] = broadcast(0.0, 3)",
            SECOND: f"{SECOND}\n{THIRD}",
            END: f"{END}\n    C[6:9] = C.acc[6:9]",
        },
        "0:8",
    ),
    "a quotient": ({" * broadcast": " / broadcast"}, ""),
    "converted": ({"+ A": "+ float32x3(H", ")] *": ")]) *"}, "0:8"),
    "every other element": ({"k * 9 + 5, 1": "k * 9 + 5, 2"}, ""),
    "two terms": ({SECOND: f"{SECOND}\n{MORE}"}, "0:8"),
    "two terms, not alike": ({SECOND: f"{SECOND}\n{MORE.replace('+ 5', '+ 4')}"}, ""),
}
"""What is replaced, and the lanes of the sum that both become."""


@pytest.mark.parametrize("case", JOINED)
def test_which_sums_are_joined(case: str, same_result: SameResult) -> None:
    replaced, lanes = JOINED[case]
    text = ROWS
    for number, old in enumerate(replaced):
        assert old in text
        text = text.replace(old, f"<{number}>")
    for number, new in enumerate(replaced.values()):
        text = text.replace(f"<{number}>", new)
    before = parse_func(text)
    after = JoinRows(vector_bytes=32)(before)
    assert set(re.findall(r"acc\.rows\[(\S+)\] =", to_text(after))) == ({lanes} if lanes else set())
    assert bool(lanes) or after is before
    same_result(before, after)


def test_as_many_as_a_register_holds(same_result: SameResult) -> None:
    """Five rows of two elements with one between: three are one register, two the next."""
    slots = [f"C.acc[{2 * r}:{2 * r + 2}]" for r in range(5)]
    loads = [f"A[ramp(k * 20 + {3 * r}, 1, 2)]" for r in range(5)]
    lines = [HEAD, '    C.acc = allocate((16,), float32, "local")']
    lines += [f"    {slot} = broadcast(0.0, 2)" for slot in slots]
    lines += [LOOP]
    for slot, loaded in zip(slots, loads, strict=True):
        lines += [f"        {slot} = {slot} + broadcast(K[k], 2) * {loaded}"]
    lines += [f"    {slot.replace('.acc', '')} = {slot}" for slot in slots]
    before = parse_func("\n".join(lines))
    after = JoinRows(vector_bytes=32)(before)
    assert re.findall(r"acc\.rows\[(\S+)\] = broadcast", to_text(after)) == ["0:8", "8:13"]
    assert "C.acc = " not in to_text(after)
    same_result(before, after)


def convolution(
    width: int, window: int, stride: int, dtype: str, channels: int = 4
) -> tuple[Schedule, list[Tensor]]:
    """Of an image with a border, rows of it in vectors."""
    size = (width - 1) * stride + window
    A = te.placeholder((3, size, size), dtype, name="A")
    K = te.placeholder((channels, 3, window, window), dtype, name="K")
    c, r, s = (te.reduce_axis((0, n), name) for n, name in ((3, "c"), (window, "r"), (window, "s")))

    def value(o: Any, h: Any, w: Any) -> Any:
        return te.sum(A[c, h * stride + r, w * stride + s] * K[o, c, r, s], axis=[c, r, s])

    B = te.compute((channels, width, width), value, name="B")
    sch = te.create_schedule(B.op)
    o, h, w = B.op.axis
    sch[B].reorder(*B.op.reduce_axis, o, h, w)
    sch[B].vectorize(w)
    return sch, [A, K, B]


DTYPES = ["float32", "int32", "float64", "float16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("width", "window", "stride"), [(7, 3, 1), (3, 3, 1), (2, 2, 1), (5, 1, 1),
                         (4, 3, 1), (7, 5, 1), (3, 3, 2), (6, 2, 1)])  # fmt: skip
def test_convolutions_of_small_images(width: int, window: int, stride: int, dtype: str) -> None:
    """In registers of 16, 32 or 64 bytes: of each shape all, and of each type; and of this CPU."""
    sch, tensors = convolution(width, window, stride, dtype)
    rng = np.random.default_rng(width)
    a, k = (
        rng.integers(-3, 4, [e.value for e in t.shape]).astype(dtype)  # type: ignore[attr-defined]
        for t in tensors[:2]
    )
    windows = np.lib.stride_tricks.sliding_window_view(a, (window, window), axis=(1, 2))
    expected = np.einsum("chwrs,ocrs->ohw", windows[:, ::stride, ::stride], k)
    vector_bytes = (16, 32, 64)[(width + window + stride + DTYPES.index(dtype)) % 3]
    target = Target("cpu", HardwareParams(4), 4, "x86-64", "", "", vector_bytes)
    found = np.full(expected.shape, 7, dtype)
    interp.run(lower(sch, tensors, target), [a, k, found])
    np.testing.assert_array_equal(found, expected)
    found = np.full(expected.shape, 7, dtype)
    load(build(sch, tensors, cpu_target(threads=1)))(a, k, found)
    np.testing.assert_array_equal(found, expected)


def test_a_register_has_two_rows() -> None:
    """16 lanes are multiplied and added up, and nothing is chosen from registers in the loop."""
    sch, tensors = convolution(7, 3, 1, "float32", channels=8)
    code = assembly(emit_llvm(lower(sch, tensors, AVX512), AVX512), AVX512)
    assert re.search(r"vfmadd231ps\s.*%zmm", code)
    assert not re.search(r"vfmadd231ps\s.*%xmm", code)  # scalars
