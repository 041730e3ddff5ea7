"""Index expressions as sums of independent digits of loop variables, and the boxes they fill.

A loop variable that is used as (v % upper) // lower is a number with mixed digits: of v in
[0, 24) used as v // 8 and v % 8 these are v // 8 in [0, 3) and v % 8 in [0, 8), each independent
of the other. What the dimensions of a region access is a box when no two of them share a digit and
the values of each have no gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from autosched.arith import exact
from autosched.arith.analyzer import Analyzer
from autosched.arith.facts import conjuncts_of
from autosched.arith.intset import IntSet
from autosched.arith.sum_form import NO_UPPER, Term, emit, merge_terms
from autosched.tir.data import is_data
from autosched.tir.expr import EQ, GE, GT, LE, LT, Expr, IntImm, Mul, Range, Var
from autosched.tir.op import add, const, eq, floordiv, floormod, ge, gt, le, max_, min_, mul, not_
from autosched.tir.walk import free_vars, substitute


class UnknownBoxError(Exception):
    """It is not known which box is accessed; `variables` may be left at one value instead."""

    def __init__(self, variables: Iterable[Var] = ()) -> None:
        self.variables = frozenset(variables)


class _NothingError(Exception):
    """Nothing is accessed."""


class Digit(NamedTuple):
    """((atom % upper) // lower) for the next larger `lower` of the same atom as upper."""

    atom: Expr
    lower: int


Form = dict[Digit, Expr]
"""The factor of each digit; factors are free of the loops' variables."""


@dataclass(slots=True)
class _Part:
    """factor * ((atom % upper) // lower)."""

    atom: Expr
    lower: int
    upper: int
    factor: Expr


@dataclass(slots=True)
class _Limits:
    """What the predicate says of one form: it lies in [low, high]; None is no limit."""

    form: dict[Digit, int]
    low: Expr | None = None
    high: Expr | None = None


class Digits:
    """What `region` accesses while the variables of `var_dom` run and `predicate` holds."""

    def __init__(
        self,
        region: Sequence[Range],
        var_dom: Mapping[Var, Range],
        predicate: Expr,
        analyzer: Analyzer | None,
    ) -> None:
        self.region = region
        self.var_dom = var_dom
        self.predicate = predicate
        self.analyzer = analyzer or Analyzer()
        self.own: frozenset[Var] = frozenset()
        self.ranges: dict[Digit, tuple[Expr, Expr]] = {}
        self.variables: dict[Expr, frozenset[Var]] = {}

    def box(self) -> tuple[IntSet, ...]:
        """The box that is exactly what is accessed; UnknownBoxError when none is found."""
        with self.analyzer.scope():
            try:
                return self._box()
            except _NothingError:
                return (IntSet.nothing(),) * len(self.region)

    def _proved(self, condition: Expr) -> bool:
        return self.analyzer.can_prove(condition)

    def _box(self) -> tuple[IntSet, ...]:
        table = self._from_zero()
        extents = [self._extent(substitute(r.extent, table)) for r in self.region]
        mins = [self._parts(substitute(r.min, table)) for r in self.region]
        conditions = []
        for condition in conjuncts_of(substitute(self.predicate, table)):
            if self._proved(condition):
                continue
            if self._proved(not_(condition)):
                raise _NothingError
            conditions.append(self._condition(condition))
        self._cut([p for parts, _ in (*mins, *((c[0], 0) for c in conditions)) for p in parts])
        forms = [self._form(parts) for parts, _ in mins]
        limits = self._limits(conditions)
        self._check_independent(forms)
        sets = [
            self._dimension(form, rest, extent, limits)
            for form, (_, rest), extent in zip(forms, mins, extents, strict=True)
        ]
        if limits:
            raise UnknownBoxError(v for known in limits for d in known.form for v in self._of(d))
        for digit in self.ranges:
            self._count(digit)
        return tuple(sets)

    # -- variables and expressions

    def _from_zero(self) -> dict[Var, Expr]:
        """Bind the variables, from 0 on; what they are to be replaced by."""
        table: dict[Var, Expr] = {}
        own = set()
        for var, r in self.var_dom.items():
            if not (free_vars(r.min) | free_vars(r.extent)).isdisjoint(self.var_dom):
                raise UnknownBoxError(
                    (free_vars(r.min) | free_vars(r.extent)) & self.var_dom.keys()
                )
            if self._proved(le(r.extent, const(0, r.extent.dtype))):
                raise _NothingError
            if not self._proved(gt(r.extent, const(0, r.extent.dtype))):
                raise UnknownBoxError
            if self._proved(eq(r.extent, const(1, r.extent.dtype))):
                table[var] = r.min
                continue
            new = var
            if not self._proved(eq(r.min, const(0, r.min.dtype))):
                new = Var(var.name, var.dtype)
                table[var] = add(new, r.min)
            self.analyzer.bind(new, Range(const(0, r.min.dtype), r.extent), override=True)
            own.add(new)
            self.variables[new] = frozenset((var,))
            last = exact.sub(r.extent, const(1, r.extent.dtype))
            self.ranges[Digit(new, 1)] = (const(0, r.min.dtype), last)
        self.own = frozenset(own)
        return table

    def _named(self, variables: Iterable[Var]) -> set[Var]:
        """The variables of `var_dom` that stand behind these."""
        return {v for own in variables if own in self.variables for v in self.variables[own]}

    def _of(self, digit: Digit) -> set[Var]:
        return self._named(free_vars(digit.atom))

    def _unknown(self, e: Expr) -> UnknownBoxError:
        return UnknownBoxError(self._named(free_vars(e)))

    def _extent(self, extent: Expr) -> Expr:
        if not free_vars(extent).isdisjoint(self.own):
            raise self._unknown(extent)
        if self._proved(le(extent, const(0, extent.dtype))):
            raise _NothingError
        if not self._proved(gt(extent, const(0, extent.dtype))):
            raise UnknownBoxError
        return self.analyzer.simplify(extent)

    def _parts(self, e: Expr) -> tuple[list[_Part], Expr]:
        """`e` as parts that depend on the loops, and the rest."""
        if is_data(e):
            raise self._unknown(e)
        terms: list[Term] = []
        base = self.analyzer.canonical.gather(self.analyzer.simplify(e), 1, terms)
        terms = merge_terms(terms)
        parts = [t for t in terms if not free_vars(t.atom).isdisjoint(self.own)]
        rest = emit([t for t in terms if t not in parts], base, e.dtype)
        return [self._part(t, e) for t in parts], rest

    def _part(self, term: Term, e: Expr) -> _Part:
        atom, lower, upper, scale, trunc = term
        factor: Expr = IntImm(scale, e.dtype)
        if trunc and not self._proved(ge(atom, const(0, atom.dtype))):
            raise self._unknown(atom)
        if isinstance(atom, Mul) and lower == 1 and upper == NO_UPPER:
            for x, y in ((atom.a, atom.b), (atom.b, atom.a)):
                if isinstance(x, Var) and free_vars(y).isdisjoint(self.own):
                    return _Part(x, 1, NO_UPPER, exact.mul(y, factor))
        if not isinstance(atom, Var):
            raise self._unknown(atom)
        return _Part(atom, lower, upper, factor)

    def _condition(self, e: Expr) -> tuple[list[_Part], Expr, bool]:
        """Parts and rest of a sum that is at most 0, or (True) equal to 0, where `e` holds."""
        if not isinstance(e, LT | LE | GT | GE | EQ) or not e.a.dtype.is_index:
            raise self._unknown(e)
        a, b = (e.b, e.a) if isinstance(e, GT | GE) else (e.a, e.b)
        parts, rest = self._parts(exact.sub(a, b))
        if isinstance(e, LT | GT):
            rest = exact.add(rest, const(1, rest.dtype))
        return parts, rest, isinstance(e, EQ)

    # -- digits

    def _cut(self, parts: Sequence[_Part]) -> None:
        """The digits that the uses of each variable need, in place of its whole value."""
        uses: dict[Expr, set[int]] = {}
        for p in parts:
            used = uses.setdefault(p.atom, {1})
            used.add(p.lower)
            if p.upper != NO_UPPER:
                used.add(p.upper)
        for atom, used in uses.items():
            cuts = sorted(used)
            if cuts != [1]:
                self._cut_variable(atom, cuts, [p for p in parts if p.atom is atom])

    def _cut_variable(self, atom: Expr, cuts: Sequence[int], parts: Sequence[_Part]) -> None:
        _, last = self.ranges.pop(Digit(atom, 1))
        top = const(cuts[-1], last.dtype)
        count = exact.add(last, _one(last))
        rows = self.analyzer.simplify(floordiv(last, top))
        whole = self._proved(eq(floormod(count, top), _zero(last)))
        if not whole and all(p.lower == cuts[-1] for p in parts):
            self.ranges[Digit(atom, cuts[-1])] = (_zero(last), rows)  # the quotient alone
            return
        for small, large in pairwise(cuts):
            if large % small:
                raise self._unknown(atom)
            self.ranges[Digit(atom, small)] = (_zero(last), const(large // small - 1, last.dtype))
        if whole:
            self.ranges[Digit(atom, cuts[-1])] = (_zero(last), rows)
        elif any(p.upper == NO_UPPER for p in parts) or not self._proved(ge(count, top)):
            raise self._unknown(atom)  # else remainders only, all of which occur

    def _form(self, parts: Sequence[_Part]) -> Form:
        form: Form = {}
        for p in parts:
            for digit in self.ranges:
                if digit.atom is p.atom and p.lower <= digit.lower < p.upper:
                    factor = exact.mul(p.factor, const(digit.lower // p.lower, p.factor.dtype))
                    old = form.get(digit)
                    form[digit] = factor if old is None else exact.add(old, factor)
        return {d: f for d, f in form.items() if not (isinstance(f, IntImm) and f.value == 0)}

    def _check_independent(self, forms: Sequence[Form]) -> None:
        seen: set[Digit] = set()
        for form in forms:
            for digit in form:
                if digit in seen:
                    raise UnknownBoxError(self._of(digit))
                seen.add(digit)

    def _count(self, digit: Digit) -> Expr:
        """Last less first value of a digit, of which there is provably one at least."""
        low, high = self.ranges[digit]
        if self._proved(gt(low, high)):
            raise _NothingError
        if not self._proved(le(low, high)):
            raise UnknownBoxError(self._of(digit))
        return self.analyzer.simplify(exact.sub(high, low))

    # -- the predicate

    def _limits(self, conditions: Sequence[tuple[list[_Part], Expr, bool]]) -> list[_Limits]:
        """The conditions on single digits as their ranges, and those on sums."""
        found: dict[frozenset[tuple[Digit, int]], _Limits] = {}
        for parts, rest, equal in conditions:
            form = self._form(parts)
            factors = {d: f.value for d, f in form.items() if isinstance(f, IntImm)}
            if not form or len(factors) < len(form):
                raise UnknownBoxError(v for d in form for v in self._of(d))
            step = self._step(factors)
            whole = {d: f // step for d, f in factors.items()}
            known = found.setdefault(frozenset(whole.items()), _Limits(whole))
            # step * form + rest <= 0
            size = const(abs(step), rest.dtype)
            below, above = rest, exact.sub(const(0, rest.dtype), rest)
            if step > 0 or equal:
                limit = floordiv(above if step > 0 else below, size)
                known.high = limit if known.high is None else min_(known.high, limit)
            if step < 0 or equal:
                limit = floordiv(
                    exact.add(below if step < 0 else above, exact.sub(size, const(1, size.dtype))),
                    size,
                )
                known.low = limit if known.low is None else max_(known.low, limit)
        sums = []
        for known in found.values():
            if len(known.form) > 1:
                sums.append(known)
                continue
            (digit,) = known.form
            low, high = self.ranges[digit]
            self.ranges[digit] = self._clipped(low, high, known)
        return sums

    def _step(self, factors: Mapping[Digit, int]) -> int:
        """The common divisor, with the sign of the factor of the first digit."""
        first = next(factors[d] for d in self.ranges if d in factors)
        return gcd(*factors.values()) * (1 if first > 0 else -1)

    def _clipped(self, low: Expr, high: Expr, known: _Limits) -> tuple[Expr, Expr]:
        if known.low is not None:
            low = self.analyzer.simplify(max_(low, known.low))
        if known.high is not None:
            high = self.analyzer.simplify(min_(high, known.high))
        return low, high

    # -- dimensions

    def _dimension(self, form: Form, rest: Expr, extent: Expr, limits: list[_Limits]) -> IntSet:
        """What one dimension accesses; takes the limits that it uses out of `limits`."""
        if not form:
            low, last = rest, exact.sub(extent, const(1, extent.dtype))
            return self._interval(low, exact.add(low, last))
        concerned = [k for k in limits if not form.keys().isdisjoint(k.form)]
        if not concerned:
            low, reach = self._reach(form, extent)
            first = exact.add(low, rest)
            return self._interval(first, exact.sub(exact.add(first, reach), _one(reach)))
        factors = {d: f.value for d, f in form.items() if isinstance(f, IntImm)}
        if len(concerned) > 1 or factors.keys() != concerned[0].form.keys():
            raise UnknownBoxError(v for d in form for v in self._of(d))
        known = concerned[0]
        step = self._step(factors)
        if {d: f // step for d, f in factors.items()} != known.form:
            raise UnknownBoxError(v for d in form for v in self._of(d))
        one = const(1, rest.dtype)
        low, reach = self._reach({d: const(f, rest.dtype) for d, f in known.form.items()}, one)
        low, high = self._clipped(low, exact.sub(exact.add(low, reach), one), known)
        limits.remove(known)
        if self._proved(gt(low, high)):
            raise _NothingError
        wide = self._proved(ge(extent, const(abs(step), extent.dtype)))
        if not self._proved(le(low, high)) or not (wide or self._proved(eq(low, high))):
            raise UnknownBoxError(v for d in form for v in self._of(d))
        by = const(step, rest.dtype)
        ends = [exact.add(mul(e, by), rest) for e in ((low, high) if step > 0 else (high, low))]
        return self._interval(ends[0], exact.sub(exact.add(ends[1], extent), _one(extent)))

    def _reach(self, form: Form, extent: Expr) -> tuple[Expr, Expr]:
        """The least value of a form and how many values follow it without a gap, from its steps.

        Each value is the first of `extent` neighbours. The shortest steps come first: a step that
        is no longer than what has been reached leaves no gap.
        """
        low: Expr = const(0, extent.dtype)
        waiting: list[tuple[Digit, Expr, Expr]] = []
        for digit, factor in form.items():
            count = self._count(digit)
            first, last = self.ranges[digit]
            if self._proved(gt(factor, const(0, factor.dtype))):
                low, size = exact.add(low, mul(first, factor)), factor
            elif self._proved(gt(const(0, factor.dtype), factor)):
                size = exact.sub(const(0, factor.dtype), factor)
                low = exact.add(low, mul(last, factor))
            else:
                raise UnknownBoxError(self._of(digit))
            waiting.append((digit, size, count))
        reach = extent
        while waiting:
            for position, (_, size, count) in enumerate(waiting):
                if self._proved(le(size, reach)) or self._proved(eq(count, _zero(count))):
                    reach = self.analyzer.simplify(exact.add(reach, mul(size, count)))
                    del waiting[position]
                    break
            else:
                largest = max(waiting, key=lambda w: self.analyzer.const_int_bound(w[1]))
                raise UnknownBoxError(self._of(largest[0]))
        return low, reach

    def _interval(self, low: Expr, high: Expr) -> IntSet:
        return IntSet.interval(self.analyzer.simplify(low), self.analyzer.simplify(high))


def _one(e: Expr) -> Expr:
    return const(1, e.dtype)


def _zero(e: Expr) -> Expr:
    return const(0, e.dtype)
