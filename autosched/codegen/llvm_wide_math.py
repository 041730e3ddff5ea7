"""Functions of float32 that are computed in float64 and rounded once.

In float64, subnormals of float32 are normal numbers, squares of float32 do not overflow, and a
difference of two near numbers has 29 bits more than the result needs. Results therefore err by 0.51
units in the last place. The polynomials are minimax (Remez), highest power first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_log import at_ends, split

_LN2 = math.log(2.0)

Near = Callable[..., str]
"""Computes the register of a result from the registers of arguments."""


class Tier(NamedTuple):
    """A way to compute a function.

    `near` computes it in registers whose floats have `bits` bits. `far` gives the lanes for which
    `near` is wrong and which the next way computes; None if there are none. `fused` says that
    `near` needs multiply-adds that round once.
    """

    near: Near
    far: Near | None = None
    bits: int = 64
    fused: bool = False


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
"""Exponents of powers of two that float32 rounds to zero, and to infinity."""


def _power(d: Lanes, n: str, less: int) -> str:
    """2**(n - less) for a whole number n to which `whole` was added."""
    factor = d.int_op("shl", d.bits(n), d.int_const(d.field))
    return d.from_bits(d.int_op("add", factor, d.int_const((1023 - less) << d.field)))


def _exp2(d: Lanes, x: str) -> str:
    x = d.limit(x, _LEAST, _MOST)
    shifted = d.add(x, d.const(d.whole))
    r = d.mul(d.sub(x, d.sub(shifted, d.const(d.whole))), d.const(_LN2))
    factor, rest = _power(d, shifted, 0), d.mul(r, d.fma(r, d.polynomial(r, _EXP), d.const(1.0)))
    return d.fma(factor, rest, factor)


class Powers(NamedTuple):
    """Functions of exp(x) - 1.

    `polynomial` is P of exp(r) = 1 + r + r**2 P(r) on |r| <= ln2 / 2. `two` is log(2) in parts.
    Results no longer change beyond `least` and `most`: exp(x) - 1 below `least`, functions of
    exp(x) / 2 above `most`.
    """

    polynomial: tuple[float, ...]
    two: tuple[float, ...]
    least: float
    most: float

    def _quarter(self, d: Lanes, x: str) -> tuple[str, str]:
        """2**n / 4 and exp(x) / 2**n - 1.

        The result is in quarters because exp(x) may be infinite where exp(x) / 2 is not.
        """
        x = d.limit(x, self.least, self.most)
        shifted = d.fma(x, d.const(1 / _LN2), d.const(d.whole))
        n = d.sub(shifted, d.const(d.whole))
        for part in self.two:
            x = d.fma(n, d.const(-part), x)
        rest = d.mul(x, d.fma(x, d.polynomial(x, self.polynomial), d.const(1.0)))
        return _power(d, shifted, 2), rest

    def _less(self, d: Lanes, x: str) -> str:
        """(exp(x) - 1) / 4, to which the rest alone contributes where n = 0."""
        quarter, rest = self._quarter(d, x)
        return d.fma(quarter, rest, d.sub(quarter, d.const(0.25)))

    def expm1(self, d: Lanes, x: str) -> str:
        """exp(x) - 1, with the sign of x."""
        return d.intrinsic("copysign", d.mul(self._less(d, x), d.const(4.0)), x)

    def sinh(self, d: Lanes, x: str) -> str:
        """sinh(x) = (u + u / (u + 1)) / 2 with u = exp(|x|) - 1, with the sign of x."""
        u = self._less(d, d.intrinsic("fabs", x))
        half = d.add(u, u)
        ratio = d.div(u, d.add(half, d.const(0.5)))
        return d.intrinsic("copysign", d.add(half, ratio), x)

    def cosh(self, d: Lanes, x: str) -> str:
        """cosh(x) = (p + 1 / p) / 2 with p = exp(|x|)."""
        quarter, rest = self._quarter(d, d.intrinsic("fabs", x))
        p = d.fma(quarter, rest, quarter)
        return d.add(d.add(p, p), d.div(d.const(0.125), p))

    def tanh(self, d: Lanes, x: str) -> str:
        """tanh(x) = u / (u + 2) with u = exp(2 |x|) - 1; it is 1 long before 2 |x| = 60."""
        size = d.intrinsic("fabs", x)
        u = self._less(d, d.limit(d.add(size, size), 0.0, 60.0))
        half = d.add(u, u)
        return d.intrinsic("copysign", d.div(half, d.add(half, d.const(1.0))), x)


_POWERS = Powers(_EXP, (_LN2,), _LEAST * _LN2, _MOST * _LN2)


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


def _log_parts(d: Lanes, x: str, less: str | None = None) -> tuple[str, str]:
    """The whole number e and log(1 + m) of x = 2**e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)].

    `less` is x - 1, for x that has lost digits of it. x is positive and finite.
    """
    e, m = split(d, x)
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
    """asinh(x) = log1p(a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|."""
    a, one = d.intrinsic("fabs", x), d.const(1.0)
    square = d.mul(a, a)
    more = d.div(square, d.add(one, d.intrinsic("sqrt", d.add(one, square))))
    result = d.choose(d.test("oeq", a, d.const(math.inf)), a, _log1p(d, d.add(a, more)))
    return d.intrinsic("copysign", result, x)


def _acosh(d: Lanes, x: str) -> str:
    """acosh(x) = log1p(t + sqrt(t (t + 2))) with t = x - 1."""
    t = d.sub(x, d.const(1.0))
    root = d.intrinsic("sqrt", d.mul(t, d.add(t, d.const(2.0))))
    inside = d.test("oge", x, d.const(1.0))
    return d.choose(inside, _log1p(d, d.add(t, root)), d.const(math.nan))


def _atanh(d: Lanes, x: str) -> str:
    """atanh(x) = log1p(2 a / (1 - a)) / 2 with a = |x|."""
    a = d.intrinsic("fabs", x)
    ratio = d.div(d.add(a, a), d.sub(d.const(1.0), a))
    return d.intrinsic("copysign", d.mul(_log1p(d, ratio), d.const(0.5)), x)


def _pow(d: Lanes, x: str, y: str) -> str:
    """pow(x, y) = 2**(y log2 |x|)."""
    size = d.intrinsic("fabs", x)
    return signed_power(d, x, y, _exp2(d, d.mul(y, _log2(d, size))))


def signed_power(d: Lanes, x: str, y: str, result: str) -> str:
    """`result`, which is |x|**y, with the sign and the special cases of C's pow."""
    one, infinity = d.const(1.0), d.const(math.inf)
    size, tall = d.intrinsic("fabs", x), d.intrinsic("fabs", y)
    whole = d.test("oeq", d.intrinsic("trunc", y), y)
    half = d.mul(y, d.const(0.5))
    even = d.test("oeq", d.intrinsic("trunc", half), half)
    signed = d.choose(even, result, d.intrinsic("copysign", result, x))
    signed = d.choose(whole, signed, d.choose(_is_below(d, x, size), d.const(math.nan), result))
    always = d.either(d.test("oeq", x, one), d.test("oeq", y, d.const(0.0)))
    opposite = d.both(d.test("oeq", size, one), d.test("oeq", tall, infinity))
    return d.choose(d.either(always, opposite), one, signed)


def _is_below(d: Lanes, x: str, size: str) -> str:
    """The lanes in which x is finite and below zero."""
    finite = d.test("olt", size, d.const(math.inf))
    return d.both(d.test("olt", x, d.const(0.0)), finite)


# -- roots and remainders --------------------------------------------------------------------------


def _hypot(d: Lanes, x: str, y: str) -> str:
    """The root of the sum of the squares, which do not overflow in float64."""
    return infinite_beside_nan(d, x, y, d.intrinsic("sqrt", d.fma(x, x, d.mul(y, y))))


def infinite_beside_nan(d: Lanes, x: str, y: str, root: str) -> str:
    """`root`, or infinity where x or y is infinite."""
    for side in (x, y):
        size = d.intrinsic("fabs", side)
        root = d.choose(d.test("oeq", size, d.const(math.inf)), size, root)
    return root


_EXACT = 2.0**29
"""Products of a float32 with quotients up to this are exact in float64."""


def _fmod(d: Lanes, x: str, y: str) -> str:
    quotient = d.intrinsic("trunc", d.div(x, y))
    return d.intrinsic("copysign", d.fma(d.neg(quotient), y, x), x)


def is_far_from(d: Lanes, x: str, y: str, most: float = _EXACT) -> str:
    """The lanes whose quotient is larger than `most` or NaN, or whose divisor is infinite."""
    size = d.intrinsic("fabs", d.div(x, y))
    infinite = d.test("oeq", d.intrinsic("fabs", y), d.const(math.inf))
    return d.either(d.test("ugt", size, d.const(most)), infinite)


WIDE: dict[str, tuple[Tier, ...]] = {
    "expm1": (Tier(_POWERS.expm1),),
    "sinh": (Tier(_POWERS.sinh),),
    "cosh": (Tier(_POWERS.cosh),),
    "asinh": (Tier(_asinh),),
    "acosh": (Tier(_acosh),),
    "atanh": (Tier(_atanh),),
    "pow": (Tier(_pow),),
    "hypot": (Tier(_hypot),),
    "fmod": (Tier(_fmod, is_far_from),),
}
"""Functions by their names in TIR, each with the ways to compute it."""
