"""exp of float32 registers: a polynomial, or a table of sixteen powers and a shorter one.

Results overflow to infinity and underflow through the subnormals to zero by themselves. NaN goes
through all steps.
"""

from __future__ import annotations

import math

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

_LN2 = 0.693147182464599609375
"""ln2 rounded to float32; the rest of it is taken off apart (Cody and Waite)."""
_LN2_REST = math.log(2.0) - _LN2


def exp(f: Lanes, x: str) -> str:
    """The exponential of each lane."""
    return _exp_by_table(f, x) if f.has_tables else exp_by_polynomial(f, x)


def exp_by_polynomial(f: Lanes, x: str) -> str:
    """x = n ln2 + r with |r| <= ln2 / 2; a polynomial of degree 6 in r, times 2**n.

    It errs by 0.89 units in the last place (1.15 without fused multiply-adds), the table by 0.99: a
    sigmoid by the table would err by 3. Where no instruction scales, it takes eighteen, eleven of
    them multiplications.
    """
    limited = f.limit(x, -104.0, 89.0)
    log2_e = f.const(math.log2(math.e))
    if f.scales_at_once:
        n = f.intrinsic("roundeven", f.mul(limited, log2_e))
        return f.scale(f.polynomial(_rest(f, limited, n), _POLYNOMIAL), n)
    shifted = f.fma(limited, log2_e, f.const(_WHOLE + SCALE_BIAS))
    n = f.sub(shifted, f.const(_WHOLE + SCALE_BIAS))
    return f.scale_by_bits(f.polynomial(_rest(f, limited, n), _POLYNOMIAL), shifted)


def _rest(f: Lanes, x: str, n: str) -> str:
    """x - n ln2, where the product with the first part of ln2 is exact."""
    r = f.fma(n, f.const(-0.693359375), x)
    return f.fma(n, f.const(2.12194440e-4), r)


def _exp_by_table(f: Lanes, x: str) -> str:
    """x = n ln2 + r where n is a multiple of 1/16 and |r| <= ln2 / 32: eleven instructions.

    2**n is a power out of a table times one that the scaling applies, which takes the floor of n.
    Where x is so large that r is none of its own (infinities too), the limit makes it one, and n
    decides.
    """
    shifted = f.fma(x, f.const(math.log2(math.e)), f.const(_SIXTEENTHS))
    n = f.sub(shifted, f.const(_SIXTEENTHS))
    r = f.fma(n, f.const(-_LN2), x)
    r = f.limit_size(f.fma(n, f.const(-_LN2_REST), r), 1 / 32)
    power = f.look_up(_POWERS, shifted)
    more = f.fma(f.polynomial(r, _SHORT), f.mul(r, r), r)
    return f.scale(f.fma(power, more, power), n)
