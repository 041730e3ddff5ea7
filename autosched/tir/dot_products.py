"""Bit-exact models of the CPUs' dot-product instructions, by the names of LLVM's intrinsics.

A model takes accumulators and two operands, arrays whose last axis is the lanes of LLVM's vectors,
and returns the new accumulators. Integer sums wrap. vpmaddwd takes only the operands and returns
sums of two products, which a separate instruction adds.

| instruction | what is added to each 32-bit accumulator |
|---|---|
| vpdpbusd | four products of unsigned by signed bytes |
| vpdpwssd, vpmaddwd | two products of signed 16-bit numbers |
| vdpbf16ps | two products of bfloat16, that of the odd elements first, each fused with its sum |
| sdot, udot, usdot | four products of bytes |
| bfmmla | of (2, 4) by (4, 2) bfloat16: two sums of two products |

Float instructions treat denormal operands and results as zero. vdpbf16ps rounds to nearest even
(Intel SDM, VDPBF16PS); bfmmla rounds each product and sum to odd (Arm ARM, BFMMLA with FPCR.EBF 0).
tests/tir/test_dot_products.py compares the models with the instructions that the machine has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir.interp_math import fused_multiply_add

Array = np.ndarray[Any, Any]
_LEAST = np.float32(2.0**-126)


def flushed(x: Array) -> Array:
    """float32 with denormal numbers replaced by zeros of the same sign."""
    return np.where(np.abs(x) < _LEAST, np.copysign(np.float32(0), x), x).astype(np.float32)


def as_elements(x: Array, dtype: str, count: int) -> Array:
    """The bits of `x` as elements of the integer type `dtype`, of shape (..., groups, count).

    For bfloat16 the elements are float32 of the same values.
    """
    bits = np.ascontiguousarray(x)
    if dtype == "bfloat16":
        wide = bits.view(np.uint16).astype(np.uint32) << np.uint32(16)
        elements = wide.view(np.float32)
    else:
        elements = bits.view(np.dtype(dtype))
    return elements.reshape(*bits.shape[:-1], -1, count)


def _integers(a_type: str, b_type: str, count: int) -> Callable[[Any, Any, Any], Array]:
    def add(c: Any, a: Any, b: Any) -> Array:
        left, right = as_elements(a, a_type, count), as_elements(b, b_type, count)
        # A sum of four products of bytes, or two of 16 bits, is below 2**32: int64 holds it.
        products = (left.astype(np.int64) * right.astype(np.int64)).sum(axis=-1)
        total: Array = (np.asarray(c).astype(np.int64) + products).astype(np.int32)
        return total

    return add


def pairs_of_int16(a: Any, b: Any) -> Array:
    """vpmaddwd: sums of two products; that of four factors -2**15 wraps (Intel SDM, PMADDWD)."""
    left, right = (as_elements(np.asarray(x, np.int16), "int16", 2) for x in (a, b))
    products = left.astype(np.int64) * right.astype(np.int64)
    total: Array = products.sum(axis=-1).astype(np.int32)
    return total


def dot_bfloat16(c: Any, a: Any, b: Any) -> Array:
    """vdpbf16ps: adds two products of bfloat16 to each accumulator, the odd elements first."""
    left, right = (flushed(as_elements(x, "bfloat16", 2)) for x in (a, b))
    total = flushed(np.asarray(c))
    for k in (1, 0):
        total = flushed(fused_multiply_add(left[..., k], right[..., k], total))
    return total


def _to_odd(exact: Array, rest: Array) -> Array:
    """`exact + rest` rounded to odd: truncated to float32, with the last bit set if inexact."""
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    beyond = (np.abs(back) > np.abs(exact)) | (
        (back == exact) & (rest != 0) & ((rest > 0) != (exact > 0))
    )
    finite = np.isfinite(near) & (near != 0)
    bits = near.view(np.int32) - np.where(beyond & finite, 1, 0).astype(np.int32)
    inexact = finite & ((back != exact) | (rest != 0))
    return flushed((bits | inexact).astype(np.int32).view(np.float32))


def _sum_to_odd(x: Array, y: Array) -> Array:
    first, second = x.astype(np.float64), y.astype(np.float64)
    total = first + second
    part = total - first
    rest = (first - (total - part)) + (second - part)
    return _to_odd(total, np.where(np.isfinite(total), rest, 0.0))


def matrix_bfloat16(c: Any, a: Any, b: Any) -> Array:
    """bfmmla: C (2, 2) += A (2, 4) B (4, 2); registers hold A by rows and B by columns of four."""
    left, right = (flushed(as_elements(x, "bfloat16", 4)) for x in (a, b))
    accumulators = np.asarray(c)
    total = flushed(accumulators).reshape(*accumulators.shape[:-1], -1, 2, 2)
    rows = left.reshape(*left.shape[:-2], -1, 2, 1, 4)
    columns = right.reshape(*right.shape[:-2], -1, 1, 2, 4)
    products = rows.astype(np.float64) * columns.astype(np.float64)
    rounded = _to_odd(products, np.zeros_like(products))
    for k in (0, 2):
        total = _sum_to_odd(total, _sum_to_odd(rounded[..., k], rounded[..., k + 1]))
    return total.reshape(accumulators.shape)


_X86 = {128: 4, 256: 8, 512: 16}
"""The number of 32-bit lanes of x86 vector registers, by their width in bits."""

DOT_PRODUCTS: dict[str, Callable[..., Array]] = {
    **{f"llvm.x86.avx512.vpdpbusd.{n}": _integers("uint8", "int8", 4) for n in _X86},
    **{f"llvm.x86.avx512.vpdpwssd.{n}": _integers("int16", "int16", 2) for n in _X86},
    "llvm.x86.sse2.pmadd.wd": pairs_of_int16,
    "llvm.x86.avx2.pmadd.wd": pairs_of_int16,
    "llvm.x86.avx512.pmaddw.d.512": pairs_of_int16,
    **{f"llvm.x86.avx512bf16.dpbf16ps.{n}": dot_bfloat16 for n in _X86},
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _integers("int8", "int8", 4),
    "llvm.aarch64.neon.udot.v4i32.v16i8": _integers("uint8", "uint8", 4),
    "llvm.aarch64.neon.usdot.v4i32.v16i8": _integers("uint8", "int8", 4),
    "llvm.aarch64.neon.bfmmla": matrix_bfloat16,
}
"""The model of each dot product, by the name of LLVM's intrinsic."""
