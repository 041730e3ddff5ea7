"""Intervals of integers with symbolic ends, and their unions and intersections."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.arith.analyzer import Analyzer
from autosched.tir.dtype import handle
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import add, max_, min_, sub
from autosched.tir.walk import ExprFn

NEG_INF_EXPR: Expr = Var("neg_inf", handle)
"""The `min_value` of a set without lower bound."""
POS_INF_EXPR: Expr = Var("pos_inf", handle)
"""The `max_value` of a set without upper bound."""


class IntSet:
    """The integers from `min_value` to `max_value`, both included; immutable."""

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: Expr, max_value: Expr) -> None:
        self.min_value = min_value
        self.max_value = max_value

    @classmethod
    def everything(cls) -> IntSet:
        """The set of all integers."""
        return _EVERYTHING

    @classmethod
    def nothing(cls) -> IntSet:
        """The empty set."""
        return _NOTHING

    @classmethod
    def single_point(cls, e: Expr) -> IntSet:
        """The set that contains only the value of `e`."""
        return cls(e, e)

    @classmethod
    def interval(cls, low: Expr, high: Expr) -> IntSet:
        """The set [low, high], both included."""
        return cls(low, high)

    @classmethod
    def from_range(cls, r: Range) -> IntSet:
        """The values of a range; a single point when its extent is the constant 1."""
        return cls.from_min_extent(r.min, r.extent)

    @classmethod
    def from_min_extent(cls, low: Expr, extent: Expr) -> IntSet:
        """The set [low, low + extent - 1], both included."""
        if isinstance(extent, IntImm):
            if extent.value == 1:
                return cls(low, low)
            if isinstance(low, IntImm):
                return cls(low, IntImm(low.value + extent.value - 1, low.dtype))
        return cls(low, sub(add(extent, low), 1))

    @property
    def is_everything(self) -> bool:
        """True for the set of all integers, without bounds."""
        return self.min_value is NEG_INF_EXPR and self.max_value is POS_INF_EXPR

    @property
    def is_nothing(self) -> bool:
        """True for the empty set."""
        return self.min_value is POS_INF_EXPR or self.max_value is NEG_INF_EXPR

    @property
    def is_single_point(self) -> bool:
        """True when both ends are the same expression."""
        return self.min_value is self.max_value

    @property
    def has_lower_bound(self) -> bool:
        """True when `min_value` is an ordinary expression."""
        return self.min_value is not NEG_INF_EXPR and self.min_value is not POS_INF_EXPR

    @property
    def has_upper_bound(self) -> bool:
        """True when `max_value` is an ordinary expression."""
        return self.max_value is not POS_INF_EXPR and self.max_value is not NEG_INF_EXPR

    def cover_range(self, default: Range, simplify: ExprFn | None = None) -> Range:
        """[min, max] as a simplified Range; `default` when a bound is missing."""
        if not (self.has_lower_bound and self.has_upper_bound):
            return default
        low, high = self.min_value, self.max_value
        if isinstance(low, IntImm) and isinstance(high, IntImm):
            return Range(low, IntImm(high.value - low.value + 1, low.dtype))
        simplify = simplify or Analyzer().simplify
        return Range(simplify(low), simplify(sub(add(high, 1), low)))

    def __repr__(self) -> str:
        low = "-inf" if self.min_value is NEG_INF_EXPR else repr(self.min_value)
        high = "+inf" if self.max_value is POS_INF_EXPR else repr(self.max_value)
        return f"IntSet[{low}, {high}]"


_EVERYTHING = IntSet(NEG_INF_EXPR, POS_INF_EXPR)
_NOTHING = IntSet(POS_INF_EXPR, NEG_INF_EXPR)


def union_set(sets: Iterable[IntSet], analyzer: Analyzer | None = None) -> IntSet:
    """The smallest interval that contains all `sets`, simplified; the empty set for no sets."""
    low: Expr = POS_INF_EXPR
    high: Expr = NEG_INF_EXPR
    merged = False
    for s in sets:
        if s.is_nothing:
            continue
        if low is POS_INF_EXPR:
            low, high = s.min_value, s.max_value
            continue
        if s.min_value is low and s.max_value is high:
            continue
        merged = True
        unbounded = low is NEG_INF_EXPR or not s.has_lower_bound
        low = NEG_INF_EXPR if unbounded else min_(low, s.min_value)
        unbounded = high is POS_INF_EXPR or not s.has_upper_bound
        high = POS_INF_EXPR if unbounded else max_(high, s.max_value)
    if not merged:
        return IntSet(low, high)
    analyzer = analyzer or Analyzer()
    return IntSet(_simple(low, analyzer), _simple(high, analyzer))


def intersect_set(sets: Iterable[IntSet], analyzer: Analyzer | None = None) -> IntSet:
    """The common values of `sets`, simplified; all integers for no sets."""
    analyzer = analyzer or Analyzer()
    low: Expr = NEG_INF_EXPR
    high: Expr = POS_INF_EXPR
    for s in sets:
        if s.is_nothing:
            return _NOTHING
        if s.has_lower_bound:
            low = s.min_value if low is NEG_INF_EXPR else max_(low, s.min_value)
        if s.has_upper_bound:
            high = s.max_value if high is POS_INF_EXPR else min_(high, s.max_value)
    if low is NEG_INF_EXPR or high is POS_INF_EXPR:
        return IntSet(_simple(low, analyzer), _simple(high, analyzer))
    low, high = _simple(low, analyzer), _simple(high, analyzer)
    return _NOTHING if analyzer.can_prove(high < low) else IntSet(low, high)


def _simple(e: Expr, analyzer: Analyzer) -> Expr:
    return e if e is NEG_INF_EXPR or e is POS_INF_EXPR else analyzer.simplify(e)
