"""Symbolic interval evaluation: the values of an expression while its variables range over sets.

An interval is a pair of expressions; it is a point when both ends are the same object. Inside this
module None means no bound; the results use the sentinels of `intset.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autosched.arith.analyzer import Analyzer
from autosched.arith.const_int_bound import holds
from autosched.arith.intset import NEG_INF_EXPR, POS_INF_EXPR, IntSet
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Select,
    SizeVar,
    Sub,
    Var,
)
from autosched.tir.op import (
    add,
    cast,
    const,
    eq,
    floordiv,
    max_,
    min_,
    mul,
    select,
    sub,
    truncdiv,
)
from autosched.tir.walk import distinct, free_vars

End = Expr | None
Interval = tuple[End, End]
_EVERYTHING: Interval = (None, None)
_SYMBOLS = (IntImm, Var, SizeVar)


def eval_set(e: Expr, dom: Mapping[Var, IntSet], analyzer: Analyzer | None = None) -> IntSet:
    """The set of values that `e` takes when the variables of `dom` range over their sets.

    Variables outside `dom` stay symbolic; ends may mention them. The sets of `dom` may mention
    each other's variables. Elements of tensors (not of buffers) may have any value. `analyzer` is
    used to prove signs.
    """
    if isinstance(e, IntImm):
        return IntSet(e, e)
    result: Any = IntervalEvaluator(dom, analyzer)(e)
    return IntSet(*result)


class IntervalEvaluator:
    """Evaluates expressions over the sets of `dom`."""

    __slots__ = ("_analyzer", "_depth", "_dom", "_memo")

    def __init__(self, dom: Mapping[Var, IntSet], analyzer: Analyzer | None) -> None:
        self._dom = dom
        self._analyzer = analyzer
        self._depth = 0
        self._memo: dict[Expr, Interval] = {}

    def __call__(self, e: Expr) -> tuple[Expr, Expr]:
        """The interval of `e`, with a sentinel of `intset.py` where there is no bound."""
        low, high = self.visit(e)
        return NEG_INF_EXPR if low is None else low, POS_INF_EXPR if high is None else high

    @property
    def analyzer(self) -> Analyzer:
        """The Analyzer that proves signs, made when first needed."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
        return self._analyzer

    def visit(self, e: Expr) -> Interval:
        """The interval of `e`, with None where there is no bound."""
        cls = e.__class__
        if cls in _SYMBOLS and e not in self._dom:
            return e, e
        if free_vars(e).isdisjoint(self._dom) and not _reads_tensors(e):
            # Calls of the same expression may return different values.
            return _EVERYTHING if cls is Call and not e.dtype.is_bool else (e, e)
        found = self._memo.get(e)
        if found is None:
            rule = _RULES.get(cls)
            found = _EVERYTHING if rule is None else rule(self, e)
            self._memo[e] = found
        return found

    def relax(self, low: Expr, high: Expr) -> Interval:
        """The interval of a variable's set [low, high], whose ends may mention other variables."""
        if self._depth >= len(self._dom):
            return low, high
        if _is_end(low) and _is_end(high):
            return _outer(low), _outer(high)
        saved, self._memo = self._memo, {}
        self._depth += 1
        if low is high:
            result = self.visit(low)
        else:
            result = (
                None if low is NEG_INF_EXPR else self.visit(low)[0],
                None if high is POS_INF_EXPR else self.visit(high)[1],
            )
        self._depth -= 1
        self._memo = saved
        return result

    def sign(self, e: Expr) -> int:
        """1 if `e` is provably >= 0, -1 if it is provably <= 0, 0 if neither is known."""
        if isinstance(e, IntImm):
            return 1 if e.value >= 0 else -1
        if self.analyzer.can_prove_greater_equal(e, 0):
            return 1
        return -1 if self.analyzer.can_prove_less(e, 1) else 0


def _reads_tensors(e: Expr) -> bool:
    """Whether `e` reads a tensor, which may not have been computed yet where the ends are used."""
    return any(part.__class__ is ProducerLoad for part in distinct(e))


def _is_end(e: Expr) -> bool:
    return e.__class__ is IntImm or e is NEG_INF_EXPR or e is POS_INF_EXPR


def _outer(e: Expr) -> End:
    return None if e is NEG_INF_EXPR or e is POS_INF_EXPR else e


def _both(fn: Callable[[Any, Any], Expr], a: End, b: End) -> End:
    return None if a is None or b is None else fn(a, b)


def _point(v: Interval) -> Expr | None:
    return v[0] if v[0] is v[1] else None


def _var(self: IntervalEvaluator, e: Any) -> Interval:
    values = self._dom.get(e)
    if values is None:
        return e, e
    if values.min_value is e and values.max_value is e:
        return e, e
    return self.relax(values.min_value, values.max_value)


def _binary(combine: Callable[[IntervalEvaluator, Any, Interval, Interval], Interval]) -> Any:
    """The rule of a binary node: a point if both operands are points, else `combine` of them."""

    def rule(self: IntervalEvaluator, e: Any) -> Interval:
        a, b = self.visit(e.a), self.visit(e.b)
        x, y = _point(a), _point(b)
        if x is not None and y is not None:
            if x is e.a and y is e.b:
                return e, e
            point = e.with_children((x, y))
            return point, point
        return combine(self, e, a, b)

    return rule


def _add(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    if not e.dtype.is_index:
        return _EVERYTHING  # the sum may wrap
    return _both(add, a[0], b[0]), _both(add, a[1], b[1])


def _sub(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    if not e.dtype.is_index:
        return _EVERYTHING
    return _both(sub, a[0], b[1]), _both(sub, a[1], b[0])


def _mul(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    if _point(a) is not None:
        a, b = b, a
    factor = _point(b)
    if factor is None or not e.dtype.is_index:
        return _EVERYTHING
    if is_zero(factor):
        return factor, factor
    return _monotone(self, mul, a, factor)


def _monotone(
    self: IntervalEvaluator, fn: Callable[[Any, Any], Expr], a: Interval, by: Expr
) -> Interval:
    """The interval of fn(a, by), for an `fn` that rises with a if by > 0 and falls if by < 0."""
    low, high = _both(fn, a[0], by), _both(fn, a[1], by)
    sign = self.sign(by)
    if sign > 0:
        return low, high
    if sign < 0:
        return high, low
    if low is None or high is None:
        return _EVERYTHING
    positive = by >= const(0, by.dtype)
    return select(positive, low, high), select(positive, high, low)


def _floordiv(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    by = _point(b)
    if by is None or is_zero(by):
        return _EVERYTHING
    return _monotone(self, floordiv, a, by)


def _truncdiv(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    by = _point(b)
    if by is None or is_zero(by):
        return _EVERYTHING
    return _monotone(self, truncdiv, a, by)


def _floormod(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    by = _point(b)
    if by is None:
        return _EVERYTHING
    if self.sign(by) <= 0:
        size = max_(by, sub(const(0, by.dtype), by))
        return _rests(self, by, size)
    if isinstance(by, IntImm):
        if by.value == 0:
            return _EVERYTHING
        low, high = a
        if low is not None and high is not None:
            first, last = floordiv(low, by), floordiv(high, by)
            if first is last or self.analyzer.can_prove(eq(last, first)):
                start = mul(first, by)
                return sub(low, start), sub(high, start)
    return const(0, by.dtype), _rests(self, by, by)[1]


def _rests(self: IntervalEvaluator, by: Expr, size: Expr) -> tuple[Expr, Expr]:
    """The interval of remainders, of either sign, by `by`, whose absolute value is `size`.

    A remainder by 0 is 0.
    """
    zero, one = const(0, by.dtype), const(1, by.dtype)
    if self.analyzer.bounds.divides(by):
        return sub(one, size), sub(size, one)
    last = max_(sub(size, one), zero)
    return sub(zero, last), last


def _truncmod(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    by = _point(b)
    if by is None:
        return _EVERYTHING
    size = by if self.sign(by) > 0 else max_(by, sub(const(0, by.dtype), by))
    first, last = _rests(self, by, size)
    if a[0] is not None and self.sign(a[0]) > 0:
        return const(0, by.dtype), last
    return first, last


def _min(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    low = _both(min_, a[0], b[0])
    if a[1] is None or b[1] is None:
        return low, a[1] if b[1] is None else b[1]
    return low, min_(a[1], b[1])


def _max(self: IntervalEvaluator, e: Any, a: Interval, b: Interval) -> Interval:
    high = _both(max_, a[1], b[1])
    if a[0] is None or b[0] is None:
        return (a[0] if b[0] is None else b[0]), high
    return max_(a[0], b[0]), high


def _truth(self: IntervalEvaluator, e: Any) -> Interval:
    """The interval of a condition: a point if it depends on no variable of `dom`, else [0, 1]."""
    for child in e.children():
        low, high = self.visit(child)
        if low is not child or high is not child:
            return const(False), const(True)
    return e, e


def _select(self: IntervalEvaluator, e: Any) -> Interval:
    a, b = self.visit(e.true_value), self.visit(e.false_value)
    if a[0] is e.true_value is a[1] and b[0] is e.false_value is b[1]:
        condition = self.visit(e.condition)
        if condition[0] is e.condition is condition[1]:
            return e, e
    return _both(min_, a[0], b[0]), _both(max_, a[1], b[1])


def _cast(self: IntervalEvaluator, e: Any) -> Interval:
    low, high = self.visit(e.value)
    if low is e.value is high:
        return e, e
    if not e.value.dtype.is_integral or not _keeps(e.dtype, e.value.dtype, low, high):
        return _EVERYTHING
    return (
        None if low is None else cast(e.dtype, low),
        None if high is None else cast(e.dtype, high),
    )


def _keeps(target: DType, source: DType, low: End, high: End) -> bool:
    """Whether a cast from `source` to `target` keeps all values between the ends."""
    every = int(source.min_value), int(source.max_value)
    if target.is_index and (source.is_index or holds(target, *every)):
        return True
    if not (isinstance(low, IntImm) and isinstance(high, IntImm)):
        return False
    return holds(target, low.value, high.value)


_RULES: dict[type[Expr], Callable[[IntervalEvaluator, Any], Interval]] = {
    Var: _var,
    SizeVar: _var,
    Add: _binary(_add),
    Sub: _binary(_sub),
    Mul: _binary(_mul),
    FloorDiv: _binary(_floordiv),
    FloorMod: _binary(_floormod),
    Div: _binary(_truncdiv),
    Mod: _binary(_truncmod),
    Min: _binary(_min),
    Max: _binary(_max),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE, And, Or, Not), _truth),
    Select: _select,
    Cast: _cast,
}
