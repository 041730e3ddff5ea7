"""Solving conditions for one variable: from i * 4 + j < n to i <= (n - j - 1) // 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from autosched.arith import exact
from autosched.arith.analyzer import Analyzer
from autosched.arith.const_int_bound import NEG_INF, POS_INF, ConstIntBound
from autosched.arith.facts import conjuncts_of
from autosched.arith.interval_eval import eval_set
from autosched.arith.intset import NEG_INF_EXPR, POS_INF_EXPR, IntSet, intersect_set
from autosched.arith.sum_form import NO_UPPER, Term, emit, merge_terms
from autosched.tir.data import is_data
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    Cast,
    CompareExpr,
    Expr,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    Var,
)
from autosched.tir.op import cast, floordiv, ge, gt, le, lt, not_
from autosched.tir.walk import free_vars

End = Expr | None


class Solution(NamedTuple):
    """A set of values for which a condition holds.

    With `exact` the condition does not hold for any other value.
    """

    values: IntSet
    exact: bool


_UNSOLVED = Solution(IntSet.nothing(), False)
_ALWAYS = Solution(IntSet.everything(), True)
_NEVER = Solution(IntSet.nothing(), True)


def deduce_bound(
    var: Var,
    condition: Expr,
    hint: Mapping[Var, IntSet] | None = None,
    relax: Mapping[Var, IntSet] | None = None,
) -> IntSet:
    """An interval of values of `var` for which `condition` certainly holds.

    Every value in it makes the condition hold for all values of the variables of `relax` in their
    sets. The ends of the interval may mention all other variables. Those of `hint` are known to lie
    in their sets; values of `var` outside of its own hint do not count. The interval is the largest
    one if the condition is a conjunction of comparisons in which `var` occurs once, within sums,
    products and quotients with operands of known sign, minima and maxima. For other conditions it
    may be smaller; it is the empty set (`is_nothing`) when no solution is found. An interval whose
    first end exceeds its last is empty, too. Arithmetic on data, which may wrap, is not solved.

        deduce_bound(i, i * 4 + j < n, relax={j: IntSet.interval(const(0), const(3))})
        IntSet[-inf, n // 4 - 1]
    """
    relax = dict(relax or {})
    analyzer = Analyzer()
    for v, values in {**(hint or {}), **relax}.items():
        _bound_by(analyzer, v, values)
    values = solve(analyzer, var, condition).values
    if values.is_nothing or not relax:
        return values
    low: Expr = NEG_INF_EXPR
    high: Expr = POS_INF_EXPR
    if values.has_lower_bound:
        low = eval_set(values.min_value, relax, analyzer).max_value
    if values.has_upper_bound:
        high = eval_set(values.max_value, relax, analyzer).min_value
    if low is POS_INF_EXPR or high is NEG_INF_EXPR:
        return IntSet.nothing()
    return intersect_set([IntSet.interval(low, high)], analyzer)


def _bound_by(analyzer: Analyzer, var: Var, values: IntSet) -> None:
    low = analyzer.const_int_bound(values.min_value)[0] if values.has_lower_bound else NEG_INF
    high = analyzer.const_int_bound(values.max_value)[1] if values.has_upper_bound else POS_INF
    known = analyzer.const_int_bound(var)
    analyzer.update_bound(var, ConstIntBound(max(low, known[0]), min(high, known[1])))


def solve(analyzer: Analyzer, var: Var, condition: Expr) -> Solution:
    """The values of `var` for which `condition` holds, given the knowledge of `analyzer`."""
    solver = _Solver(analyzer, var)
    parts = [solver.condition(part) for part in conjuncts_of(condition)]
    if any(p.values.is_nothing for p in parts):
        return Solution(IntSet.nothing(), any(p == _NEVER for p in parts))
    values = parts[0].values
    for part in parts[1:]:
        values = intersect_set([values, part.values], analyzer)
    return Solution(values, all(p.exact for p in parts))


class _Solver:
    def __init__(self, analyzer: Analyzer, var: Var) -> None:
        self.analyzer = analyzer
        self.var = var

    def condition(self, e: Any) -> Solution:
        if self.analyzer.can_prove(e):
            return _ALWAYS
        if self.analyzer.can_prove(not_(e)):
            return _NEVER
        if self.var not in free_vars(e):
            return _UNSOLVED
        if isinstance(e, Or):
            return self._either(solve(self.analyzer, self.var, e.a), e.b)
        if not isinstance(e, LT | LE | GT | GE | EQ) or not e.a.dtype.is_index or is_data(e):
            return _UNSOLVED
        try:
            return self._comparison(e)
        except (exact.DoesNotFitError, ZeroDivisionError):
            return _UNSOLVED

    def _either(self, first: Solution, other: Expr) -> Solution:
        second = solve(self.analyzer, self.var, other)
        for a, b in ((first, second), (second, first)):
            if a.values.is_nothing:
                return Solution(b.values, a.exact and b.exact)
            if a.values.is_everything:
                return a
        return Solution(first.values, False)

    def _comparison(self, e: CompareExpr) -> Solution:
        a, b = e.a, e.b
        if isinstance(e, GT | GE):
            a, b = b, a
        if self.var in free_vars(a) and self.var in free_vars(b):
            a, b = self.analyzer.simplify(exact.sub(a, b)), IntImm(0, a.dtype)
        strict = 1 if isinstance(e, LT | GT) else 0
        if self.var in free_vars(a):
            high = exact.sub(b, IntImm(strict, b.dtype))
            return self.between(a, b if isinstance(e, EQ) else None, high)
        low = exact.add(a, IntImm(strict, a.dtype))
        return self.between(b, low, a if isinstance(e, EQ) else None)

    def between(self, e: Any, low: End, high: End) -> Solution:
        """The values of the variable for which `low <= e <= high`; None means no limit."""
        low = None if low is None or self._proved(le(low, e)) else self.analyzer.simplify(low)
        high = None if high is None or self._proved(ge(high, e)) else self.analyzer.simplify(high)
        if low is None and high is None:
            return _ALWAYS
        if (low is not None and self._proved(gt(low, e))) or (
            high is not None and self._proved(lt(high, e))
        ):
            return _NEVER
        if e is self.var:
            first = NEG_INF_EXPR if low is None else low
            last = POS_INF_EXPR if high is None else high
            return self._nonempty(IntSet.interval(first, last))
        for form in (e, self.analyzer.simplify(e)):  # simplifying may merge occurrences of `var`
            terms: list[Term] = []
            base = self.analyzer.canonical.gather(form, 1, terms)
            terms = merge_terms(terms)
            mine = [t for t in terms if self.var in free_vars(t.atom)]
            if len(mine) == 1:
                break
        else:
            return _UNSOLVED
        rest = emit([t for t in terms if t is not mine[0]], base, e.dtype)
        return self._term(mine[0], e.dtype, _minus(low, rest), _minus(high, rest))

    def _proved(self, condition: Expr) -> bool:
        return self.analyzer.can_prove(condition)

    def _nonempty(self, values: IntSet) -> Solution:
        return Solution(intersect_set([values], self.analyzer), True)

    def _term(self, term: Term, dtype: DType, low: End, high: End) -> Solution:
        """Solve low <= ((atom % upper) // lower) * scale <= high."""
        atom, lower, upper, scale, trunc = term
        if trunc and not self._proved(ge(atom, IntImm(0, dtype))):
            return _UNSOLVED
        if scale < 0:
            low, high = _negative(high), _negative(low)
        size = IntImm(abs(scale), dtype)
        low, high = _quotient_up(low, size), _quotient_down(high, size)
        by = IntImm(lower, dtype)
        low, high = _product_down(low, by), _product_up(high, by)
        if upper != NO_UPPER:
            return self._remainder(low, high, IntImm(upper, dtype))
        return self._atom(atom, low, high)

    def _remainder(self, low: End, high: End, upper: Expr) -> Solution:
        """Solve low <= x % upper <= high, only where all remainders are within or none is."""
        zero, last = IntImm(0, upper.dtype), exact.sub(upper, IntImm(1, upper.dtype))
        below = low is None or self._proved(le(low, zero))
        above = high is None or self._proved(ge(high, last))
        if below and above:
            return _ALWAYS
        if (low is not None and self._proved(gt(low, last))) or (
            high is not None and self._proved(lt(high, zero))
        ):
            return _NEVER
        return _UNSOLVED

    def _atom(self, e: Any, low: End, high: End) -> Solution:
        if e is self.var or not isinstance(e, FloorDiv | Mul | Min | Max | Select | Cast):
            plain = e is self.var or e.__class__ in _SUMS
            return self.between(e, low, high) if plain else _UNSOLVED
        if isinstance(e, Cast):
            return self._cast(e, low, high)
        if isinstance(e, Select):
            arms = [self.between(x, low, high) for x in (e.true_value, e.false_value)]
            return Solution(self._all(arms).values, False)
        if isinstance(e, Min | Max):
            return self._extreme(e, low, high)
        x, y = (e.a, e.b) if self.var in free_vars(e.a) else (e.b, e.a)
        if self.var in free_vars(y) or (isinstance(e, FloorDiv) and y is not e.b):
            return _UNSOLVED
        zero = IntImm(0, y.dtype)
        if isinstance(e, FloorDiv):
            if self._proved(lt(y, zero)):
                x, y = exact.sub(zero, x), exact.sub(zero, y)
            elif not self._proved(gt(y, zero)):
                return _UNSOLVED
            return self.between(x, _product_down(low, y), _product_up(high, y))
        if self._proved(lt(y, zero)):
            low, high, y = _negative(high), _negative(low), exact.sub(zero, y)
        elif not self._proved(gt(y, zero)):
            return _UNSOLVED
        return self.between(x, _quotient_up(low, y), _quotient_down(high, y))

    def _all(self, parts: list[Solution]) -> Solution:
        """The solution of the conjunction of the conditions solved by `parts`."""
        if any(p.values.is_nothing for p in parts):
            return Solution(IntSet.nothing(), any(p == _NEVER for p in parts))
        values = intersect_set([p.values for p in parts], self.analyzer)
        return Solution(values, all(p.exact for p in parts))

    def _extreme(self, e: Any, low: End, high: End) -> Solution:
        """Solve low <= min(a, b) <= high, likewise max.

        For min, both operands must be at least low, and one of them at most high.
        """
        least = isinstance(e, Min)
        both, one = (low, high) if least else (high, low)
        parts = []
        if both is not None:
            limits = (both, None) if least else (None, both)
            parts += [self.between(x, *limits) for x in (e.a, e.b)]
        if one is not None:
            limits = (None, one) if least else (one, None)
            found = [self.between(x, *limits) for x in (e.a, e.b)]
            for a, b in (found, reversed(found)):
                if a == _NEVER or b.values.is_everything:
                    parts.append(b)
                    break
            else:
                solved = [p for p in found if not p.values.is_nothing]
                parts.append(Solution(solved[0].values, False) if solved else _UNSOLVED)
        return self._all(parts)

    def _cast(self, e: Cast, low: End, high: End) -> Solution:
        """Solve low <= cast(index) <= high, if the limits fit in the index's own type."""
        dtype = e.value.dtype
        if not dtype.is_index:
            return _UNSOLVED
        ends: list[End] = []
        for end in (low, high):
            if end is not None:
                known = self.analyzer.const_int_bound(end)
                if known[0] < dtype.min_value or known[1] > dtype.max_value:
                    return _UNSOLVED
                end = cast(dtype, end)
            ends.append(end)
        return self.between(e.value, *ends)


_SUMS = frozenset((Add, Sub))


def _minus(end: End, rest: Expr) -> End:
    return None if end is None else exact.sub(end, rest)


def _negative(end: End) -> End:
    return None if end is None else exact.sub(IntImm(0, end.dtype), end)


def _quotient_up(end: End, by: Expr) -> End:
    """The least q with q * by >= end, for a positive `by`."""
    if end is None:
        return None
    return floordiv(exact.add(end, exact.sub(by, IntImm(1, by.dtype))), by)


def _quotient_down(end: End, by: Expr) -> End:
    """The largest q with q * by <= end, for a positive `by`."""
    return None if end is None else floordiv(end, by)


def _product_down(end: End, by: Expr) -> End:
    """The least x with x // by >= end, for a positive `by`."""
    return None if end is None else exact.mul(end, by)


def _product_up(end: End, by: Expr) -> End:
    """The largest x with x // by <= end, for a positive `by`."""
    if end is None:
        return None
    return exact.add(exact.mul(end, by), exact.sub(by, IntImm(1, by.dtype)))
