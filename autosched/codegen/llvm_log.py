"""Logarithms to base e, 2 and 10 of float32 registers, and of 1 + x, by one polynomial.

Subnormal numbers are scaled first. log(0) is -inf, that of a negative number NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes

# log(1 + m) = m - m**2 / 2 + m**3 P(m) on [sqrt(1/2) - 1, sqrt(2) - 1] (Cephes, logf.c)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)


class _Parts(NamedTuple):
    """x = 2**e (1 + m): registers of e, m, m**2 and m**3 P(m)."""

    e: str
    m: str
    square: str
    curve: str


def log(f: Lanes, x: str) -> str:
    """The natural logarithm of each lane."""
    return at_ends(f, x, _natural(f, _parts(f, x)))


def log1p(f: Lanes, x: str) -> str:
    """The natural logarithm of one more than each lane, whose sign it has."""
    y = f.add(x, f.const(1.0))
    return f.intrinsic("copysign", at_ends(f, y, _natural(f, _parts(f, y, x))), x)


def _natural(f: Lanes, parts: _Parts) -> str:
    e, m, square, y = parts
    y = f.fma(e, f.const(-2.12194440e-4), y)
    y = f.fma(square, f.const(-0.5), y)
    return f.fma(e, f.const(0.693359375), f.add(m, y))


# What is multiplied by a rounded factor is the smaller part of the result (Cephes, log2f.c).
_LOG2_E = math.log2(math.e) - 1.0


def log2(f: Lanes, x: str) -> str:
    """The logarithm to base 2 of each lane."""
    e, m, square, y = _parts(f, x)
    y = f.fma(square, f.const(-0.5), y)
    z = f.fma(m, f.const(_LOG2_E), f.mul(y, f.const(_LOG2_E)))
    return at_ends(f, x, f.add(e, f.add(m, f.add(z, y))))


# log10(e) and log10(2) in parts: products with the first are exact (Cephes, log10f.c).
_LOG10_E = (0.43359375, math.log10(math.e) - 0.43359375)
_LOG10_2 = (0.30078125, math.log10(2.0) - 0.30078125)


def log10(f: Lanes, x: str) -> str:
    """The logarithm to base 10 of each lane."""
    e, m, square, y = _parts(f, x)
    y = f.fma(square, f.const(-0.5), y)
    z = f.mul(f.add(m, y), f.const(_LOG10_E[1]))
    z = f.fma(e, f.const(_LOG10_2[1]), z)
    z = f.fma(y, f.const(_LOG10_E[0]), z)
    z = f.fma(m, f.const(_LOG10_E[0]), z)
    return at_ends(f, x, f.fma(e, f.const(_LOG10_2[0]), z))


def _parts(f: Lanes, x: str, less: str | None = None) -> _Parts:
    """The parts of x. `less` is x - 1 with the digits that rounding took from x."""
    tiny = f.test("olt", x, f.const(2.0**-126))
    normal = f.choose(tiny, f.mul(x, f.const(2.0**23)), x)
    bits = f.bits(normal)
    # The mantissa is taken relative to sqrt(1/2), so that m is centred on 0.
    shifted = f.int_op("sub", bits, f.int_const(0x3F3504F3))
    exponent = f.int_op("ashr", shifted, f.int_const(23))
    mantissa = f.int_op("sub", bits, f.int_op("shl", exponent, f.int_const(23)))
    m = f.sub(f.from_bits(mantissa), f.const(1.0))
    e = f.b.emit(f"sitofp {f.int_kind} {exponent} to {f.kind}")
    e = f.choose(tiny, f.sub(e, f.const(23.0)), e)
    if less is not None:
        m = f.choose(f.test("oeq", e, f.const(0.0)), less, m)
    square = f.mul(m, m)
    return _Parts(e, m, square, f.mul(f.mul(f.polynomial(m, _LOG), m), square))


def at_ends(f: Lanes, x: str, result: str) -> str:
    """The logarithm `result` of x, and what it is of 0, infinity, NaN, and negative numbers."""
    result = f.choose(f.test("oeq", x, f.const(math.inf)), x, result)
    result = f.choose(f.test("oeq", x, f.const(0.0)), f.const(-math.inf), result)
    return f.choose(f.test("oge", x, f.const(0.0)), result, f.const(math.nan))
