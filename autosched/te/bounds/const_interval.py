"""Interval evaluation of index expressions over constant domains, in Python ints.

A fast path for `eval_set`, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from autosched.tir.expr import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Range,
    SizeVar,
    Sub,
    Var,
)

Interval = tuple[int, int]
"""The smallest and the largest value."""


class ConstIntervals:
    """Evaluates expressions over the variables of `domains` whose domain is constant."""

    __slots__ = ("_memo",)

    def __init__(self, domains: Iterable[tuple[IterVar, Range]]) -> None:
        self._memo: dict[Expr, Interval | None] = {}
        for iv, dom in domains:
            low, extent = dom.min, dom.extent
            if isinstance(low, IntImm) and isinstance(extent, IntImm):
                self._memo[iv.var] = (low.value, low.value + extent.value - 1)

    def __call__(self, e: Expr) -> Interval | None:
        """The interval of `e`; None when a variable has no constant domain or no rule fits."""
        memo = self._memo
        if e in memo:
            return memo[e]
        rule = _RULES.get(e.__class__)
        found = None if rule is None else rule(self, e)
        memo[e] = found
        return found


def _constant(of: ConstIntervals, e: Any) -> Interval | None:
    return e.value, e.value


def _variable(of: ConstIntervals, e: Any) -> Interval | None:
    return None


def _binary(combine: Callable[[Interval, Interval], Interval | None]) -> Any:
    def rule(of: ConstIntervals, e: Any) -> Interval | None:
        a = of(e.a)
        if a is None:
            return None
        b = of(e.b)
        return None if b is None else combine(a, b)

    return rule


def _mul(a: Interval, b: Interval) -> Interval | None:
    if b[0] != b[1]:
        if a[0] != a[1]:
            return None
        a, b = b, a
    factor = b[0]
    return (a[0] * factor, a[1] * factor) if factor >= 0 else (a[1] * factor, a[0] * factor)


def _floordiv(a: Interval, b: Interval) -> Interval | None:
    if b[0] != b[1] or b[0] <= 0:
        return None
    return a[0] // b[0], a[1] // b[0]


def _floormod(a: Interval, b: Interval) -> Interval | None:
    divisor = b[0]
    if divisor != b[1] or divisor <= 0:
        return None
    row = a[0] // divisor
    if a[1] // divisor == row:
        return a[0] - divisor * row, a[1] - divisor * row
    return 0, divisor - 1


_RULES: dict[type[Expr], Callable[[ConstIntervals, Any], Interval | None]] = {
    IntImm: _constant,
    Var: _variable,
    SizeVar: _variable,
    Add: _binary(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    Sub: _binary(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    Mul: _binary(_mul),
    FloorDiv: _binary(_floordiv),
    FloorMod: _binary(_floormod),
    Min: _binary(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    Max: _binary(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
}
