"""Inequalities that quotients and remainders satisfy: x % n < n, x // 4 * 4 <= x, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.arith.const_int_bound import NEG_INF, POS_INF
from autosched.arith.sum_form import NO_UPPER, LinearFact, Term, merge_terms, opaque
from autosched.tir.expr import Div, Expr, FloorDiv, FloorMod, Mod, Mul

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer

_MAX_DEPTH = 2
"""The depth of nested divisions for which facts are derived."""


def division_facts(analyzer: Analyzer, terms: list[Term], depth: int = 0) -> list[LinearFact]:
    """Inequalities between the quotients and remainders in `terms` and their operands.

    x // c * c <= x < x // c * c + c for a constant c, and likewise for y > 0 if x // y * y is a
    term; x % c <= x and x // y <= x for x >= 0 and y >= 0; x % y < y for y > 0. For quotients that
    round toward zero they need x >= 0. A quotient and a remainder by 0 are 0.
    """
    facts: list[LinearFact] = []
    for term in terms:
        found: list[LinearFact] = []
        if term.lower != 1 or term.upper != NO_UPPER:
            _of_term(analyzer, term, found)
        elif term.atom.__class__ in _DIVISIONS or term.atom.__class__ is Mul:
            _of_atom(analyzer, term.atom, found)
        if depth < _MAX_DEPTH:
            inner = [t for fact in found for t in fact.terms if t[:3] != term[:3]]
            found += division_facts(analyzer, inner, depth + 1)
        facts += found
    return facts


_DIVISIONS = frozenset((FloorDiv, FloorMod, Div, Mod))


def _of_term(analyzer: Analyzer, term: Term, facts: list[LinearFact]) -> None:
    """Add the facts of a term (x % upper) // lower with constant upper and lower."""
    x, lower, upper, _, trunc = term
    positive = analyzer.bounds(x)[0] >= 0
    if positive or (upper == NO_UPPER and not trunc):
        low = 1 - lower if upper == NO_UPPER else NEG_INF
        _add(analyzer, facts, term._replace(scale=lower), x, low, 0)


def _of_atom(analyzer: Analyzer, e: Any, facts: list[LinearFact]) -> None:
    """Add the facts of a quotient or remainder by a variable, or of x // y * y."""
    cls = e.__class__
    if cls is Mul:
        for quotient, y in ((e.a, e.b), (e.b, e.a)):
            if quotient.__class__ in (FloorDiv, Div) and quotient.b is y:
                low, high = analyzer.bounds(y)
                floor = quotient.__class__ is FloorDiv or analyzer.bounds(quotient.a)[0] >= 0
                if low >= 0 and floor and analyzer.bounds.divides(y):
                    _add(analyzer, facts, opaque(e), quotient.a, 1 - high, 0)
        return
    x, y = e.a, e.b
    if analyzer.bounds(y)[0] < 0:
        return
    positive = analyzer.bounds(x)[0] >= 0
    if positive:
        _add(analyzer, facts, opaque(e), x, NEG_INF, 0)
    if cls in (FloorMod, Mod) and analyzer.bounds.divides(y):
        _add(analyzer, facts, opaque(e), y, NEG_INF, -1)


def _add(
    analyzer: Analyzer, facts: list[LinearFact], term: Term, x: Expr, low: int, high: int
) -> None:
    """Add the fact that `term - x` lies in [low, high]."""
    gathered = [term]
    base = analyzer.canonical.gather(x, -1, gathered)
    terms = merge_terms(gathered)
    if terms and high - base < POS_INF:
        low = NEG_INF if low <= NEG_INF else low - base
        facts.append(LinearFact(tuple(terms), low, high - base))
