"""Powers of e, 2 and 10 of float32 registers: a polynomial, or a table of sixteen powers and a
shorter one.

Results overflow to infinity and underflow through the subnormals to zero by themselves. NaN goes
through all steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autosched.codegen.llvm_lanes import SCALE_BIAS, Lanes

# exp(r) = 1 + r + r**2 P(r) on |r| <= ln2 / 2: minimax, relative error 2**-28 (Lawson's iteration).
_POLYNOMIAL = (
    1.3814540104697857e-3,
    8.368745195589498e-3,
    4.166839079138325e-2,
    1.6666520398318790e-1,
    4.999999343207684e-1,
    1.0,
    1.0,
)

_POWERS = tuple(2.0 ** (k / 16) for k in range(16))
_SIXTEENTHS = 1.5 * 2.0**19
"""A float added to this becomes a multiple of 1/16, whose last four bits are the sixteenths."""

_WHOLE = 1.5 * 2.0**23
"""A float added to this becomes a whole number, which stands in its last bits."""

# exp(r) = 1 + r + r**2 (a + b r) on |r| <= ln2 / 32: minimax, relative error 2**-29.
_SHORT = (0.16666721, 0.50001617)

_MOST = (-150.04, 128.4)
"""Powers of two beyond which results are zero and infinite, and still two floats' product."""


class _Base(NamedTuple):
    """The number of which powers are computed: its natural logarithm and, in parts, the logarithm
    of two to that base. Products of the first part with the multiples of 1/16 that are taken off
    are exact (Cody and Waite)."""

    ln: float
    two: tuple[float, ...]

    def rest(self, f: Lanes, x: str, n: str) -> str:
        """(x - n log 2) ln."""
        for part in self.two:
            x = f.fma(n, f.const(-part), x)
        return x if self.ln == 1.0 else f.mul(x, f.const(self.ln))


_E = _Base(1.0, (0.693359375, -2.12194440e-4))
_TWO = _Base(math.log(2.0), (1.0,))
_TEN = _Base(math.log(10.0), (0.301025390625, 4.605039066518657e-6))


def exp(f: Lanes, x: str) -> str:
    """The exponential of each lane."""
    return _power(f, x, _E)


def exp2(f: Lanes, x: str) -> str:
    """Two to the power of each lane."""
    return _power(f, x, _TWO)


def exp10(f: Lanes, x: str) -> str:
    """Ten to the power of each lane."""
    return _power(f, x, _TEN)


def exp_by_polynomial(f: Lanes, x: str) -> str:
    """The exponential of each lane, as a sigmoid needs it: by the table one would err by 3 units in
    the last place."""
    return _by_polynomial(f, x, _E)


def _power(f: Lanes, x: str, base: _Base) -> str:
    return _by_table(f, x, base) if f.has_tables else _by_polynomial(f, x, base)


def _by_polynomial(f: Lanes, x: str, base: _Base) -> str:
    """x ln = n ln2 + r with |r| <= ln2 / 2; a polynomial of degree 6 in r, times 2**n.

    The exponential errs by 0.89 units in the last place (1.15 without fused multiply-adds), by the
    table by 0.99. Where no instruction scales, it takes eighteen, eleven of them multiplications.
    """
    log2 = base.ln / math.log(2.0)
    limited = f.limit(x, *(most / log2 for most in _MOST))
    if f.scales_at_once:
        n = f.intrinsic("roundeven", f.mul(limited, f.const(log2)))
        return f.scale(f.polynomial(base.rest(f, limited, n), _POLYNOMIAL), n)
    shifted = f.fma(limited, f.const(log2), f.const(_WHOLE + SCALE_BIAS))
    n = f.sub(shifted, f.const(_WHOLE + SCALE_BIAS))
    return f.scale_by_bits(f.polynomial(base.rest(f, limited, n), _POLYNOMIAL), shifted)


def _by_table(f: Lanes, x: str, base: _Base) -> str:
    """x ln = n ln2 + r where n is a multiple of 1/16 and |r| <= ln2 / 32: eleven instructions.

    2**n is a power out of a table times one that the scaling applies, which takes the floor of n.
    Where x is so large that r is none of its own (infinities too), the limit makes it one, and n
    decides.
    """
    shifted = f.fma(x, f.const(base.ln / math.log(2.0)), f.const(_SIXTEENTHS))
    n = f.sub(shifted, f.const(_SIXTEENTHS))
    r = f.limit_size(base.rest(f, x, n), 1 / 32)
    power = f.look_up(_POWERS, shifted)
    more = f.fma(f.polynomial(r, _SHORT), f.mul(r, r), r)
    return f.scale(f.fma(power, more, power), n)
