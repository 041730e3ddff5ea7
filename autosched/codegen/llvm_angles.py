"""Trigonometric functions of float32 registers, and their inverses.

In float64 results err by 0.51 units in the last place, as in codegen/llvm_wide_math.py; sines and
cosines of up to 12,800 radians are computed in float32 and err by 2.5. The library has what is
beyond 2**25 radians. The polynomials are minimax (Remez), highest power first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from autosched.codegen.llvm_lanes import Lanes
from autosched.codegen.llvm_wide_math import WHOLE, Tier

# sin(r) = r + r**3 P(r**2) on |r| <= pi / 2: relative error 2**-35, and 2**-27
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


class _Turns(NamedTuple):
    """How arguments lose multiples of pi in a type: WHOLE's counterpart there, pi in parts, all
    but the last of whose products with such a multiple are exact, how many radians may be counted,
    and the polynomial of the sine."""

    whole: float
    parts: tuple[float, ...]
    most: float
    sine: tuple[float, ...]

    def is_far(self, f: Lanes, x: str) -> str:
        """The lanes whose argument is too large."""
        return f.test("ogt", f.intrinsic("fabs", x), f.const(self.most))

    def less(self, f: Lanes, x: str, n: str, unit: float = 1.0) -> str:
        """x - n pi unit, for a power of two `unit` and a whole number or half of one."""
        for part in self.parts:
            x = f.fma(n, f.const(-part * unit), x)
        return x

    def sine_of(self, f: Lanes, r: str) -> str:
        """sin(r) of |r| <= pi / 2."""
        square = f.mul(r, r)
        return f.fma(f.mul(r, square), f.polynomial(square, self.sine), r)

    def sin(self, f: Lanes, x: str) -> str:
        """(-1)**n sin(|x| - n pi), with the sign of x (of -0, too)."""
        size = f.intrinsic("fabs", x)
        shifted = f.fma(size, f.const(1 / math.pi), f.const(self.whole))
        n = f.sub(shifted, f.const(self.whole))
        return _signed(f, _flipped(f, self.sine_of(f, self.less(f, size, n)), shifted), x)

    def cos(self, f: Lanes, x: str) -> str:
        """(-1)**n sin((n + 1/2) pi - x)."""
        x = f.intrinsic("fabs", x)
        shifted = f.add(f.fma(x, f.const(1 / math.pi), f.const(-0.5)), f.const(self.whole))
        n = f.add(f.sub(shifted, f.const(self.whole)), f.const(0.5))
        return _flipped(f, self.sine_of(f, f.neg(self.less(f, x, n))), shifted)


_WIDE_TURNS = _Turns(
    whole=WHOLE,
    parts=(3.141592651605606, 1.9841871479187034e-9, 1.1442377452219664e-17),
    most=2.0**25,
    sine=_SIN,
)
_TURNS = _Turns(
    whole=1.5 * 2.0**23,
    parts=(3.140625, 9.675025939941406e-4, 1.5099067240953445e-7, 5.126688136514179e-12),
    most=12800.0,
    sine=_SHORT_SIN,
)


def _flipped(f: Lanes, x: str, n: str) -> str:
    """-x where n, a number that stands in the last bits, is odd, else x."""
    sign = f.int_op("shl", f.bits(n), f.int_const(f.dtype.bits - 1))
    return f.from_bits(f.int_op("xor", f.bits(x), sign))


def _signed(f: Lanes, x: str, y: str) -> str:
    """x times the sign of y."""
    sign = f.int_op("and", f.bits(y), f.int_const(-(1 << (f.dtype.bits - 1))))
    return f.from_bits(f.int_op("xor", f.bits(x), sign))


def _tan(d: Lanes, x: str) -> str:
    """sin / cos of what is left of the nearest quarter, or -cos / sin."""
    turns, size = _WIDE_TURNS, d.intrinsic("fabs", x)
    shifted = d.fma(size, d.const(2 / math.pi), d.const(WHOLE))
    r = turns.less(d, size, d.sub(shifted, d.const(WHOLE)), 0.5)
    square = d.mul(r, r)
    curve = d.fma(square, d.polynomial(square, _COS), d.const(-0.5))
    sine, cosine = turns.sine_of(d, r), d.fma(square, curve, d.const(1.0))
    odd = d.int_test("ne", d.int_op("and", d.bits(shifted), d.int_const(1)), d.int_const(0))
    ratio = d.div(d.choose(odd, cosine, sine), d.choose(odd, sine, cosine))
    return _signed(d, _flipped(d, ratio, shifted), x)


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


def _arc(d: Lanes, high: str, wide: str) -> str:
    """The angle, in [0, pi / 2], whose tangent is high / wide, neither of them negative."""
    steep = d.test("ogt", high, wide)
    t = d.div(d.choose(steep, wide, high), d.choose(steep, high, wide))
    # Of two zeros the angle is 0, of two infinities that between the axes.
    same = d.choose(d.test("oeq", high, d.const(0.0)), high, d.const(1.0))
    t = d.choose(d.test("oeq", high, wide), same, t)
    square = d.mul(t, t)
    angle = d.mul(t, d.fma(square, d.polynomial(square, _ATAN), d.const(1.0)))
    return d.choose(steep, d.sub(d.const(math.pi / 2), angle), angle)


def _atan(d: Lanes, x: str) -> str:
    return d.intrinsic("copysign", _arc(d, d.intrinsic("fabs", x), d.const(1.0)), x)


def _atan2(d: Lanes, y: str, x: str) -> str:
    angle = _arc(d, d.intrinsic("fabs", y), d.intrinsic("fabs", x))
    left = d.test("olt", d.intrinsic("copysign", d.const(1.0), x), d.const(0.0))
    angle = d.choose(left, d.sub(d.const(math.pi), angle), angle)
    return d.intrinsic("copysign", angle, y)


# asin(s) = s + s**3 P(s**2) on [0, 1/2], relative error 2**-31
_ASIN = (
    3.756533599849952e-2,
    1.4402508495189542e-2,
    3.181763710551995e-2,
    4.451571744229325e-2,
    7.500510928160088e-2,
    1.6666659871948655e-1,
)


def _half_arc(d: Lanes, x: str) -> tuple[str, str]:
    """The lanes with |x| > 1/2, and asin |x|, there asin sqrt((1 - |x|) / 2)."""
    size = d.intrinsic("fabs", x)
    large = d.test("ogt", size, d.const(0.5))
    rest = d.fma(size, d.const(-0.5), d.const(0.5))
    s = d.choose(large, d.intrinsic("sqrt", rest), size)
    square = d.mul(s, s)
    return large, d.mul(s, d.fma(square, d.polynomial(square, _ASIN), d.const(1.0)))


def _asin(d: Lanes, x: str) -> str:
    large, arc = _half_arc(d, x)
    arc = d.choose(large, d.fma(arc, d.const(-2.0), d.const(math.pi / 2)), arc)
    return d.intrinsic("copysign", arc, x)


def _acos(d: Lanes, x: str) -> str:
    large, arc = _half_arc(d, x)
    below = d.test("olt", x, d.const(0.0))
    double = d.add(arc, arc)
    steep = d.choose(below, d.sub(d.const(math.pi), double), double)
    flat = d.sub(d.const(math.pi / 2), d.intrinsic("copysign", arc, x))
    return d.choose(large, steep, flat)


ANGLES: dict[str, tuple[Tier, ...]] = {
    "sin": (Tier(_TURNS.sin, _TURNS.is_far, 32), Tier(_WIDE_TURNS.sin, _WIDE_TURNS.is_far)),
    "cos": (Tier(_TURNS.cos, _TURNS.is_far, 32), Tier(_WIDE_TURNS.cos, _WIDE_TURNS.is_far)),
    "tan": (Tier(_tan, _WIDE_TURNS.is_far),),
    "atan": (Tier(_atan),),
    "atan2": (Tier(_atan2),),
    "asin": (Tier(_asin),),
    "acos": (Tier(_acos),),
}
"""Functions by their names in TIR, each with the ways to compute it."""
