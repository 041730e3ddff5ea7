"""Logarithms to base e, 2 and 10 of registers, and of 1 + x, by one polynomial for each type.

Subnormal numbers are scaled first. log(0) is -inf, and the logarithm of a negative number is NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes

# Constants in two parts, by the bits of the type: products of the first part with exponents are
# exact (Cody and Waite; Cephes, logf.c and log10f.c).

LN2 = {32: (0.693359375, -2.12194440e-4), 64: (0.6931471805598903, 5.497923018708371e-14)}
"""log(2) in two parts, by the bits of the type."""

LOG10_2 = {
    32: (0.30078125, math.log10(2.0) - 0.30078125),
    64: (0.30102999566395283, 2.8363394551044964e-14),
}
"""log10(2) in two parts, by the bits of the type."""

_LOG10_E = {
    32: (0.43359375, math.log10(math.e) - 0.43359375),
    64: (0.4342944771051407, 4.798111141615972e-9),
}

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

# log((1 + s) / (1 - s)) = 2 s + s**3 P(s**2) on s**2 <= 0.0295: minimax, relative error 2**-59
_RATIO = (
    1.4795951982309974e-1,
    1.531405028090187e-1,
    1.818356433860819e-1,
    2.2222198572905782e-1,
    2.8571428742390675e-1,
    3.9999999999414665e-1,
    6.666666666666734e-1,
)

_SQRT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""

_ONE = 1023 << 52
"""The bits of 1.0 in float64."""

_BIASED = float(2**52 + 1023)
"""A float that has an exponent behind the bits of 2**52 exceeds the exponent by this."""


class _Parts(NamedTuple):
    """x = 2**e (1 + m): registers of e, m, m**2 and log(1 + m) - m + m**2 / 2."""

    e: str
    m: str
    square: str
    curve: str


def log(f: Lanes, x: str) -> str:
    """The natural logarithm of each lane."""
    return at_ends(f, x, _natural(f, _parts(f, x)))


def log1p(f: Lanes, x: str) -> str:
    """log(1 + x) of each lane, with the sign of x."""
    y = f.add(x, f.const(1.0))
    return f.intrinsic("copysign", at_ends(f, y, _natural(f, _parts(f, y, x))), x)


def _natural(f: Lanes, parts: _Parts) -> str:
    e, m, square, y = parts
    high, low = LN2[f.dtype.bits]
    y = f.fma(e, f.const(low), y)
    y = f.fma(square, f.const(-0.5), y)
    return f.fma(e, f.const(high), f.add(m, y))


# Only the smaller part of the result is multiplied by a rounded factor (Cephes, log2f.c).
_LOG2_E = math.log2(math.e) - 1.0


def log2(f: Lanes, x: str) -> str:
    """The logarithm to base 2 of each lane."""
    e, m, square, y = _parts(f, x)
    y = f.fma(square, f.const(-0.5), y)
    z = f.fma(m, f.const(_LOG2_E), f.mul(y, f.const(_LOG2_E)))
    return at_ends(f, x, f.add(e, f.add(m, f.add(z, y))))


def log10(f: Lanes, x: str) -> str:
    """The logarithm to base 10 of each lane."""
    e, m, square, y = _parts(f, x)
    (high, low), (two_high, two_low) = _LOG10_E[f.dtype.bits], LOG10_2[f.dtype.bits]
    y = f.fma(square, f.const(-0.5), y)
    z = f.mul(f.add(m, y), f.const(low))
    z = f.fma(e, f.const(two_low), z)
    z = f.fma(y, f.const(high), z)
    z = f.fma(m, f.const(high), z)
    return at_ends(f, x, f.fma(e, f.const(two_high), z))


def _parts(f: Lanes, x: str, less: str | None = None) -> _Parts:
    """The parts of x. `less` is x - 1 with the digits that x has lost by rounding."""
    e, m = exponent_and_rest(f, x)
    if less is not None:
        m = f.choose(f.test("oeq", e, f.const(0.0)), less, m)
    square = f.mul(m, m)
    if f.dtype.bits == 32:
        return _Parts(e, m, square, f.mul(f.mul(f.polynomial(m, _LOG), m), square))
    s = f.div(m, f.add(m, f.const(2.0)))
    z = f.mul(s, s)
    most = f.fma(square, f.const(0.5), f.mul(z, f.polynomial(z, _RATIO)))
    return _Parts(e, m, square, f.mul(s, most))


def exponent_and_rest(f: Lanes, x: str) -> tuple[str, str]:
    """The whole number e and m of x = 2**e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)].

    x is positive and finite.
    """
    single = f.dtype.bits == 32
    tiny = f.test("olt", x, f.const(2.0**-126 if single else 2.0**-1022))
    normal = f.choose(tiny, f.mul(x, f.const(2.0**f.field)), x)
    e, m = (_halves if single else split)(f, normal)
    return f.choose(tiny, f.sub(e, f.const(float(f.field))), e), m


def _halves(f: Lanes, x: str) -> tuple[str, str]:
    """`exponent_and_rest` for a normal float32."""
    bits = f.bits(x)
    shifted = f.int_op("sub", bits, f.int_const(_SQRT_HALF[32]))
    exponent = f.int_op("ashr", shifted, f.int_const(23))
    mantissa = f.int_op("sub", bits, f.int_op("shl", exponent, f.int_const(23)))
    e = f.b.emit(f"sitofp {f.int_kind} {exponent} to {f.kind}")
    return e, f.sub(f.from_bits(mantissa), f.const(1.0))


def split(d: Lanes, x: str) -> tuple[str, str]:
    """`exponent_and_rest` for a normal float64."""
    bits = d.bits(x)
    rounded = d.int_op("add", bits, d.int_const(_ONE - _SQRT_HALF[64]))
    biased = d.int_op("lshr", rounded, d.int_const(d.field))
    power = d.int_op("sub", d.int_op("shl", biased, d.int_const(d.field)), d.int_const(_ONE))
    m = d.sub(d.from_bits(d.int_op("sub", bits, power)), d.const(1.0))
    numbered = d.int_op("or", biased, d.int_const((d.field + 1023) << d.field))
    return d.sub(d.from_bits(numbered), d.const(_BIASED)), m


def at_ends(f: Lanes, x: str, result: str) -> str:
    """`result`, the logarithm of x, corrected for 0, infinity, NaN and negative numbers."""
    result = f.choose(f.test("oeq", x, f.const(math.inf)), x, result)
    result = f.choose(f.test("oeq", x, f.const(0.0)), f.const(-math.inf), result)
    return f.choose(f.test("oge", x, f.const(0.0)), result, f.const(math.nan))
