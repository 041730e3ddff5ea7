"""Bounds of sums by combining several inequalities: i < j and j < n imply i < n - 1."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from autosched.arith.const_int_bound import NEG_INF, POS_INF, Bound, BoundEvaluator, clip
from autosched.arith.sum_form import LinearFact, Term, term_bound
from autosched.tir.expr import Expr

_DEPTH = 3
"""The largest number of inequalities that are combined."""

Key = tuple[Expr, int, int, bool]
Scales = dict[Key, int]


def transitive_bound(
    terms: list[Term], base: int, bounds: BoundEvaluator, derived: Sequence[LinearFact]
) -> Bound:
    """The interval of the sum, combining up to three facts: those of `bounds`, and `derived`."""
    target = _scales(terms)
    facts = [(_scales(f.terms), f) for f in (*bounds.linear, *derived)]
    high = _upper(target, facts, _DEPTH, bounds)
    low = _upper({k: -s for k, s in target.items()}, facts, _DEPTH, bounds)
    return (
        NEG_INF if low >= POS_INF else clip(base - low),
        POS_INF if high >= POS_INF else clip(base + high),
    )


def _scales(terms: list[Term] | tuple[Term, ...]) -> Scales:
    return {(t.atom, t.lower, t.upper, t.trunc): t.scale for t in terms}


def _upper(
    target: Scales, facts: list[tuple[Scales, LinearFact]], depth: int, bounds: BoundEvaluator
) -> int:
    """An upper bound of the sum: from the bounds of its terms, after adding multiples of facts.

    A fact is used to eliminate one of the terms, if that does not make the sum longer.
    """
    best = _plain(target, bounds)
    if depth == 0 or not target:
        return best
    for position, (scales, fact) in enumerate(facts):
        for key in scales.keys() & target.keys():
            # Scale the sum by `times`, so that a multiple of the fact eliminates the term.
            times = abs(scales[key]) // gcd(scales[key], target[key])
            factor = times * target[key] // scales[key]
            limit = fact.high if factor > 0 else fact.low
            if abs(limit) >= POS_INF:
                continue
            left = {k: times * s for k, s in target.items()}
            for other, scale in scales.items():
                left[other] = left.get(other, 0) - factor * scale
                if not left[other]:
                    del left[other]
            if len(left) <= len(target):
                others = facts[:position] + facts[position + 1 :]
                found = _upper(left, others, depth - 1, bounds)
                if found < POS_INF:
                    best = min(best, (factor * limit + found) // times)
    return best


def _plain(target: Scales, bounds: BoundEvaluator) -> int:
    total = 0
    for (atom, lower, upper, trunc), scale in target.items():
        high = term_bound(Term(atom, lower, upper, scale, trunc), bounds)[1]
        if high >= POS_INF:
            return POS_INF
        total += high
    return total
