"""Decides which of <, ==, > can hold between two integer expressions.

The answer is a union of bits. It follows from bounds of the simplified difference, the conditions
in scope, and residues.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from autosched.arith.const_int_bound import NEG_INF, POS_INF
from autosched.arith.division_facts import division_facts
from autosched.arith.sum_form import (
    NO_UPPER,
    Sum,
    Term,
    emit,
    merge_terms,
    representable,
    sum_bound,
)
from autosched.arith.transitive import transitive_bound
from autosched.tir.expr import Expr, IntImm, SizeVar, Var

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer

LESS, EQUAL, GREATER = 1, 2, 4
UNKNOWN = LESS | EQUAL | GREATER
_MAX_NESTING = 3


def sign_bits(low: int, high: int) -> int:
    """The relations to 0 that values in [low, high] can have, as bits."""
    bits = 0
    if low < 0:
        bits = LESS
    if high > 0:
        bits |= GREATER
    return bits | EQUAL if low <= 0 <= high else bits


def by_bounds(analyzer: Analyzer, a: Expr, b: Expr) -> int:
    """The relations of `a` to `b` that their bounds allow, for scalars of any integer type."""
    if a is b:
        return EQUAL
    (low, high), (other_low, other_high) = analyzer.bounds(a), analyzer.bounds(b)
    bits = UNKNOWN
    if high <= other_low and high < POS_INF and other_low > NEG_INF:
        bits &= ~GREATER if high == other_low else LESS
    if low >= other_high and low > NEG_INF and other_high < POS_INF:
        bits &= ~LESS if low == other_high else GREATER
    return bits


def compare(analyzer: Analyzer, a: Expr, b: Expr) -> int:
    """The possible relations of `a` to `b`, as a union of bits LESS, EQUAL, GREATER."""
    if a is b:
        return EQUAL
    if a.__class__ is IntImm and b.__class__ is IntImm:
        difference: int = a.value - b.value
        return sign_bits(difference, difference)
    gathered: list[Term] = []
    canonical = analyzer.canonical
    base = canonical.gather(a, 1, gathered) + canonical.gather(b, -1, gathered)
    terms = merge_terms(gathered)
    if not terms:
        return sign_bits(base, base)
    bits = sign_bits(*sum_bound(terms, base, analyzer.bounds, a.dtype))
    if bits in (LESS, EQUAL, GREATER):
        return bits
    derived = division_facts(analyzer, terms) if len(terms) > 1 and not analyzer.as_ansor else []
    if derived or len(analyzer.bounds.linear) > 1:
        bits &= sign_bits(*transitive_bound(terms, base, analyzer.bounds, derived))
        if bits in (LESS, EQUAL, GREATER):
            return bits
    if bits & EQUAL and not may_vanish(analyzer, terms, base):
        bits &= ~EQUAL
    if (
        bits == UNKNOWN
        and not all(t.atom.__class__ in (Var, SizeVar) for t in terms)
        and representable(Sum(tuple(terms), base), a.dtype)
    ):
        bits &= _of_rewritten(analyzer, emit(terms, base, a.dtype))
    return bits


def may_vanish(analyzer: Analyzer, terms: list[Term], base: int) -> bool:
    """False when residues show that the sum of `terms` and `base` is never 0."""
    if base == 0 and not analyzer.moduli.env and all(t[2] == NO_UPPER for t in terms):
        return True
    divisor = 0
    for index, lower, upper, scale, _ in terms:
        if lower != 1:
            divisor = gcd(divisor, scale)
            continue
        known = analyzer.moduli(index)
        coeff = known.coeff if upper == NO_UPPER else gcd(known.coeff, upper)
        divisor = gcd(divisor, scale * coeff)
        base += scale * known.base
    return base % divisor == 0 if divisor else base == 0


def _of_rewritten(analyzer: Analyzer, difference: Expr) -> int:
    if analyzer.nesting >= _MAX_NESTING or analyzer.bounds.wraps(difference):
        return UNKNOWN
    analyzer.nesting += 1
    simple = analyzer.rewrite.visit(difference)
    analyzer.nesting -= 1
    return sign_bits(*analyzer.bounds(simple))
