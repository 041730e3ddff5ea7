"""Blocks in the interpreter: what a match binds, what it checks, rows that are padded."""

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.equal import structural_equal
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.verify import VerifyError, verify

BLOCKS = """\
def main(A: Buffer((8, 8), float32), C: Buffer((8, 8), float32)):
    with block("root"):
        reads()
        writes()
        S = alloc((8, 8), float32, strides=(10, 1))
        for i in range(4):
            for j in range(2):
                with block("x"):
                    vi = axis.data_par(0:4, i)
                    vj = axis.data_par(0:2, j)
                    reads(A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4])
                    writes(C[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4])
                    M = match[at: int32, s0: int32](A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], \
(2, 4), float32, strides=(s0, 1), elem_offset=at)
                    N = match[to: int32](S[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), \
float32, strides=(10, 1), elem_offset=to)
                    R = match(M[1:2, 0:4], (4,), float32)
                    for a in range(2):
                        for b in range(4):
                            N[a, b] = M[a, b] + R[b] + float32(at) * 100.0
                            C[vi * 2 + a, vj * 4 + b] = N[a, b] + float32(to) * 9.0 + float32(s0)"""


def test_a_match_binds_offset_and_strides() -> None:
    func = parse_func(BLOCKS)
    verify(func)
    assert to_text(func) == BLOCKS
    assert structural_equal(func, parse_func(BLOCKS))
    a = np.arange(64, dtype="float32").reshape(8, 8)
    c = np.zeros_like(a)
    interp.run(func, [a, c])
    i, j = np.mgrid[:8, :8]
    at, to = i // 2 * 16 + j // 4 * 4, i // 2 * 20 + j // 4 * 4
    np.testing.assert_array_equal(c, a + a[i // 2 * 2 + 1, j] + at * 100 + to * 9 + 8)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("strides=(10, 1), elem", "strides=(9, 1), elem", "N matches a region that differs .* 9"),
        ("match[to: int32](S", "match(S", "N matches a region that differs .* at"),
        ("M[1:2, 0:4], (4,)", "M[0:2, 0:4], (4,)", "R matches a region that differs .* 1"),
    ],
)
def test_what_a_match_says_is_checked(old: str, new: str, message: str) -> None:
    text = BLOCKS.replace(old, new)
    if "match(S" in new:
        text = text.replace("elem_offset=to", "elem_offset=at").replace("float32(to)", "0.0")
    assert text != BLOCKS
    with pytest.raises(interp.InterpreterError, match=message):
        interp.run(parse_func(text), [np.zeros((8, 8), "float32"), np.zeros((8, 8), "float32")])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float32(s0)", "float32(vi)\n    A[s0, 0] = 0.0", "s0 is used outside"),
        ("reads(A[vi * 2:vi * 2 +", "reads(A[a * 2:a * 2 +", "a is used outside"),
        ("S = alloc((8, 8)", "S = alloc((8, i)", "i is used outside"),
        ("0:2, j)", "0:vi, j)", "vi is used outside"),
    ],
)
def test_blocks_mention_what_is_bound(old: str, new: str, message: str) -> None:
    head = "def main(A: Buffer((8, 8), float32), C: Buffer((8, 8), float32)):\n"
    text = BLOCKS.replace(old, new, 1)
    if "alloc" in new:
        text = text.replace(head, head + "    for i in range(1):\n        pass\n")
    elif "reads" in new:
        text = text.replace(head, head + "    for a in range(1):\n        pass\n")
    with pytest.raises(VerifyError, match=message):
        verify(parse_func(text))


def test_substitution_reaches_what_blocks_declare() -> None:
    head = "def main(A: Buffer((8, 8), float32), C: Buffer((8, 8), float32), n: int32):"
    text = head + BLOCKS[BLOCKS.index("\n") :]
    for old in ("0:4, i", "alloc((8, 8)", "(2, 4), float32, strides=(10"):
        text = text.replace(
            old, old.replace("8, 8", "n, 8").replace("0:4", "0:n").replace("(10", "(n")
        )
    func = parse_func(text)
    changed = func.with_body(substitute_stmt(func.body, {func.params[2]: func.params[2] + 1}))
    found = to_text(changed)
    assert "alloc((n + 1, 8)" in found and "0:n + 1, i" in found and "strides=(n + 1, 1)" in found
    assert "N[a, b] = " in found and "N_1" not in found


THREADS = """
def main(B: Buffer((16,), int32)):
    for b in thread_binding(2, thread="blockIdx.x"):
        for v in thread_binding(2, thread="vthread.x"):
            for t in thread_binding(3, 7, thread="threadIdx.x"):
                B[b * 8 + v * 4 + t - 3] = b * 100 + v * 10 + t
"""


def test_loops_bound_to_threads() -> None:
    b = np.zeros(16, "int32")
    interp.run(parse_func(THREADS), [b])
    np.testing.assert_array_equal(
        b, [k // 8 * 100 + k // 4 % 2 * 10 + k % 4 + 3 for k in range(16)]
    )
