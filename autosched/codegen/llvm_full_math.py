"""float64 functions: expm1, hyperbolic functions, erf, powers, roots and remainders.

Angles are in codegen/llvm_angles.py. Remainders are exact; the other functions err by 1.0 (powers,
the error function) to 3.5 (tan) units in the last place. The polynomials are minimax (Remez),
highest power first.
"""

from __future__ import annotations

from autosched.codegen.llvm_angles import FULL_ANGLES
from autosched.codegen.llvm_exp import DOUBLE_EXP, exp2_of_sum, exp_by_polynomial
from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_log import LN2, at_ends, exponent_and_rest
from autosched.codegen.llvm_wide_math import (
    Powers,
    Tier,
    infinite_beside_nan,
    is_far_from,
    signed_power,
)

_POWERS = Powers(DOUBLE_EXP[:-2], LN2[64], least=-40.0, most=710.6)

# -- the error function ---------------------------------------------------------------------------

# erf(x) = x + x P(x**2) on |x| <= 1, relative error 2**-57
_NEAR = (
    -7.80118748743847e-10,
    1.3722974369427304e-8,
    -1.6209175158729677e-7,
    1.6447517531099357e-6,
    -1.4924744646817323e-5,
    1.2055295319352556e-4,
    -8.54832598964766e-4,
    5.223977607422185e-3,
    -2.6866170643276028e-2,
    1.1283791670945252e-1,
    -3.761263890318355e-1,
    1.2837916709551256e-1,
)

_CENTRE = 2.45
_LAST = 5.95
"""The least x whose erf rounds to 1."""

# erf(x) = 1 - exp(-x**2) Q((x - 2.45) / (x + 2.45)) on [1, 5.95], error 2**-56 of the result
_FAR = (
    -6.073848244381285e-6,
    -6.362054992245117e-5,
    -1.1155264430707155e-4,
    2.923489802586864e-4,
    6.873742487823041e-4,
    -2.8557462942243746e-3,
    -2.28583471247806e-3,
    3.634489792283631e-2,
    -1.2148868976827616e-1,
    2.516681327613859e-1,
    -3.768218340595225e-1,
    2.1458709224109482e-1,
)


def _erf(d: Lanes, x: str) -> str:
    size, one = d.limit(d.intrinsic("fabs", x), 0.0, _LAST), d.const(1.0)
    square = d.mul(size, size)
    near = d.fma(size, d.polynomial(square, _NEAR), size)
    t = d.div(d.sub(size, d.const(_CENTRE)), d.add(size, d.const(_CENTRE)))
    power = exp_by_polynomial(d, d.neg(square))
    far = d.fma(d.neg(power), d.polynomial(t, _FAR), one)
    return d.intrinsic("copysign", d.choose(d.test("olt", size, one), near, far), x)


# -- powers ---------------------------------------------------------------------------------------

# log((1 + s) / (1 - s)) = 2 s + s**3 (2/3 + s**2 P(s**2)) on s**2 <= 0.0295, relative error 2**-73
_RATIO = (
    1.1988853005357909e-1,
    1.1674837745110361e-1,
    1.3336316470913567e-1,
    1.538455689565027e-1,
    1.8181818869953284e-1,
    2.2222222217539409e-1,
    2.85714285714451e-1,
    3.999999999999998e-1,
)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)

_Pair = tuple[str, str]
"""A number as the sum of two registers: its rounded value and the rest."""


def _added(d: Lanes, x: str, y: str, low: str) -> _Pair:
    """x + y + low as a pair, for |x| >= |y| or x = 0."""
    total = d.add(x, y)
    return total, d.add(d.add(d.sub(x, total), y), low)


def _times(d: Lanes, x: _Pair, y: _Pair) -> _Pair:
    """x y as a pair, without the product of the lower parts."""
    high = d.mul(x[0], y[0])
    low = d.fma(x[0], y[0], d.neg(high))
    return high, d.fma(x[1], y[0], d.fma(x[0], y[1], low))


def _ratio(d: Lanes, m: str) -> _Pair:
    """m / (2 + m) as a pair."""
    base = d.add(m, d.const(2.0))
    inverse = d.div(d.const(1.0), base)
    s, base_low = d.mul(m, inverse), d.sub(m, d.sub(base, d.const(2.0)))
    lacking = d.fma(d.neg(s), base_low, d.fma(d.neg(s), base, m))
    return s, d.mul(lacking, inverse)


def _log2(d: Lanes, x: str) -> _Pair:
    """The logarithm to base 2 of a positive x as a pair, to about 2**-65 of its value."""
    e, m = exponent_and_rest(d, x)
    s = _ratio(d, m)
    z = _times(d, s, s)
    more = d.mul(z[0], d.polynomial(z[0], _RATIO))
    curve = _added(d, d.const(_TWO_THIRDS[0]), more, d.const(_TWO_THIRDS[1]))
    high, low = _times(d, s, _times(d, z, curve))
    natural = _added(d, d.add(s[0], s[0]), high, d.add(d.add(s[1], s[1]), low))
    binary = _times(d, natural, (d.const(_LOG2_E[0]), d.const(_LOG2_E[1])))
    return _added(d, e, *binary)


def _pow(d: Lanes, x: str, y: str) -> str:
    """pow(x, y) = 2**(y log2 |x|)."""
    size = d.intrinsic("fabs", x)
    high, low = _log2(d, size)
    high = at_ends(d, size, high)
    p = d.mul(y, high)
    rest = d.fma(y, low, d.fma(y, high, d.neg(p)))
    # Where the result is zero or infinite, or p is NaN, the rest may be NaN.
    near = d.test("olt", d.intrinsic("fabs", p), d.const(1100.0))
    result = exp2_of_sum(d, p, d.choose(near, rest, d.const(0.0)))
    return signed_power(d, x, y, result)


# -- roots and remainders --------------------------------------------------------------------------


def _hypot(d: Lanes, x: str, y: str) -> str:
    """The root of scaled squares, which neither overflow nor vanish; infinite beside NaN, too."""
    one, x, y = d.const(1.0), d.intrinsic("fabs", x), d.intrinsic("fabs", y)
    largest = d.choose(d.test("ogt", x, y), x, y)
    large = d.test("ogt", largest, d.const(2.0**500))
    small = d.test("olt", largest, d.const(2.0**-500))
    down, up = d.const(2.0**-600), d.const(2.0**600)
    scale = d.choose(large, down, d.choose(small, up, one))
    back = d.choose(large, up, d.choose(small, down, one))
    a, c = d.mul(x, scale), d.mul(y, scale)
    return infinite_beside_nan(d, x, y, d.mul(d.intrinsic("sqrt", d.fma(a, a, d.mul(c, c))), back))


_COUNTED = 2.0**52
"""Quotients below this are wrong by one at most."""


def _fmod(d: Lanes, x: str, y: str) -> str:
    """|x| - q |y|, plus |y| where rounding took the quotient q up to the next whole number.

    The result has the sign of x.
    """
    size, unit = d.intrinsic("fabs", x), d.intrinsic("fabs", y)
    quotient = d.intrinsic("trunc", d.div(size, unit))
    rest = d.fma(d.neg(quotient), unit, size)
    rest = d.choose(d.test("olt", rest, d.const(0.0)), d.add(rest, unit), rest)
    return d.intrinsic("copysign", rest, x)


def _is_far_from(d: Lanes, x: str, y: str) -> str:
    return is_far_from(d, x, y, _COUNTED)


FULL: dict[str, tuple[Tier, ...]] = {
    **FULL_ANGLES,
    "expm1": (Tier(_POWERS.expm1),),
    "sinh": (Tier(_POWERS.sinh),),
    "cosh": (Tier(_POWERS.cosh),),
    "tanh": (Tier(_POWERS.tanh),),
    "erf": (Tier(_erf),),
    "pow": (Tier(_pow, fused=True),),
    "hypot": (Tier(_hypot),),
    "fmod": (Tier(_fmod, _is_far_from, fused=True),),
}
"""Functions of float64 by their names in TIR, each with the ways to compute it."""
