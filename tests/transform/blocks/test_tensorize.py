"""Tensor intrinsics: what a description matches, what stands there instead, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ConfigError, ScheduleError
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import For
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.blocks.tensorize import TensorIntrin, tensorize
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import FROM_BLOCKS
from kit.types import Array, SameResult

MATMUL = """
def main(A: Buffer((2, 8, 12), float32), B: Buffer((2, 12, 8), float32), C: Buffer((2, 8, 8), \
float32)):
    for b in range(2):
        for io in range(2):
            for jo in range(2):
                for ko in range(3):
                    for i in range(4):
                        for j in range(1, 5):
                            for k in range(4):
                                with block("C"):
                                    vb = axis.data_par(0:2, b)
                                    vi = axis.data_par(0:8, io * 4 + i)
                                    vj = axis.data_par(0:8, jo * 4 + j - 1)
                                    vk = axis.reduce(0:12, ko * 4 + k)
                                    where(b < 2)
                                    reads(A[vb:vb + 1, vi:vi + 1, vk:vk + 1], \
B[vb:vb + 1, vk:vk + 1, vj:vj + 1])
                                    writes(C[vb:vb + 1, vi:vi + 1, vj:vj + 1])
                                    with init():
                                        C[vb, vi, vj] = 0.0
                                    C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vk, vj]
"""

DESCRIPTION = """
def mma(A: Buffer((4, 4), float32), B: Buffer((4, 4), float32), C: Buffer((4, 4), float32)):
    with block("root"):
        reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        writes(C[0:4, 0:4])
        for i in range(4):
            for j in range(4):
                for k in range(4):
                    with block("mma"):
                        vi = axis.data_par(0:4, i)
                        vj = axis.data_par(0:4, j)
                        vk = axis.reduce(0:4, k)
                        reads(A[vi:vi + 1, vk:vk + 1], B[vk:vk + 1, vj:vj + 1])
                        writes(C[vi:vi + 1, vj:vj + 1])
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

IMPLEMENTATION = """
def mma_call[a: int32, a0: int32, b: int32, b0: int32, c: int32, c0: int32](\
A: Buffer((4, 4), float32, strides=(a0, 1), elem_offset=a, offset_factor=4), \
B: Buffer((4, 4), float32, strides=(b0, 1), elem_offset=b), \
C: Buffer((4, 4), float32, strides=(c0, 1), elem_offset=c)):
    with block("root"):
        reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        writes(C[0:4, 0:4])
        call_extern("test_tensorize.mma", tvm_access_ptr(0.0, C, c, c0 * 4, 3, dtype=handle), c0, \
tvm_access_ptr(0.0, A, a, a0 * 4, 1, dtype=handle), a0, \
tvm_access_ptr(0.0, B, b, b0 * 4, 1, dtype=handle), b0, dtype=int32)
"""

REPLACED = """\
                    with block("C_o"):
                        vb_o = axis.data_par(0:2, b)
                        vi_o = axis.data_par(0:8, io * 4)
                        vj_o = axis.data_par(0:8, jo * 4 + 1 - 1)
                        vk_o = axis.reduce(0:12, ko * 4)
                        where(b < 2)
                        reads(C[vb_o:vb_o + 1, vi_o:vi_o + 4, vj_o:vj_o + 4], \
A[vb_o:vb_o + 1, vi_o:vi_o + 4, vk_o:vk_o + 4], B[vb_o:vb_o + 1, vk_o:vk_o + 4, vj_o:vj_o + 4])
                        writes(C[vb_o:vb_o + 1, vi_o:vi_o + 4, vj_o:vj_o + 4])
"""

INIT = """\
                        with init():
                            for i in range(4):
                                for j in range(4):
                                    C[vb_o, vi_o + i, vj_o + j] = 0.0
"""


def mma(
    c: Array,
    c0: int,
    a: Array,
    a0: int,
    b: Array,
    b0: int,
) -> None:
    for i, j, k in np.ndindex(4, 4, 4):
        c[i * c0 + j] += a[i * a0 + k] * b[k * b0 + j]


def intrin(old: str = "", new: str = "") -> TensorIntrin:
    description = parse_func(DESCRIPTION.replace(old, new) if old else DESCRIPTION)
    return TensorIntrin(description, parse_func(IMPLEMENTATION))


def test_a_product_of_tiles_with_its_initialisation(same_result: SameResult) -> None:
    interp.register_extern("test_tensorize.mma", mma)
    before = parse_func(MATMUL)
    after = tensorize(before, "C", intrin())
    verify(after)
    text = to_text(after)
    assert REPLACED in text and INIT in text
    same_result(before, after)
    flat = Sequential(FROM_BLOCKS)(after)
    assert "if ko * 4 == 0:" in to_text(flat)
    same_result(before, flat)


def refused(func: PrimFunc, found: TensorIntrin, message: str, name: str = "C") -> None:
    with pytest.raises(ScheduleError, match=f"tensorize: .*{message}"):
        tensorize(func, name, found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("for k in range(4)", "for k in range(5)", "loop k has 5 iterations, the description's"),
        ("* B[vb, vk, vj]", "+ B[vb, vk, vj]", "expected C.i, j., as the"),
        ("* B[vb, vk, vj]", "* B[vb, vk, vj // 2]", "which is not a start plus"),
        ("* B[vb, vk, vj]", "* B[vb, vk + ko, vj - vi + vi]", None),
        ("A[vb, vi, vk] *", "C[vb, vi, vk] *", "C, which is written, stands for two"),
        ("where(b < 2)", "where(io * 4 + i < 7)", "its predicate mentions the loops"),
        ("range(1, 5):", "range(1, 5):\n" + " " * 28 + "C[0, 0, 0] = 0.0", "expected 3 loops"),
        ("reduce(0:12, ko * 4 + k)", "reduce(0:12, (ko + k) * (ko + k))", "not a start plus inner"),
    ],
)
def test_other_loops_are_refused(old: str, new: str, message: str | None) -> None:
    assert old in MATMUL
    func = parse_func(MATMUL.replace(old, new))
    if message is None:
        tensorize(func, "C", intrin())
    else:
        refused(func, intrin(), message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("* B[vk, vj]", "- B[vk, vj]", "expected C.* - B"),
        (
            "vj:vj + 1])\n                        C[vi",
            "vj:vj + 1])\n                        with init():\n"
            "                            C[vi, vj] = 1.0\n                        C[vi",
            "expected 1.0, as the description has it, found 0.0",
        ),
    ],
)
def test_other_descriptions_are_refused(old: str, new: str, message: str) -> None:
    assert old in DESCRIPTION
    refused(parse_func(MATMUL), intrin(old, new), message)


def test_the_block_must_be_one() -> None:
    refused(parse_func(MATMUL), intrin(), "main has 0 blocks 'D', expected one", name="D")
    other = TensorIntrin(
        intrin().description,
        parse_func(
            IMPLEMENTATION.replace(
                "B: Buffer((4, 4), float32,", 'B: Buffer((4, 4), float32, scope="shared",'
            )
        ),
    )
    refused(parse_func(MATMUL), other, "B is in global memory, B of the implementation in shared")


def test_an_intrinsic_of_te_is_another_kind() -> None:
    of_te: Any = te.tensor_instruction("vpdpbusd.ymm")["compute"]
    with pytest.raises(ConfigError, match=r"intrin: expected .*blocks\.tensorize\.TensorIntrin\("):
        tensorize(parse_func(MATMUL), "C", of_te)
    text: Any = MATMUL
    with pytest.raises(ConfigError, match=r"func: expected a PrimFunc, e\.g\. parse_func\(text\)"):
        tensorize(text, "C", intrin())
    text = DESCRIPTION
    with pytest.raises(ConfigError, match=r"description: expected a PrimFunc, e\.g\. parse_func"):
        TensorIntrin(text, intrin().implementation)


COPIES = """
def main(A: Buffer((8,), float32), B: Buffer((8,), float32), C: Buffer((8,), float32)):
    for i in range(2):
        for j in range(4):
            with block("first"):
                v = axis.data_par(0:8, i * 4 + j)
                reads(A[v:v + 1])
                writes(B[v:v + 1])
                B[v] = exp(A[v]) + A[v]
        for k in range(4):
            with block("second"):
                w = axis.data_par(0:8, i * 4 + k)
                reads(A[w:w + 1])
                writes(C[w:w + 1])
                C[w] = exp(A[w]) + A[w]
"""

TWICE = TensorIntrin(
    parse_func("""
        def of(A: Buffer((4,), float32), B: Buffer((4,), float32)):
            for i in range(4):
                with block("copy"):
                    v = axis.data_par(0:4, i)
                    reads(A[v:v + 1])
                    writes(B[v:v + 1])
                    B[v] = exp(A[v]) + A[v]
    """),
    parse_func("""
        def by(A: Buffer((4,), float32), B: Buffer((4,), float32)):
            with block("root"):
                reads(A[0:4])
                writes(B[0:4])
                for i in range(4):
                    B[i] = exp(A[i]) + A[i]
    """),
)


def test_an_intrinsic_has_its_own_variables_at_each_place(same_result: SameResult) -> None:
    before = parse_func(COPIES)
    after = tensorize(tensorize(before, "first", TWICE), "second", TWICE)
    same_result(before, after)
    loops = [s.loop_var for s in stmts(after.body) if isinstance(s, For)]
    assert len(loops) == len(set(loops)) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("exp(A[v])", "log(A[v])", "expected exp"),
        ("+ A[v]", "+ A[if_then_else(i == 1, 1, 0) + v]", "A is accessed from two starts"),
        ("+ A[v]", "+ B[v]", "B is used where the description has A"),
    ],
)
def test_other_values_are_refused(old: str, new: str, message: str) -> None:
    refused(parse_func(COPIES.replace(old, new)), TWICE, message, name="first")


ROWS = """
def main(A: Buffer((8, 12), float32), C: Buffer((8,), float32)):
    for io in range(2):
        for ko in range(3):
            for i in range(4):
                for k in range(4):
                    with block("C"):
                        vi = axis.data_par(0:8, io * 4 + i)
                        vk = axis.reduce(0:12, ko * 4 + k)
                        reads(A[vi:vi + 1, vk:vk + 1])
                        writes(C[vi:vi + 1])
                        with init():
                            C[vi] = 0.0
                        C[vi] = C[vi] + A[vi, vk]
"""
SUMS = """
def sums(A: Buffer((4, 4), float32), C: Buffer((4,), float32)):
    for i in range(1, 5):
        for k in range(4):
            with block("sums"):
                vi = axis.data_par(0:4, i - 1)
                vk = axis.reduce(0:4, k)
                reads(A[vi:vi + 1, vk:vk + 1])
                writes(C[vi:vi + 1])
                C[vi] = C[vi] + A[vi, vk]
"""
BY_SUMS = """
def by(A: Buffer((4, 4), float32), C: Buffer((4,), float32)):
    with block("root"):
        reads(A[0:4, 0:4], C[0:4])
        writes(C[0:4])
        for i in range(4):
            for k in range(4):
                C[i] = C[i] + A[i, k]
"""


def rows_intrin(description: str = SUMS, implementation: str = BY_SUMS) -> TensorIntrin:
    views = implementation.replace(
        "by(A: Buffer((4, 4), float32), C: Buffer((4,), float32))",
        "by[a: int32, a0: int32, c: int32](A: Buffer((4, 4), float32, strides=(a0, 1), "
        "elem_offset=a), C: Buffer((4,), float32, elem_offset=c))",
    )
    return TensorIntrin(parse_func(description), parse_func(views))


@pytest.mark.parametrize(
    "loop", ["range(4)", "parallel(4)", 'thread_binding(4, thread="threadIdx.x")']
)
def test_what_is_initialised_is_the_tile(same_result: SameResult, loop: str) -> None:
    """Of loops that begin at 1 it was another tile; threads left a loop that could not be read."""
    before = parse_func(ROWS.replace("for i in range(4)", f"for i in {loop}"))
    after = tensorize(before, "C", rows_intrin())
    if "thread" not in loop:
        same_result(before, after)
    after = Sequential(FROM_BLOCKS)(after)
    same_result(parse_func(ROWS), after)


def test_an_initialisation_in_the_description_needs_whole_reductions(
    same_result: SameResult,
) -> None:
    """Each tile started the sums anew."""
    added = "                C[vi] = C"
    starts = f"                with init():\n                    C[vi] = 0.0\n{added}"
    loop = "            for k in range(4):\n                C"
    found = rows_intrin(
        SUMS.replace(added, starts), BY_SUMS.replace(loop, f"            C[i] = 0.0\n{loop}")
    )
    refused(parse_func(ROWS), found, "initialises each tile, but the reduction vk goes over")
    whole = parse_func(ROWS.replace("range(3)", "range(1)").replace("(0:12, ko", "(0:4, ko"))
    same_result(whole, tensorize(whole, "C", found))


@pytest.mark.parametrize(
    ("old", "new", "description", "message"),
    [
        # fewer elements than the description says
        (
            "",
            "",
            SUMS.replace(
                "                reads", "                where(i < 4)\n                reads"
            ),
            "the description runs its block only where i < 4",
        ),
        (
            "ko * 4 + k)",
            "11 - ko * 4 - k)",
            SUMS.replace("(0:4, k)", "(0:4, 3 - k)"),
            "reduction vk does not begin at its first value inside",
        ),
        (
            "with init",
            "M = match[m: int32, m0: int32](A[vi:vi + 1, vk:vk + 1], (1, 1), float32, "
            "strides=(m0, 1), elem_offset=m)\n                        with init",
            SUMS.replace("+ A[vi, vk]", "+ A[0, 0]"),
            "M is made in the block itself",
        ),
    ],
    ids=["condition", "backwards", "view"],
)
def test_what_would_compute_something_else(
    old: str, new: str, description: str, message: str
) -> None:
    text = ROWS.replace(old, new) if old else ROWS
    if "M = match" in new:
        text = text.replace("+ A[vi, vk]", "+ M[0, 0]")
    refused(parse_func(text), rows_intrin(description), message)
