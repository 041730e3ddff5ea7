"""Simplifies `<` between canonical sums by dividing by a common factor of most terms.

docs/semantics/arithmetic.md has the rules.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from autosched.arith.compare import may_vanish
from autosched.arith.sum_form import (
    NO_UPPER,
    Sum,
    Term,
    emit,
    insert_term,
    representable,
)
from autosched.tir.dtype import DType
from autosched.tir.expr import LT, Expr, FloorDiv, FloorMod
from autosched.tir.op import const

if TYPE_CHECKING:
    from autosched.arith.canonical import CanonicalSimplifier


def less_by_factor(self: CanonicalSimplifier, e: Any) -> Expr | None:
    """`e` (a < b) as a - b < 0, divided by the common factor of all scaled terms and the constant.

    None when there is no such factor, or when the remaining terms may decide the condition.
    """
    terms: list[Term] = []
    base = self.gather(e.a, 1, terms) + self.gather(e.b, -1, terms)
    factor, scaled = abs(base), False
    for term in terms:
        if term.scale not in (1, -1):
            scaled = True
            factor = gcd(factor, term.scale)
    if not scaled or factor <= 1:
        return None
    dtype = e.a.dtype
    kept = _kept_terms(self, terms, base, factor, dtype)
    return None if kept is None else _negative(self, kept, base // factor, dtype)


def _kept_terms(
    self: CanonicalSimplifier, terms: list[Term], base: int, factor: int, dtype: DType
) -> list[Term] | None:
    """The terms that decide whether the sum is negative, divided by `factor`.

    None when terms that `factor` does not divide may decide it.
    """
    rest = [t for t in terms if t.scale % factor]
    kept = [t._replace(scale=t.scale // factor) for t in terms if t.scale % factor == 0]
    if not rest or self.in_range(rest, 0, factor, dtype):
        return kept
    if _below_by_condition(self, rest, factor, dtype):
        return kept
    # With a rest in (-factor, factor), the kept part decides the sign wherever it is not 0.
    within_factor = self.in_range(rest, factor - 1, 2 * factor - 1, dtype)
    if within_factor and not may_vanish(self.analyzer, kept, base // factor):
        return kept
    if len(rest) != 1 or rest[0].scale != 1:
        return None
    index, lower, upper, _, trunc = rest[0]
    if upper == NO_UPPER or trunc or upper % (factor * lower):
        return None
    divisor = lower * factor
    quotient = FloorDiv(index, const(divisor, dtype))
    for term in self.form(FloorMod(quotient, const(upper // divisor, dtype))).terms:
        insert_term(kept, term, 1)
    return kept


def _below_by_condition(
    self: CanonicalSimplifier, rest: list[Term], limit: int, dtype: DType
) -> bool:
    """True when `rest` is one quotient that the conditions in scope prove to be in [0, limit)."""
    if len(rest) != 1 or rest[0].scale != 1 or not self.analyzer.literals:
        return False
    total = emit(rest, 0, dtype)
    if total.__class__ is not FloorDiv or self.analyzer.bounds(total)[0] < 0:
        return False
    return self.analyzer.prove_nested(LT(total, const(limit, dtype)))


def _negative(self: CanonicalSimplifier, terms: list[Term], base: int, dtype: DType) -> Expr | None:
    """The simplified condition that the sum is less than 0; None when the sum may wrap."""
    if not representable(Sum(tuple(terms), base), dtype):
        return None
    total = emit(terms, base, dtype)
    if self.analyzer.bounds.wraps(total):
        return None
    return self.visit(LT(total, const(0, dtype)))
