"""Loops: what LLVM is told of unrolling them, and what they add up from round to round."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.target import cpu_target
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from kit.types import RunKernel

TARGET = cpu_target(2)
HEAD = "def f(A: Buffer((4096,), float32), B: Buffer((4096,), float32)):\n"


def copies(*lines: str) -> PrimFunc:
    """A function of these lines over A and B."""
    return parse_func(HEAD + "".join(f"    {line}\n" for line in lines))


def hints(func: PrimFunc) -> list[str]:
    """What LLVM is told of each loop, from the inside; "" where it is told nothing."""
    text = emit_llvm(func, TARGET)
    flags = dict(re.findall(r'^(!\d+) = !\{!"llvm\.loop\.unroll\.([^}]*)\}$', text, re.MULTILINE))
    nodes = dict(re.findall(r"^(!\d+) = distinct !\{!\d+(?:, (!\d+))?\}$", text, re.MULTILINE))
    used = re.findall(r"!llvm\.loop (!\d+)$", text, re.MULTILINE)
    return [flags[nodes[name]] if nodes[name] else "" for name in used]


COPY = "B[{0} * 16:{0} * 16 + 16] = A[{0} * 16:{0} * 16 + 16]"


@pytest.mark.parametrize(
    ("extent", "statements", "hint"),
    [(16, 1, 'full"'), (17, 1, 'count", i32 4'), (5, 3, 'full"'), (6, 3, 'disable"')],
)
def test_loops_of_vectors_are_unrolled_while_they_are_short(
    extent: int, statements: int, hint: str
) -> None:
    body = ["    " + COPY.format(f"(i + {k * 20})") for k in range(statements)]
    assert hints(copies(f"for i in range({extent}):", *body)) == [hint]


def test_what_is_known_of_a_loop_comes_before_its_length() -> None:
    inside = COPY.format("i")
    rolled = copies('for i in range(4, annotations={"unroll_count": 1}):', f"    {inside}")
    twice = copies('for i in range(64, annotations={"unroll_count": 2}):', f"    {inside}")
    assert hints(rolled) == ['disable"']
    assert hints(twice) == ['count", i32 2']


def test_loops_around_others_stay_as_they_are() -> None:
    inside = COPY.format("(i * 4 + j)")
    nest = copies("for i in range(2):", "    for j in range(4):", f"        {inside}")
    assert hints(nest) == ['full"', 'disable"']


def test_a_module_with_a_loop_of_scalars_is_left_to_llvm() -> None:
    vectors = ("for i in range(4):", "    " + COPY.format("i"))
    scalars = ("for j in range(64):", "    B[j + 128] = A[j] + A[j + 1]")
    assert hints(copies(*vectors, *scalars)) == ["", ""]


def body_of(text: str, number: int) -> str:
    """The lines of the `number`-th loop, up to its branch."""
    start = [m.start() for m in re.finditer(r"^loop", text, re.MULTILINE)][number]
    return text[start : text.index("br i1", start)]


def test_addresses_are_added_up_in_innermost_loops_alone(run: RunKernel) -> None:
    func = copies(
        "for i in range(4):",
        "    for j in range(8):",
        "        B[i * 512 + j * 64:i * 512 + j * 64 + 16] = A[j * 96 + i:j * 96 + i + 16]",
    )
    text = emit_llvm(func, TARGET)
    inner = body_of(text, 1)
    assert "mul" not in inner
    assert sorted(re.findall(r"\.next = add nsw i64 %o\d+, (\d+)", inner)) == ["64", "96"]
    assert "mul nsw i64 %i" in body_of(text, 0)
    a, b = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    run(func, a, b)
    for i in range(4):
        for j in range(8):
            at = i * 512 + j * 64
            assert (b[at : at + 16] == a[j * 96 + i : j * 96 + i + 16]).all()


@pytest.mark.parametrize("low", ["3", "n"])
def test_what_is_added_up_begins_where_the_loop_does(low: str, run: RunKernel) -> None:
    head = HEAD.replace("float32)):", "float32), n: int32):")
    body = "B[i * 48:i * 48 + 16] = A[i:i + 16]"
    func = parse_func(f"{head}    for i in range({low}, {low} + 5):\n        {body}\n")
    a, b = np.ones(4096, dtype=np.float32), np.zeros(4096, np.float32)
    run(func, a, b, 3)
    written = {k for k in range(4096) if b[k]}
    assert written == {i * 48 + k for i in range(3, 8) for k in range(16)}


def test_where_an_addressing_mode_multiplies_nothing_is_added_up() -> None:
    for factor, added in ((1, 0), (2, 0), (3, 1)):
        place = f"i * {factor}" if factor > 1 else "i"
        func = copies(
            "for i in range(40):", f"    B[{place}:{place} + 16] = A[{place}:{place} + 16]"
        )
        assert emit_llvm(func, TARGET).count(".next = add nsw") == added


@pytest.mark.parametrize("low", ["-3", "k"])
def test_loops_from_below_zero(run: RunKernel, low: str) -> None:
    func = parse_func(f"""
def f(A: Buffer((8,), float32), B: Buffer((8,), float32), k: int32):
    for i in range({low}, {low} + 6):
        for j in range(2):
            B[i + 3] = B[i + 3] + A[i + 3]
""")
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(func, a, b, -3)
    np.testing.assert_array_equal(b[:6], 2 * a[:6])
    assert "nuw" in emit_llvm(func, TARGET)  # of the loop inside


def products(count: int, dtype: str, stride: int, step: int = 1) -> PrimFunc:
    """Each of 64 rounds multiplies `count` elements; rounds start `stride` apart."""
    factors = "".join(f" * A[i * {stride} + {k * step}]" for k in range(1, count + 1))
    return parse_func(
        f"def f(A: Buffer((4096,), {dtype}), B: Buffer((64,), {dtype})):\n"
        f"    for i in range(64):\n        B[i] = A[i * {stride}]{factors}\n"
    )


STAYS_SCALAR = '!"llvm.loop.vectorize.enable", i1 false'


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_many_strided_products_of_bytes_stay_scalar(
    dtype: str, same_as_interpreted: RunKernel
) -> None:
    f = products(12, dtype, 16)
    text = emit_llvm(f, TARGET)
    (flag,) = re.findall(rf"^(!\d+) = !\{{{STAYS_SCALAR}\}}$", text, re.MULTILINE)
    (loop,) = re.findall(rf"^(!\d+) = distinct !\{{!\d+, {flag}\}}$", text, re.MULTILINE)
    assert f"!llvm.loop {loop}\n" in text
    assert not text.startswith("; innermost loops of scalars: 0")
    a = np.random.default_rng(0).integers(0, 100, 4096).astype(dtype)
    same_as_interpreted(f, a, np.zeros(64, dtype))


@pytest.mark.parametrize(
    ("count", "dtype", "stride", "step"),
    [(8, "int8", 16, 1), (12, "int8", 1, 1), (12, "int8", 1, 64), (12, "int16", 16, 1)],
)
def test_other_products_may_become_vectors(count: int, dtype: str, stride: int, step: int) -> None:
    """Few ones, of bytes next to one another from round to round, and of wider integers."""
    assert STAYS_SCALAR not in emit_llvm(products(count, dtype, stride, step), TARGET)
