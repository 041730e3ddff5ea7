"""What CPUs' dot products compute, against the processor where it has them, and by known values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from autosched.codegen.llvm_compile import compile_object
from autosched.runtime.native import load_object
from autosched.target import cpu_target
from autosched.tir.dot_products import DOT_PRODUCTS, Array

_NEEDED = {"vpdpbusd": "+avx512vnni", "vpdpwssd": "+avx512vnni", "dpbf16ps": "+avx512bf16"}
_LANES = 16


def _instruction(call: str, element: str) -> Callable[[Array, Array, Array], Array]:
    """The machine's own instruction on 512-bit vectors."""
    result, words = f"<{_LANES} x {element}>", f"<{_LANES} x i32>"
    text = f"""
declare {result} @{call}({result}, {words}, {words})
define void @product(ptr %c, ptr %a, ptr %b) {{
  %vc = load {result}, ptr %c, align 1
  %va = load {words}, ptr %a, align 1
  %vb = load {words}, ptr %b, align 1
  %sum = call {result} @{call}({result} %vc, {words} %va, {words} %vb)
  store {result} %sum, ptr %c, align 1
  ret void
}}
"""
    library = load_object(compile_object(text, cpu_target(1), "light"), ["product"])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.addresses["product"])

    def apply(c: Array, a: Array, b: Array) -> Array:
        sums = np.ascontiguousarray(c)
        for row in range(len(sums)):
            function(*(int(x[row].ctypes.data) for x in (sums, a, b)))
        assert library
        return sums

    return apply


def _floats(rng: np.random.Generator, count: int, exponents: tuple[int, int]) -> Array:
    """Random bfloat16 bits, two to a word."""
    shape = (count, 2 * _LANES)
    bits = rng.integers(0, 2, shape) << 15 | rng.integers(*exponents, shape) << 7
    return (bits | rng.integers(0, 128, shape)).astype(np.uint16).view(np.int32)


@pytest.mark.parametrize("kind", _NEEDED)
def test_equals_the_processor(kind: str) -> None:
    if _NEEDED[kind] not in cpu_target(1).features.split(","):
        pytest.skip(f"this processor has no {kind}")
    rng = np.random.default_rng(0)
    call = next(name for name in DOT_PRODUCTS if f"{kind}.512" in name)
    if kind != "dpbf16ps":
        a, b, c = rng.integers(-(2**31), 2**31, (3, 200, _LANES)).astype(np.int32)
        np.testing.assert_array_equal(
            DOT_PRODUCTS[call](c, a, b), _instruction(call, "i32")(c.copy(), a, b)
        )
        return
    machine = _instruction(call, "float")
    for exponents in ((0, 256), (110, 140), (55, 75), (124, 130)):  # all; near one; denormal sums
        a, b = (_floats(rng, 200, exponents) for _ in range(2))
        c = _floats(rng, 200, exponents).view(np.float32)
        with np.errstate(all="ignore"):
            found = DOT_PRODUCTS[call](c, a, b)
        np.testing.assert_array_equal(found, machine(c.copy(), a, b))  # NaNs are equal


def _bfloat(*values: float) -> Array:
    return (np.array([values], np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize(
    ("first", "second", "start", "expected"),
    [
        ((1, 2, 3, 4), (5, 6, 7, 8), 0.5, 70.5),
        ((1, 1, 0, 0), (1, 2**-24, 0, 0), 0, 1 + 2**-23),  # to odd, where nearest is 1
        ((1, -1, 0, 0), (1, 2**-24, 0, 0), 0, 1 - 2**-24),
        ((2**-100, 0, 0, 0), (2**-27, 0, 0, 0), 2**-126, 2**-126),  # a denormal product is 0
        ((0, 0, 0, 0), (0, 0, 0, 0), 2**-127, 0),
        ((2**100, 0, 0, 0), (2**100, 0, 0, 0), 1, np.inf),
    ],
)
def test_bfmmla(
    first: tuple[float, ...], second: tuple[float, ...], start: float, expected: float
) -> None:
    zeros = (0.0,) * 4
    with np.errstate(all="ignore"):
        found = DOT_PRODUCTS["llvm.aarch64.neon.bfmmla"](
            np.array([[0, start, 0, 0]], np.float32),
            _bfloat(*first, *zeros),
            _bfloat(*zeros, *second),
        )
    np.testing.assert_array_equal(found, np.array([[0, expected, 0, 0]], np.float32))


def test_pairs_of_int16_are_those_of_the_processor() -> None:
    """128 bits, which every x86-64 has."""
    if not cpu_target(1).triple.startswith("x86_64"):
        pytest.skip("not an x86")
    text = """
declare <4 x i32> @llvm.x86.sse2.pmadd.wd(<8 x i16>, <8 x i16>)
define void @pairs(ptr %c, ptr %a, ptr %b) {
  %va = load <8 x i16>, ptr %a, align 1
  %vb = load <8 x i16>, ptr %b, align 1
  %sum = call <4 x i32> @llvm.x86.sse2.pmadd.wd(<8 x i16> %va, <8 x i16> %vb)
  store <4 x i32> %sum, ptr %c, align 1
  ret void
}
"""
    library = load_object(compile_object(text, cpu_target(1), "light"), ["pairs"])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.addresses["pairs"])
    a, b = np.random.default_rng(0).integers(-(2**15), 2**15, (2, 200, 8)).astype(np.int16)
    a[0], b[0] = -(2**15), -(2**15)  # the one sum that wraps
    found = np.zeros((200, 4), np.int32)
    for row in range(200):
        function(*(int(x[row].ctypes.data) for x in (found, a, b)))
    np.testing.assert_array_equal(DOT_PRODUCTS["llvm.x86.sse2.pmadd.wd"](a, b), found)
