"""Swizzled memory holds the same, and columns of it meet no bank twice."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.tir import interp
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.swizzle import Swizzle, swizzle_for
from autosched.transform.device.swizzle_shared import SwizzleShared

TEXT = """\
def main(A: Buffer((2048,), float16), B: Buffer((2048,), float16)):
    launch(threadIdx.x, 32)
    S = allocate((2048,), float16, "shared")
    a = allocate((8,), float16, "local")
    pragma(None, "swizzle", "{swizzle}")
    for i in range(8):
        S[ramp((i * 32 + threadIdx.x) * 8, 1, 8)] = A[ramp((i * 32 + threadIdx.x) * 8, 1, 8)]
    tvm_storage_sync("shared")
    for i in range({columns}):
        for j in range({blocks}):
            ptx_ldmatrix(0, 4, ".b16", a, 0, S, (j * 32 + threadIdx.x) * {row} + i * 8, dtype=float16)
            for k in range(8):
                B[((i * {blocks} + j) * 32 + threadIdx.x) * 8 + k] = a[k]
"""  # noqa: E501


def conflicts(text: str) -> tuple[np.ndarray, float]:
    """What B holds, and the passes of a request of ldmatrix."""
    func = SwizzleShared()(parse_func(text))
    a, b = np.arange(2048, dtype=np.float16), np.zeros(2048, np.float16)
    watch = Watch(outputs={"B"}, counting=True)
    interp.run(func, [a, b], watch=watch)
    ((_, count),) = [(k, c) for k, c in watch.counts.items() if k[1] == "S" and not k[2]]
    return b, count.conflict_degree


@pytest.mark.parametrize(("row", "plain"), [(16, 2), (32, 4), (64, 8)])
def test_columns_meet_all_banks(row: int, plain: int) -> None:
    """Rows of 32, 64 and 128 bytes, loaded eight at a time by ldmatrix."""
    found = swizzle_for(row, 2)
    text = TEXT.format(swizzle=found, columns=row // 8, blocks=64 // row, row=row)
    body = text.splitlines(keepends=True)
    without = "".join(line for line in body if "pragma" not in line)
    (same, degree), (want, before) = conflicts(text), conflicts(without)
    np.testing.assert_array_equal(same, want)
    assert (degree, before) == (1, plain)


def test_the_rows_that_need_one() -> None:
    assert swizzle_for(8, 2) is None and swizzle_for(48, 2) is None
    assert swizzle_for(128, 2) == Swizzle(3, 3, 7) and swizzle_for(128, 1) == Swizzle(3, 4, 7)


LDMATRIX = 'ptx_ldmatrix(0, 4, ".b16", a, 0, {}, (j * 32 + threadIdx.x) * 64 + i * 8'
ROWS = "        ptx_mma_store(S, 0, 64, a, 0, dtype=float16)\n        for j"
POINTER = '        call_extern("f", S)\n        for j'
REFUSED = {
    "no numbers": ("3 x 6", "", "", "expected 'bits base source', found '3 x 6'"),
    "bits mixed with themselves": ("3 3 5", "", "", "source must be at least"),
    "a size that is no multiple": ("3 3 6", "S = allocate((2048,)", "S = allocate((2040,)", "2040"),
    "a vector across pieces": ("3 2 6", "", "", "vectorize less"),
    "a row of ldmatrix across pieces": (
        "3 2 6",
        "S[ramp((i * 32 + threadIdx.x) * 8, 1, 8)] = A[ramp((i * 32 + threadIdx.x) * 8, 1, 8)]",
        "S[i * 32 + threadIdx.x] = A[i * 32 + threadIdx.x]",
        "ptx_ldmatrix of S moves more than the 4 elements",
    ),
    "a view that begins elsewhere": (
        "3 3 6",
        "        for j",
        "        with V = declare(S, (64,), float16, elem_offset=8):\n"
        "            V[threadIdx.x] = float16(0.0)\n        for j",
        "V does not begin where its memory does",
    ),
    "rows at a distance": ("3 3 6", "        for j", ROWS, "ptx_mma_store of S moves more than"),
    "a bare pointer": ("3 3 6", "        for j", POINTER, "the address of S is used as a value"),
    "the address of an element": (
        "3 3 6",
        LDMATRIX.format("S"),
        LDMATRIX.format("address_of(S[0], dtype=handle)"),
        "the address of S is used as a value",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    swizzle, old, new, message = REFUSED[case]
    text = TEXT.format(swizzle=swizzle, columns=8, blocks=1, row=64).replace(old, new)
    with pytest.raises(ScheduleError, match=message):
        SwizzleShared()(parse_func(text))


def test_wgmma_finds_its_elements_by_itself() -> None:
    """Its places stay as they are; another swizzle than its own is refused."""
    text = """\
def main(A: Buffer((4096,), float16), B: Buffer((4096,), float16)):
    launch(threadIdx.x, 128)
    C = allocate((1024,), float32, "wmma.accumulator")
    S = allocate((4096,), float16, "shared")
    T = allocate((4096,), float16, "shared")
    pragma(None, "swizzle", "3 3 6")
    for i in range(32):
        S[i * 128 + threadIdx.x] = A[i * 128 + threadIdx.x]
        T[i * 128 + threadIdx.x] = B[i * 128 + threadIdx.x]
    ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, S, 0, T, 0, 0, 0, 0, dtype=float32)
"""
    found = to_text(SwizzleShared()(parse_func(text)))
    assert (
        'ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, S, 0, T, 0, 0, 1, 0, dtype=float32)'
        in found
    )
    with pytest.raises(ScheduleError, match="the swizzle 3 3 6, found 2 3 6"):
        SwizzleShared()(parse_func(text.replace("3 3 6", "2 3 6")))
