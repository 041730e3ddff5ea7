"""float32 functions that are computed in float64 and rounded once: no step loses what counts.

There subnormals are normal numbers, squares do not overflow, and a difference of two near numbers
has 29 bits more than the result needs: results err by 0.51 units in the last place. The polynomials
are minimax (Remez), highest power first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_log import at_ends

_FIELD = 52
"""Bits of a float64 below its exponent."""

WHOLE = 1.5 * 2.0**_FIELD
"""A float64 added to this becomes a whole number, which stands in its last bits."""

_ONE = 1023 << _FIELD
"""The bits of 1.0."""

_LN2 = math.log(2.0)

Near = Callable[..., str]
"""Computes a register of registers."""


class Tier(NamedTuple):
    """A way to compute a function: `near`, of registers whose floats have `bits`. `far` tells the
    lanes for which that is wrong, which the next way computes; None: there are none."""

    near: Near
    far: Near | None = None
    bits: int = 64


# -- exponentials ---------------------------------------------------------------------------------

# exp(r) = 1 + r + r**2 P(r) on |r| <= ln2 / 2, relative error 2**-34
_EXP = (
    1.9918392663111276e-4,
    1.3946060313319664e-3,
    8.333264333433031e-3,
    4.1666270128855216e-2,
    1.6666666860842883e-1,
    5.000000077846962e-1,
)

_LEAST, _MOST = -156.0, 130.0
"""Powers of two that float32 rounds to zero, and to infinity."""


def _power(d: Lanes, n: str, r: str) -> tuple[str, str]:
    """2**n of a whole number to which WHOLE was added, and exp(r) - 1."""
    factor = d.int_op("shl", d.bits(n), d.int_const(_FIELD))
    factor = d.from_bits(d.int_op("add", factor, d.int_const(_ONE)))
    return factor, d.mul(r, d.fma(r, d.polynomial(r, _EXP), d.const(1.0)))


def _exp2(d: Lanes, x: str) -> str:
    x = d.limit(x, _LEAST, _MOST)
    shifted = d.add(x, d.const(WHOLE))
    rest = d.mul(d.sub(x, d.sub(shifted, d.const(WHOLE))), d.const(_LN2))
    factor, rest = _power(d, shifted, rest)
    return d.fma(factor, rest, factor)


def _natural_power(d: Lanes, x: str) -> tuple[str, str]:
    """exp(x) as 2**n and what comes to it, with that for a factor."""
    x = d.limit(x, _LEAST * _LN2, _MOST * _LN2)
    shifted = d.fma(x, d.const(1 / _LN2), d.const(WHOLE))
    n = d.sub(shifted, d.const(WHOLE))
    return _power(d, shifted, d.fma(n, d.const(-_LN2), x))


def _expm1(d: Lanes, x: str) -> str:
    """2**n (1 + rest) - 1, of which the rest alone is left for n = 0."""
    factor, rest = _natural_power(d, x)
    result = d.fma(factor, rest, d.sub(factor, d.const(1.0)))
    return d.intrinsic("copysign", result, x)


def _sinh(d: Lanes, x: str) -> str:
    """(u + u / (u + 1)) / 2 of u = exp(|x|) - 1."""
    u = _expm1(d, d.intrinsic("fabs", x))
    total = d.add(u, d.div(u, d.add(u, d.const(1.0))))
    return d.intrinsic("copysign", d.mul(total, d.const(0.5)), x)


def _cosh(d: Lanes, x: str) -> str:
    factor, rest = _natural_power(d, d.intrinsic("fabs", x))
    power = d.fma(factor, rest, factor)
    return d.mul(d.add(power, d.div(d.const(1.0), power)), d.const(0.5))


# -- logarithms -----------------------------------------------------------------------------------

# log(1 + m) = m - m**2 / 2 + m**3 P(m) on [sqrt(1/2) - 1, sqrt(2) - 1], relative error 2**-35
_LOG = (
    5.5334779444184606e-2,
    -9.976024278681968e-2,
    9.975303183539658e-2,
    -9.898804956374781e-2,
    1.1013132630142858e-1,
    -1.2500379514158716e-1,
    1.4290407910634187e-1,
    -1.6666784286070113e-1,
    1.9999902809285863e-1,
    -2.4999997918819228e-1,
    3.333333397880554e-1,
)

_SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""

_BIASED = float(2**_FIELD + 1023)
"""An exponent below the bits of 2**52 is a number larger by this."""


def _log_parts(d: Lanes, x: str, less: str | None = None) -> tuple[str, str]:
    """The whole number e and log(1 + m) of x = 2**e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)].

    `less` is x - 1 where that has digits that x has not. x is positive and finite.
    """
    bits = d.bits(x)
    biased = d.int_op(
        "lshr", d.int_op("add", bits, d.int_const(_ONE - _SQRT_HALF)), d.int_const(52)
    )
    power = d.int_op("sub", d.int_op("shl", biased, d.int_const(_FIELD)), d.int_const(_ONE))
    m = d.sub(d.from_bits(d.int_op("sub", bits, power)), d.const(1.0))
    numbered = d.int_op("or", biased, d.int_const((_FIELD + 1023) << _FIELD))
    e = d.sub(d.from_bits(numbered), d.const(_BIASED))
    if less is not None:
        m = d.choose(d.test("oeq", e, d.const(0.0)), less, m)
    curve = d.fma(m, d.polynomial(m, _LOG), d.const(-0.5))
    return e, d.mul(m, d.fma(m, curve, d.const(1.0)))


def _log2(d: Lanes, x: str) -> str:
    e, rest = _log_parts(d, x)
    return at_ends(d, x, d.fma(rest, d.const(1 / _LN2), e))


def _log1p(d: Lanes, x: str) -> str:
    y = d.add(x, d.const(1.0))
    e, rest = _log_parts(d, y, x)
    return d.intrinsic("copysign", at_ends(d, y, d.fma(e, d.const(_LN2), rest)), x)


def _asinh(d: Lanes, x: str) -> str:
    """log1p(a + a**2 / (1 + sqrt(1 + a**2))) of a = |x|."""
    a, one = d.intrinsic("fabs", x), d.const(1.0)
    square = d.mul(a, a)
    more = d.div(square, d.add(one, d.intrinsic("sqrt", d.add(one, square))))
    result = d.choose(d.test("oeq", a, d.const(math.inf)), a, _log1p(d, d.add(a, more)))
    return d.intrinsic("copysign", result, x)


def _acosh(d: Lanes, x: str) -> str:
    """log1p(t + sqrt(t (t + 2))) of t = x - 1."""
    t = d.sub(x, d.const(1.0))
    root = d.intrinsic("sqrt", d.mul(t, d.add(t, d.const(2.0))))
    inside = d.test("oge", x, d.const(1.0))
    return d.choose(inside, _log1p(d, d.add(t, root)), d.const(math.nan))


def _atanh(d: Lanes, x: str) -> str:
    """log1p(2 a / (1 - a)) / 2 of a = |x|."""
    a = d.intrinsic("fabs", x)
    ratio = d.div(d.add(a, a), d.sub(d.const(1.0), a))
    return d.intrinsic("copysign", d.mul(_log1p(d, ratio), d.const(0.5)), x)


def _pow(d: Lanes, x: str, y: str) -> str:
    """2**(y log2 |x|), with the sign and the ends of C's function."""
    one, infinity = d.const(1.0), d.const(math.inf)
    size, tall = d.intrinsic("fabs", x), d.intrinsic("fabs", y)
    result = _exp2(d, d.mul(y, _log2(d, size)))
    whole = d.test("oeq", d.intrinsic("trunc", y), y)
    half = d.mul(y, d.const(0.5))
    even = d.test("oeq", d.intrinsic("trunc", half), half)
    signed = d.choose(even, result, d.intrinsic("copysign", result, x))
    signed = d.choose(whole, signed, d.choose(_is_below(d, x, size), d.const(math.nan), result))
    always = d.either(d.test("oeq", x, one), d.test("oeq", y, d.const(0.0)))
    opposite = d.both(d.test("oeq", size, one), d.test("oeq", tall, infinity))
    return d.choose(d.either(always, opposite), one, signed)


def _is_below(d: Lanes, x: str, size: str) -> str:
    """The lanes of finite numbers below zero."""
    finite = d.test("olt", size, d.const(math.inf))
    return d.both(d.test("olt", x, d.const(0.0)), finite)


# -- roots and remainders --------------------------------------------------------------------------


def _hypot(d: Lanes, x: str, y: str) -> str:
    """The root of squares that do not overflow; infinite beside NaN, too."""
    root = d.intrinsic("sqrt", d.fma(x, x, d.mul(y, y)))
    for side in (x, y):
        size = d.intrinsic("fabs", side)
        root = d.choose(d.test("oeq", size, d.const(math.inf)), size, root)
    return root


_EXACT = 2.0**29
"""Quotients up to this times a float32 are exact in float64."""


def _fmod(d: Lanes, x: str, y: str) -> str:
    quotient = d.intrinsic("trunc", d.div(x, y))
    return d.intrinsic("copysign", d.fma(d.neg(quotient), y, x), x)


def _is_far_from(d: Lanes, x: str, y: str) -> str:
    """The lanes whose quotient is large or none, or whose divisor is infinite."""
    size = d.intrinsic("fabs", d.div(x, y))
    infinite = d.test("oeq", d.intrinsic("fabs", y), d.const(math.inf))
    return d.either(d.test("ugt", size, d.const(_EXACT)), infinite)


WIDE: dict[str, tuple[Tier, ...]] = {
    "expm1": (Tier(_expm1),),
    "sinh": (Tier(_sinh),),
    "cosh": (Tier(_cosh),),
    "asinh": (Tier(_asinh),),
    "acosh": (Tier(_acosh),),
    "atanh": (Tier(_atanh),),
    "pow": (Tier(_pow),),
    "hypot": (Tier(_hypot),),
    "fmod": (Tier(_fmod, _is_far_from),),
}
"""Functions by their names in TIR, each with the ways to compute it."""
