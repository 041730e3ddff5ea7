"""Trigonometric functions of float32 and float64 registers, and their inverses.

Errors are in units in the last place. Functions of float32 err by 0.51 where they are computed in
float64, as in codegen/llvm_wide_math.py; sines and cosines of up to 12,800 radians are computed in
float32 and err by 2.5. Functions of float64 err by up to 2.5, tan by 3.5. Beyond 2**25 radians the
C library computes them. The polynomials are minimax (Remez), highest power first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_wide_math import Tier

# sin(r) = r + r**3 P(r**2) on |r| <= pi / 2: relative error 2**-35, of the short one 2**-27
_SIN = (
    -2.3888909339630063e-8,
    2.7525384409815244e-6,
    -1.984086820923635e-4,
    8.33333110859982e-3,
    -1.6666666626150267e-1,
)
_SHORT_SIN = (
    2.605480936644882e-6,
    -1.9809474662205794e-4,
    8.333064608172505e-3,
    -1.6666659491736563e-1,
)

# cos(r) = 1 - r**2 / 2 + r**4 P(r**2) on |r| <= pi / 4, relative error 2**-33
_COS = (2.4438472543812462e-5, -1.3887367712559272e-3, 4.1666646870466485e-2)

# The same functions on |r| <= pi / 4, relative errors 2**-58 and 2**-64
_FULL_SIN = (
    1.589682770588441e-10,
    -2.5050758648799914e-8,
    2.7557313695192667e-6,
    -1.9841269829816834e-4,
    8.333333333322424e-3,
    -1.6666666666666632e-1,
)
_FULL_COS = (
    -1.1359669976530857e-11,
    2.0875723686504892e-9,
    -2.755731435525664e-7,
    2.4801587289491874e-5,
    -1.3888888888874138e-3,
    4.16666666666666e-2,
)


class _Turns(NamedTuple):
    """Reduction of arguments by multiples of pi in a type, and the polynomials of what is left.

    `parts` add up to pi; the products of all but the last part with such a multiple are exact.
    `most` is the largest number of radians that may be reduced. `sine` and `cosine` are the
    polynomials of these functions.
    """

    parts: tuple[float, ...]
    most: float
    sine: tuple[float, ...]
    cosine: tuple[float, ...] = ()

    def is_far(self, f: Lanes, x: str) -> str:
        """The lanes whose argument is too large to be reduced."""
        return f.test("ogt", f.intrinsic("fabs", x), f.const(self.most))

    def less(self, f: Lanes, x: str, n: str, unit: float = 1.0) -> str:
        """x - n pi unit; `unit` is a power of two, n a whole number or half of one."""
        for part in self.parts:
            x = f.fma(n, f.const(-part * unit), x)
        return x

    def sine_of(self, f: Lanes, r: str) -> str:
        """sin(r) for an r in the range of the polynomial."""
        square = f.mul(r, r)
        return f.fma(f.mul(r, square), f.polynomial(square, self.sine), r)

    def sin(self, f: Lanes, x: str) -> str:
        """The sine of x: (-1)**n sin(|x| - n pi), with the sign of x (of -0, too)."""
        size = f.intrinsic("fabs", x)
        shifted = f.fma(size, f.const(1 / math.pi), f.const(f.whole))
        n = f.sub(shifted, f.const(f.whole))
        return _signed(f, _flipped(f, self.sine_of(f, self.less(f, size, n)), shifted), x)

    def cos(self, f: Lanes, x: str) -> str:
        """The cosine of x: (-1)**n sin((n + 1/2) pi - |x|)."""
        x = f.intrinsic("fabs", x)
        shifted = f.add(f.fma(x, f.const(1 / math.pi), f.const(-0.5)), f.const(f.whole))
        n = f.add(f.sub(shifted, f.const(f.whole)), f.const(0.5))
        return _flipped(f, self.sine_of(f, f.neg(self.less(f, x, n))), shifted)

    def _quarter(self, d: Lanes, x: str) -> tuple[str, str, str, str]:
        """Reduce |x| by quarters of a turn.

        Returns the number of the nearest quarter plus `whole`, the lanes where this number is odd,
        and the sine and cosine of what is left.
        """
        size = d.intrinsic("fabs", x)
        shifted = d.fma(size, d.const(2 / math.pi), d.const(d.whole))
        r = self.less(d, size, d.sub(shifted, d.const(d.whole)), 0.5)
        square = d.mul(r, r)
        curve = d.fma(square, d.polynomial(square, self.cosine), d.const(-0.5))
        odd = d.int_test("ne", d.int_op("and", d.bits(shifted), d.int_const(1)), d.int_const(0))
        return shifted, odd, self.sine_of(d, r), d.fma(square, curve, d.const(1.0))

    def tan(self, d: Lanes, x: str) -> str:
        """The tangent of x: sin / cos of what is left, or -cos / sin where the quarter is odd."""
        shifted, odd, sine, cosine = self._quarter(d, x)
        ratio = d.div(d.choose(odd, cosine, sine), d.choose(odd, sine, cosine))
        return _signed(d, _flipped(d, ratio, shifted), x)

    def sin_by_quarters(self, d: Lanes, x: str) -> str:
        """The sine of x: by the quarter, sin, cos, -sin or -cos of what is left; the sign of x."""
        shifted, odd, sine, cosine = self._quarter(d, x)
        return _signed(d, _flipped(d, d.choose(odd, cosine, sine), shifted, 1), x)

    def cos_by_quarters(self, d: Lanes, x: str) -> str:
        """The cosine of x: by the quarter, cos, -sin, -cos or sin of what is left."""
        shifted, odd, sine, cosine = self._quarter(d, x)
        return _flipped(d, d.choose(odd, sine, cosine), d.add(shifted, d.const(1.0)), 1)


_WIDE_TURNS = _Turns(
    parts=(3.141592651605606, 1.9841871479187034e-9, 1.1442377452219664e-17),
    most=2.0**25,
    sine=_SIN,
    cosine=_COS,
)
_TURNS = _Turns(
    parts=(3.140625, 9.675025939941406e-4, 1.5099067240953445e-7, 5.126688136514179e-12),
    most=12800.0,
    sine=_SHORT_SIN,
)
_FULL_TURNS = _Turns(
    parts=(
        *(3.141592651605606, 1.9841871479187034e-9),
        *(1.144237741932715e-17, 3.2892513872648515e-26),
    ),
    most=2.0**25,
    sine=_FULL_SIN,
    cosine=_FULL_COS,
)


def _flipped(f: Lanes, x: str, n: str, bit: int = 0) -> str:
    """-x where bit `bit` of the whole number n is set, else x.

    `whole` was added to n, so that n stands in the last bits of its float.
    """
    sign = f.int_op("shl", f.bits(n), f.int_const(f.dtype.bits - 1 - bit))
    return _signed(f, x, f.from_bits(sign))


def _signed(f: Lanes, x: str, y: str) -> str:
    """x times the sign of y."""
    sign = f.int_op("and", f.bits(y), f.int_const(-(1 << (f.dtype.bits - 1))))
    return f.from_bits(f.int_op("xor", f.bits(x), sign))


# atan(t) = t + t**3 P(t**2) on [0, 1], relative error 2**-34
_ATAN = (
    -7.113061908739141e-4,
    4.999324506673298e-3,
    -1.6471475211270126e-2,
    3.470468248620965e-2,
    -5.4704507673656574e-2,
    7.269385391489866e-2,
    -8.988792476588454e-2,
    1.1095202541961112e-1,
    -1.4284250877312177e-1,
    1.9999932198186035e-1,
    -3.333333223533545e-1,
)


# The same on [0, sqrt(2) - 1], relative error 2**-59
_FULL_ATAN = (
    -1.7922251437764814e-2,
    3.80782943282411e-2,
    -5.0398444113896164e-2,
    5.848008659228653e-2,
    -6.663120346544758e-2,
    7.692061633620932e-2,
    -9.090897836238396e-2,
    1.1111110786129932e-1,
    -1.428571428024834e-1,
    1.999999999995408e-1,
    -3.33333333333332e-1,
)

# asin(s) = s + s**3 P(s**2) on [0, 1/2], relative errors 2**-31 and 2**-60
_ASIN = (
    3.756533599849952e-2,
    1.4402508495189542e-2,
    3.181763710551995e-2,
    4.451571744229325e-2,
    7.500510928160088e-2,
    1.6666659871948655e-1,
)
_FULL_ASIN = (
    3.267703865651698e-2,
    -2.1077544803903295e-2,
    2.1763689935599316e-2,
    3.6829574703593584e-3,
    1.0786553376841e-2,
    1.1397771228636595e-2,
    1.3980962094164976e-2,
    1.7351600032294884e-2,
    2.2372215663982852e-2,
    3.0381942683473728e-2,
    4.464285717512398e-2,
    7.499999999970258e-2,
    1.6666666666666763e-1,
)

_EIGHTH = math.sqrt(2.0) - 1.0
"""The tangent of an eighth of pi."""


class _Arcs(NamedTuple):
    """Inverse functions: the polynomials of the arctangent and of the arcsine.

    `tangent` is for angles up to an eighth of pi with `eighths`, and up to a quarter of pi without.
    """

    tangent: tuple[float, ...]
    sine: tuple[float, ...]
    eighths: bool = False

    def _arc(self, d: Lanes, high: str, wide: str) -> str:
        """The angle, in [0, pi / 2], whose tangent is high / wide, neither of them negative."""
        steep = d.test("ogt", high, wide)
        top, base = d.choose(steep, wide, high), d.choose(steep, high, wide)
        angle = self._by_eighths(d, top, base) if self.eighths else self._near(d, d.div(top, base))
        # The angle of two zeros is 0, that of two infinities lies between the axes.
        same = d.choose(d.test("oeq", high, d.const(0.0)), high, d.const(math.pi / 4))
        angle = d.choose(d.test("oeq", high, wide), same, angle)
        return d.choose(steep, d.sub(d.const(math.pi / 2), angle), angle)

    def _near(self, d: Lanes, t: str) -> str:
        """The angle whose tangent is t, for a t in the range of the polynomial."""
        square = d.mul(t, t)
        return d.fma(d.mul(t, square), d.polynomial(square, self.tangent), t)

    def _by_eighths(self, d: Lanes, top: str, base: str) -> str:
        """The angle of top / base <= 1, by tan(a - pi / 4) = (tan a - 1) / (tan a + 1)."""
        beyond = d.test("ogt", top, d.mul(base, d.const(_EIGHTH)))
        less, more = d.sub(top, base), d.add(top, base)
        angle = self._near(d, d.div(d.choose(beyond, less, top), d.choose(beyond, more, base)))
        return d.choose(beyond, d.add(angle, d.const(math.pi / 4)), angle)

    def atan(self, d: Lanes, x: str) -> str:
        """The angle in [-pi / 2, pi / 2] whose tangent is x."""
        angle = self._arc(d, d.intrinsic("fabs", x), d.const(1.0))
        return d.intrinsic("copysign", angle, x)

    def atan2(self, d: Lanes, y: str, x: str) -> str:
        """The angle of the point (x, y)."""
        angle = self._arc(d, d.intrinsic("fabs", y), d.intrinsic("fabs", x))
        left = d.test("olt", d.intrinsic("copysign", d.const(1.0), x), d.const(0.0))
        angle = d.choose(left, d.sub(d.const(math.pi), angle), angle)
        return d.intrinsic("copysign", angle, y)

    def _half(self, d: Lanes, x: str) -> tuple[str, str]:
        """The lanes with |x| > 1/2, and asin |x|; in these lanes asin sqrt((1 - |x|) / 2)."""
        size = d.intrinsic("fabs", x)
        large = d.test("ogt", size, d.const(0.5))
        rest = d.fma(size, d.const(-0.5), d.const(0.5))
        s = d.choose(large, d.intrinsic("sqrt", rest), size)
        square = d.mul(s, s)
        return large, d.fma(d.mul(s, square), d.polynomial(square, self.sine), s)

    def asin(self, d: Lanes, x: str) -> str:
        """The angle in [-pi / 2, pi / 2] whose sine is x."""
        large, arc = self._half(d, x)
        arc = d.choose(large, d.fma(arc, d.const(-2.0), d.const(math.pi / 2)), arc)
        return d.intrinsic("copysign", arc, x)

    def acos(self, d: Lanes, x: str) -> str:
        """The angle in [0, pi] whose cosine is x."""
        large, arc = self._half(d, x)
        below = d.test("olt", x, d.const(0.0))
        double = d.add(arc, arc)
        steep = d.choose(below, d.sub(d.const(math.pi), double), double)
        flat = d.sub(d.const(math.pi / 2), d.intrinsic("copysign", arc, x))
        return d.choose(large, steep, flat)


_WIDE_ARCS = _Arcs(_ATAN, _ASIN)
_FULL_ARCS = _Arcs(_FULL_ATAN, _FULL_ASIN, eighths=True)


ANGLES: dict[str, tuple[Tier, ...]] = {
    "sin": (Tier(_TURNS.sin, _TURNS.is_far, 32), Tier(_WIDE_TURNS.sin, _WIDE_TURNS.is_far)),
    "cos": (Tier(_TURNS.cos, _TURNS.is_far, 32), Tier(_WIDE_TURNS.cos, _WIDE_TURNS.is_far)),
    "tan": (Tier(_WIDE_TURNS.tan, _WIDE_TURNS.is_far),),
    "atan": (Tier(_WIDE_ARCS.atan),),
    "atan2": (Tier(_WIDE_ARCS.atan2),),
    "asin": (Tier(_WIDE_ARCS.asin),),
    "acos": (Tier(_WIDE_ARCS.acos),),
}
"""Functions of float32 by their names in TIR, each with the ways to compute it."""


def _is_tall(d: Lanes, y: str, x: str) -> str:
    """The lanes in which |x| + |y| may be infinite though neither of them is."""
    sizes = d.intrinsic("fabs", y), d.intrinsic("fabs", x)
    most = d.const(2.0**1022)
    return d.either(d.test("ogt", sizes[0], most), d.test("ogt", sizes[1], most))


FULL_ANGLES: dict[str, tuple[Tier, ...]] = {
    "sin": (Tier(_FULL_TURNS.sin_by_quarters, _FULL_TURNS.is_far),),
    "cos": (Tier(_FULL_TURNS.cos_by_quarters, _FULL_TURNS.is_far),),
    "tan": (Tier(_FULL_TURNS.tan, _FULL_TURNS.is_far),),
    "atan": (Tier(_FULL_ARCS.atan),),
    "atan2": (Tier(_FULL_ARCS.atan2, _is_tall),),
    "asin": (Tier(_FULL_ARCS.asin),),
    "acos": (Tier(_FULL_ARCS.acos),),
}
"""Functions of float64 in the same form."""
