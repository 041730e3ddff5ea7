"""Indices as sums of independent digits, and proofs that such a sum determines some of them.

A variable that is divided and reduced modulo numbers that divide each other, `b // 8` and `b % 8`,
has digits: `b = 8 * high + low` with 0 <= low < 8. An index that is linear in such quotients is a
sum of digits, each with a factor. With digits sorted by factor, the sum determines a digit if its
factor exceeds the largest possible sum of all smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from autosched.tir.expr import Call, Div, Expr, FloorDiv, FloorMod, IntImm, Mod, Var
from autosched.tir.linear import linear
from autosched.tir.op import const, floordiv
from autosched.tir.walk import free_vars


@dataclass(frozen=True, slots=True)
class Digit:
    """The digit `(base // below) % count` of an expression `base`."""

    base: Expr
    below: int
    count: int


@dataclass(frozen=True, slots=True)
class Sum:
    """The value constant + sum of factor * digit."""

    constant: int
    terms: dict[Digit, int]


def quotient(e: Expr) -> tuple[Expr, int, int]:
    """(base, d, m) such that `e` is `base // d % m`; m is 0 without a remainder.

    A truncating division is equal only for non-negative values.
    """
    match e:
        case FloorDiv(a, IntImm(n)) | Div(a, IntImm(n)) if n > 0:
            base, divisor, rest = quotient(a)
            if rest and rest % n:
                return e, 1, 0
            return base, divisor * n, rest // n
        case FloorMod(a, IntImm(n)) | Mod(a, IntImm(n)) if n > 0:
            base, divisor, rest = quotient(a)
            if rest and rest % n:
                return e, 1, 0
            return base, divisor, n
        case Call("shift_right", (a, IntImm(k))):
            return quotient(floordiv(a, const(1 << k, e.dtype)))
        case Call("bitwise_and", (a, IntImm(n))) if n >= 0 and n & (n + 1) == 0:
            base, divisor, rest = quotient(a)
            return (e, 1, 0) if rest and rest % (n + 1) else (base, divisor, n + 1)
    return e, 1, 0


def digits(index: Expr, extents: Mapping[Var, int]) -> Sum | None:
    """`index` as a sum of digits of variables, and of sums of variables that are divided.

    A variable has the values 0 .. extent - 1. None if the index is not such a sum.
    """
    constant, terms = linear(index)
    parts: dict[Expr, list[tuple[int, int, int]]] = {}  # base -> (factor, d, m)
    for term, factor in terms.items():
        base, divisor, rest = quotient(term)
        parts.setdefault(base, []).append((factor, divisor, rest))
    found: dict[Digit, int] = {}
    for base, uses in parts.items():
        count = count_of(base, extents)
        if count is None:
            return None
        if count == 1:  # the base is 0
            continue
        edges = _edges(uses, count)
        if edges is None:
            return None
        for factor, divisor, rest in uses:
            top = divisor * rest if rest else edges[-1]
            for low, high in pairwise(edges):
                if divisor <= low < top:
                    digit = Digit(base, low, high // low)
                    found[digit] = found.get(digit, 0) + factor * (low // divisor)
    return Sum(constant, {d: f for d, f in found.items() if d.count > 1 and f})


def covers(s: Sum, base: Expr, count: int) -> bool:
    """Whether the sum contains all digits of `base`, which has `count` values."""
    edge = 1
    for below, length in sorted((d.below, d.count) for d in s.terms if d.base is base):
        if below != edge:
            return False
        edge = below * length
    return edge >= count


def count_of(base: Expr, extents: Mapping[Var, int]) -> int | None:
    """The number of values 0, 1, ... that `base` may have; None if unknown."""
    if isinstance(base, Var):
        return extents.get(base)
    if not free_vars(base) <= extents.keys() or base in linear(base)[1]:
        return None
    inner = digits(base, extents)
    if inner is None:
        return None
    if inner.constant < 0 or any(factor < 0 for factor in inner.terms.values()):
        return None
    return inner.constant + sum(f * (d.count - 1) for d, f in inner.terms.items()) + 1


def _edges(uses: Iterable[tuple[int, int, int]], count: int) -> list[int] | None:
    """The borders between digits, each a multiple of the one before; None if there are none."""
    cuts = {1}
    for _, divisor, rest in uses:
        cuts |= {divisor, divisor * rest} if rest else {divisor}
    edges = sorted(cut for cut in cuts if cut < count)
    top = edges[-1] * -(-count // edges[-1])
    above = sorted(cut for cut in cuts if cut >= count)
    for cut in above:  # a remainder by more than the number of values
        top = cut if cut % edges[-1] == 0 and cut >= top else top
    edges.append(top)
    if len(edges) > 1 and edges[-1] == edges[-2]:
        edges.pop()
    if any(high % low for low, high in pairwise(edges)):
        return None
    return edges if len(edges) > 1 else [1, 1]


def tells_apart(sums: Sequence[Sum], wanted: set[Expr]) -> bool:
    """Whether elements of `sums` differ whenever a base in `wanted` differs.

    All sums must have the same factors for the digits of the `wanted` bases; their other digits are
    bounded together.
    """
    first, *others = sums
    own = {d: f for d, f in first.terms.items() if d.base in wanted}
    for other in others:
        if {d: f for d, f in other.terms.items() if d.base in wanted} != own:
            return False
    rest: dict[int, int] = {}  # factor -> greatest multiple of it that other digits reach
    for s in sums:
        mine: dict[int, int] = {}
        for d, f in s.terms.items():
            if d.base not in wanted:
                mine[abs(f)] = mine.get(abs(f), 0) + d.count - 1
        for f, reach in mine.items():
            rest[f] = max(rest.get(f, 0), reach)
    # Negative factors lower a sum by at most their greatest product.
    lows = [
        s.constant
        + sum(f * (d.count - 1) for d, f in s.terms.items() if f < 0 and d.base not in wanted)
        for s in sums
    ]
    step = 0
    for low in lows:
        step = gcd(step, low - min(lows))
    if step:
        rest[step] = rest.get(step, 0) + (max(lows) - min(lows)) // step
    reach, above = 0, False  # greatest sum of smaller terms; whether a wanted digit is among them
    terms = sorted(
        [(abs(f), d.count - 1, True) for d, f in own.items()]
        + [(f, n, False) for f, n in rest.items()]
    )
    for factor, most, must in terms:
        if (must or above) and factor <= reach:
            return False
        reach += factor * most
        above |= must
    return True
