"""Powers of e, 2 and 10 of registers, by a polynomial or, for float32, by a table.

The table has sixteen powers and needs a shorter polynomial. Results overflow to infinity and
underflow through the subnormals to zero by themselves. NaN passes through all steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_log import LN2, LOG10_2


class _Width(NamedTuple):
    """Constants that depend on the type.

    `polynomial` is that of exp(r) on |r| <= ln2 / 2, highest power first. `least` and `most` are
    exponents of two beyond which results are zero and infinite, and whose powers are still products
    of two floats. 2**`zero` is half the least subnormal.
    """

    polynomial: tuple[float, ...]
    zero: float
    least: float
    most: float


# 1 + r + r**2 P(r): minimax (Lawson's iteration and Remez), relative errors 2**-28 and 2**-58.
_SINGLE_EXP = (
    1.3814540104697857e-3,
    8.368745195589498e-3,
    4.166839079138325e-2,
    1.6666520398318790e-1,
    4.999999343207684e-1,
    1.0,
    1.0,
)
DOUBLE_EXP = (
    2.5000212761314676e-8,
    2.763023944785383e-7,
    2.7557586041709454e-6,
    2.4801493122829197e-5,
    1.98412695067156e-4,
    1.3888888943607417e-3,
    8.33333333349455e-3,
    4.166666666653025e-2,
    1.6666666666666413e-1,
    5.000000000000011e-1,
    1.0,
    1.0,
)

_WIDTHS = {
    32: _Width(_SINGLE_EXP, zero=-150.0, least=-150.6, most=128.4),
    64: _Width(DOUBLE_EXP, zero=-1075.0, least=-1075.6, most=1024.4),
}

_POWERS = tuple(2.0 ** (k / 16) for k in range(16))
_SIXTEENTHS = 1.5 * 2.0**19
"""A float32 added to this becomes a multiple of 1/16, and the last four bits are the sixteenths."""

# exp(r) = 1 + r + r**2 (a + b r) on |r| <= ln2 / 32: minimax, relative error 2**-29.
_SHORT = (0.16666721, 0.50001617)


class _Base(NamedTuple):
    """The base of which powers are computed.

    `ln` is its natural logarithm. `two` has the logarithm of two to that base in parts, by the bits
    of the type. Products of the first part with the multiples of 1/16 that are subtracted are exact
    (Cody and Waite).
    """

    ln: float
    two: Mapping[int, tuple[float, ...]]

    def rest(self, f: Lanes, x: str, n: str, low: str | None = None) -> str:
        """(x - n log 2 + low) ln, with the logarithm to this base."""
        for part in self.two[f.dtype.bits]:
            x = f.fma(n, f.const(-part), x)
        x = x if low is None else f.add(x, low)
        return x if self.ln == 1.0 else f.mul(x, f.const(self.ln))


_E = _Base(1.0, LN2)
_TWO = _Base(math.log(2.0), {32: (1.0,), 64: (1.0,)})
_TEN = _Base(math.log(10.0), {32: (0.301025390625, 4.605039066518657e-6), 64: LOG10_2[64]})


def exp(f: Lanes, x: str) -> str:
    """The exponential of each lane."""
    return _power(f, x, _E)


def exp2(f: Lanes, x: str) -> str:
    """Two to the power of each lane."""
    return _power(f, x, _TWO)


def exp2_of_sum(f: Lanes, x: str, low: str) -> str:
    """2**(x + low); `low` is what rounding took from the sum x."""
    return _by_polynomial(f, x, _TWO, low)


def exp10(f: Lanes, x: str) -> str:
    """Ten to the power of each lane."""
    return _power(f, x, _TEN)


def exp_by_polynomial(f: Lanes, x: str) -> str:
    """The exponential of each lane by the polynomial, for a sigmoid.

    By the table a sigmoid would err by 3 units in the last place.
    """
    return _by_polynomial(f, x, _E)


def _power(f: Lanes, x: str, base: _Base) -> str:
    return _by_table(f, x, base) if f.has_tables else _by_polynomial(f, x, base)


def _by_polynomial(f: Lanes, x: str, base: _Base, low: str | None = None) -> str:
    """x ln = n ln2 + r with |r| <= ln2 / 2; a polynomial in r, times 2**n.

    The exponential errs by 0.89 units in the last place (1.15 without fused multiply-adds), by the
    table by 0.99. In float32 it takes eighteen instructions if no instruction scales, eleven of
    them multiplications.
    """
    log2, width = base.ln / math.log(2.0), _WIDTHS[f.dtype.bits]
    limited = f.limit(x, width.least / log2, width.most / log2)
    if f.scales_at_once:
        n = f.intrinsic("roundeven", f.mul(limited, f.const(log2)))
        power = f.polynomial(base.rest(f, limited, n, low), width.polynomial)
        return _or_zero(f, n, f.scale(power, n))
    whole = f.const(f.whole + f.scale_bias)
    shifted = f.fma(limited, f.const(log2), whole)
    n = f.sub(shifted, whole)
    power = f.polynomial(base.rest(f, limited, n, low), width.polynomial)
    return f.scale_by_bits(_or_zero(f, shifted, power, f.whole + f.scale_bias), shifted)


def _by_table(f: Lanes, x: str, base: _Base) -> str:
    """x ln = n ln2 + r where n is a multiple of 1/16 and |r| <= ln2 / 32: eleven instructions.

    2**n is a power from the table times one that the scaling applies, which takes the floor of n.
    If x is so large that r is out of range (infinities, too), limiting r brings it back, and n
    decides.
    """
    shifted = f.fma(x, f.const(base.ln / math.log(2.0)), f.const(_SIXTEENTHS))
    n = f.sub(shifted, f.const(_SIXTEENTHS))
    r = f.limit_size(base.rest(f, x, n), 1 / 32)
    power = f.look_up(_POWERS, shifted)
    more = f.fma(f.polynomial(r, _SHORT), f.mul(r, r), r)
    return _or_zero(f, n, f.scale(f.fma(power, more, power), n))


def _or_zero(f: Lanes, n: str, value: str, offset: float = 0) -> str:
    """0 where 2**(n - offset) is below half the least subnormal, else `value`.

    The result is the same without it. Where underflow is slow the multiplication by 2**n leaves
    these lanes alone (masked attention has many), or multiplies zeros.
    """
    if not f.b.module.slow_underflow:
        return value
    least = _WIDTHS[f.dtype.bits].zero + offset
    return f.choose(f.test("uge", n, f.const(least)), value, f.const(0.0))
