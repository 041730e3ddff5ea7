"""Finds the exact box that a region accesses, by splitting loop variables into independent digits.

A loop variable used as (v % upper) // lower is a mixed-radix number. For v in [0, 24), used as
v // 8 and v % 8, the digits are v // 8 in [0, 3) and v % 8 in [0, 8); they are independent of each
other. The accessed elements form a box if no two dimensions share a digit and the values of each
dimension have no gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from autosched.arith import exact
from autosched.arith.analyzer import Analyzer
from autosched.arith.facts import conjuncts_of
from autosched.arith.index_places import Part, Place, Places, UnknownBoxError
from autosched.arith.intset import IntSet
from autosched.arith.sum_form import NO_UPPER
from autosched.tir.constants import is_zero
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import add, const, eq, floordiv, floormod, ge, gt, le, max_, min_, mul, not_
from autosched.tir.walk import free_vars, substitute


class _NothingError(Exception):
    """Raised when nothing is accessed."""


class Digit(NamedTuple):
    """The digit ((atom % upper) // lower), where `upper` is the next larger `lower` of the atom."""

    atom: Expr
    lower: int


Form = dict[Digit, Expr]
"""A sum of digits as the factor of each; factors do not depend on the loops' variables."""


@dataclass(slots=True)
class _Limits:
    """A fact of the predicate: `form` lies in [low, high]; None means no limit."""

    form: dict[Digit, int]
    low: Expr | None = None
    high: Expr | None = None


class Digits:
    """The analysis of the elements that `region` accesses over all iterations.

    The iterations are those of the variables of `var_dom` for which `predicate` holds. `ranges`
    maps each digit to its first and last value.
    """

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
        self.ranges: dict[Digit, tuple[Expr, Expr]] = {}
        self.variables: dict[Expr, frozenset[Var]] = {}
        self.places = Places(self.analyzer, self.variables)

    def box(self) -> tuple[IntSet, ...]:
        """The box of exactly the accessed elements; UnknownBoxError when none is found."""
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
        mins = [self.places.place(substitute(r.min, table)) for r in self.region]
        conditions = []
        for condition in conjuncts_of(substitute(self.predicate, table)):
            if self._proved(condition):
                continue
            if self._proved(not_(condition)):
                raise _NothingError
            conditions.append(self.places.condition(condition))
        used = [*(place.parts for place in mins), *(parts for parts, _, _ in conditions)]
        self._cut([part for parts in used for part in parts])
        forms = [self._form(place.parts) for place in mins]
        limits = self._limits(conditions)
        self._check_independent(forms)
        self._drop_met(limits, forms)
        sets = [
            self._dimension(form, place.rest, extent, limits)
            if place.quotient is None
            else self._quotients(place, form, extent, limits)
            for form, place, extent in zip(forms, mins, extents, strict=True)
        ]
        if limits:
            raise UnknownBoxError(v for known in limits for d in known.form for v in self._of(d))
        for digit in self.ranges:
            self._count(digit)
        return tuple(sets)

    # -- variables and expressions

    def _from_zero(self) -> dict[Var, Expr]:
        """Bind variables that start at 0; return what to substitute for the given variables."""
        table: dict[Var, Expr] = {}
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
            self.variables[new] = frozenset((var,))
            last = exact.sub(r.extent, const(1, r.extent.dtype))
            self.ranges[Digit(new, 1)] = (const(0, r.min.dtype), last)
        return table

    def _of(self, digit: Digit) -> set[Var]:
        return self.places.named(free_vars(digit.atom))

    def _extent(self, extent: Expr) -> Expr:
        if not self.variables.keys().isdisjoint(free_vars(extent)):
            raise self.places.unknown(extent)
        if self._proved(le(extent, const(0, extent.dtype))):
            raise _NothingError
        if not self._proved(gt(extent, const(0, extent.dtype))):
            raise UnknownBoxError
        return self.analyzer.simplify(extent)

    # -- digits

    def _cut(self, parts: Sequence[Part]) -> None:
        """Split the variables in `parts` into the digits that these uses need."""
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

    def _cut_variable(self, atom: Expr, cuts: Sequence[int], parts: Sequence[Part]) -> None:
        _, last = self.ranges.pop(Digit(atom, 1))
        top = const(cuts[-1], last.dtype)
        count = exact.add(last, _one(last))
        rows = self.analyzer.simplify(floordiv(last, top))
        whole = self._proved(eq(floormod(count, top), _zero(last)))
        if not whole and all(p.lower == cuts[-1] for p in parts):
            self.ranges[Digit(atom, cuts[-1])] = (_zero(last), rows)  # only the quotient is used
            return
        for small, large in pairwise(cuts):
            if large % small:
                raise self.places.unknown(atom)
            self.ranges[Digit(atom, small)] = (_zero(last), const(large // small - 1, last.dtype))
        if whole:
            self.ranges[Digit(atom, cuts[-1])] = (_zero(last), rows)
        elif any(p.upper == NO_UPPER for p in parts) or not self._proved(ge(count, top)):
            raise self.places.unknown(atom)  # otherwise only remainders are used, and all occur

    def _form(self, parts: Sequence[Part]) -> Form:
        form: Form = {}
        for p in parts:
            for digit in self.ranges:
                if digit.atom is p.atom and p.lower <= digit.lower < p.upper:
                    factor = exact.mul(p.factor, const(digit.lower // p.lower, p.factor.dtype))
                    old = form.get(digit)
                    form[digit] = factor if old is None else exact.add(old, factor)
        return {d: f for d, f in form.items() if not is_zero(f)}

    def _check_independent(self, forms: Sequence[Form]) -> None:
        seen: set[Digit] = set()
        for form in forms:
            for digit in form:
                if digit in seen:
                    raise UnknownBoxError(self._of(digit))
                seen.add(digit)

    def _count(self, digit: Digit) -> Expr:
        """The last minus the first value of a digit; raises unless it provably has a value."""
        low, high = self.ranges[digit]
        if self._proved(gt(low, high)):
            raise _NothingError
        if not self._proved(le(low, high)):
            raise UnknownBoxError(self._of(digit))
        return self.analyzer.simplify(exact.sub(high, low))

    # -- the predicate

    def _limits(self, conditions: Sequence[tuple[list[Part], Expr, bool]]) -> list[_Limits]:
        """Apply conditions on single digits to their ranges; return the limits of sums of digits.

        A condition is (parts, rest, equal): the sum of parts and rest is <= 0, or == 0 if `equal`.
        """
        found: dict[frozenset[tuple[Digit, int]], _Limits] = {}
        for parts, rest, equal in conditions:
            form = self._form(parts)
            factors = {d: f.value for d, f in form.items() if isinstance(f, IntImm)}
            if not form or len(factors) < len(form):
                raise UnknownBoxError(v for d in form for v in self._of(d))
            step = self._step(factors)
            whole = {d: f // step for d, f in factors.items()}
            known = found.setdefault(frozenset(whole.items()), _Limits(whole))
            # The condition is step * form + rest <= 0 (or == 0).
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
        """The greatest common divisor of the factors, with the sign of the first digit's factor."""
        first = next(factors[d] for d in self.ranges if d in factors)
        return gcd(*factors.values()) * (1 if first > 0 else -1)

    def _clipped(self, low: Expr, high: Expr, known: _Limits) -> tuple[Expr, Expr]:
        if known.low is not None:
            low = self.analyzer.simplify(max_(low, known.low))
        if known.high is not None:
            high = self.analyzer.simplify(min_(high, known.high))
        return low, high

    def _drop_met(self, limits: list[_Limits], forms: Sequence[Form]) -> None:
        """Remove the limits on digits that no dimension and no other limit uses, if satisfiable."""
        for known in tuple(limits):
            used = {digit for form in forms for digit in form}
            used |= {d for other in limits if other is not known for d in other.form}
            if not used.isdisjoint(known.form):
                continue
            low, high = self._sums(known)
            if self._proved(gt(low, high)):
                raise _NothingError
            if self._proved(le(low, high)):
                limits.remove(known)

    def _sums(self, known: _Limits) -> tuple[Expr, Expr]:
        """The first and the last value of the form of `known` within its limits, without gaps."""
        digits = [self.ranges[d] for d in known.form]
        one = _one(digits[0][0])
        low, reach = self._reach({d: const(f, one.dtype) for d, f in known.form.items()}, one)
        return self._clipped(low, exact.sub(exact.add(low, reach), one), known)

    # -- dimensions

    def _dimension(self, form: Form, rest: Expr, extent: Expr, limits: list[_Limits]) -> IntSet:
        """The indices that one dimension accesses; removes the limits it uses from `limits`."""
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
        low, high = self._sums(known)
        limits.remove(known)
        if self._proved(gt(low, high)):
            raise _NothingError
        wide = self._proved(ge(extent, const(abs(step), extent.dtype)))
        if not self._proved(le(low, high)) or not (wide or self._proved(eq(low, high))):
            raise UnknownBoxError(v for d in form for v in self._of(d))
        by = const(step, rest.dtype)
        ends = [exact.add(mul(e, by), rest) for e in ((low, high) if step > 0 else (high, low))]
        return self._interval(ends[0], exact.sub(exact.add(ends[1], extent), _one(extent)))

    def _quotients(self, place: Place, form: Form, extent: Expr, limits: list[_Limits]) -> IntSet:
        """The indices accessed by a dimension that begins at the quotients of an interval."""
        assert place.quotient is not None
        inside = self._dimension(form, place.rest, _one(place.rest), limits)
        found = place.quotient.of_all(self.analyzer, inside.min_value, inside.max_value, extent)
        if found is None:
            raise UnknownBoxError(v for d in form for v in self._of(d))
        return self._interval(*found)

    def _reach(self, form: Form, extent: Expr) -> tuple[Expr, Expr]:
        """The least value of a form, and the number of values from it on, without a gap.

        Each value of the form covers `extent` consecutive indices. Digits are added from the
        shortest step on: a step that is not longer than the covered length leaves no gap.
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
