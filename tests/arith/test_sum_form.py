"""Sums of terms ((index % upper) // lower) * scale: kept values, bounds that contain them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.arith import Analyzer
from autosched.arith.const_int_bound import BoundEvaluator, truncdiv_int
from autosched.arith.sum_form import (
    NO_UPPER,
    Term,
    emit,
    insert_index,
    insert_term,
    merge_terms,
    opaque,
    sum_bound,
    sum_in_range,
    term_bound,
)
from autosched.tir.dtype import int32
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import const
from autosched.tir.walk import substitute

X, Y = Var("x"), Var("y")
RANGES = {X: (-9, 40), Y: (0, 6)}
BOUNDS = BoundEvaluator(RANGES)


def term_value(term: Term, values: dict[Var, int]) -> int:
    assert isinstance(term.atom, Var)
    found = values[term.atom]
    if term.upper != NO_UPPER:
        rest = found % term.upper
        found = rest - term.upper if term.trunc and found < 0 and rest else rest
    found = truncdiv_int(found, term.lower) if term.trunc else found // term.lower
    return found * term.scale


def expr_value(e: Expr, values: dict[Var, int]) -> int:
    result = substitute(e, {v: const(n) for v, n in values.items()})
    assert isinstance(result, IntImm)
    return result.value


def random_term(rng: np.random.Generator) -> Term:
    lower = int(rng.choice([1, 2, 3, 4, 8]))
    upper = NO_UPPER if rng.random() < 0.4 else lower * int(rng.choice([1, 2, 4, 6]))
    scale = int(rng.choice([-6, -4, -1, 1, 2, 3, 4, 8]))
    plain = lower == 1 and upper == NO_UPPER
    return Term((X, Y)[rng.integers(2)], lower, upper, scale, not plain and rng.random() < 0.3)


def points(rng: np.random.Generator) -> list[dict[Var, int]]:
    corners = [{X: x, Y: y} for x in RANGES[X] for y in RANGES[Y]]
    inside = [
        {v: int(rng.integers(low, high + 1)) for v, (low, high) in RANGES.items()}
        for _ in range(12)
    ]
    return [*corners, {X: -1, Y: 0}, {X: 0, Y: 0}, *inside]


def test_random_sums_keep_their_values_and_stay_in_their_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        given = [random_term(rng) for _ in range(rng.integers(1, 5))]
        base = int(rng.integers(-5, 6))
        terms: list[Term] = []
        for term in given:
            insert_term(terms, term, 1)
        merged = merge_terms(terms)
        low, high = sum_bound(terms, base, BOUNDS, int32)
        for values in points(rng):
            expected = base + sum(term_value(t, values) for t in given)
            assert base + sum(term_value(t, values) for t in terms) == expected
            assert base + sum(term_value(t, values) for t in merged) == expected, merged
            assert expr_value(emit(terms, base, int32), values) == expected
            assert low <= expected <= high
            if sum_in_range(terms, base, 30, BOUNDS, int32):
                assert 0 <= expected < 30


def test_bounds_of_terms_contain_every_value_and_are_reached() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        term = random_term(rng)
        assert isinstance(term.atom, Var)
        first, last = RANGES[term.atom]
        found = [term_value(term, {term.atom: v}) for v in range(first, last + 1)]
        low, high = term_bound(term, BOUNDS)
        assert low <= min(found) and max(found) <= high
        if term.upper == NO_UPPER:
            assert (low, high) == (min(found), max(found))


@pytest.mark.parametrize(
    ("parts", "merged"),
    [
        ([(4, NO_UPPER, 4), (1, 4, 1)], [(1, NO_UPPER, 1)]),  # x//4*4 + x%4 = x
        ([(4, 16, 4), (1, 4, 1)], [(1, 16, 1)]),  # x%16//4*4 + x%4 = x%16
        ([(4, NO_UPPER, 4), (1, 8, 1)], None),  # x//4*4 + x%8 is not x
        ([(4, NO_UPPER, 8), (1, 4, 1)], None),
        ([(4, NO_UPPER, 8), (1, 4, 2)], [(1, NO_UPPER, 2)]),
        ([(2, 8, 3), (2, 8, -3)], []),
    ],
)
def test_what_belongs_together_is_joined(
    parts: Sequence[tuple[int, int, int]], merged: Sequence[tuple[int, int, int]] | None
) -> None:
    terms = [Term(X, lower, upper, scale, False) for lower, upper, scale in parts]
    expected = parts if merged is None else merged
    assert [tuple(t[1:4]) for t in merge_terms(terms)] == [tuple(p) for p in expected]


def test_multiples_of_an_index_are_counted() -> None:
    terms: list[Term] = []
    insert_index(terms, X, 3)
    insert_index(terms, Y, 1)
    insert_index(terms, X, -3)
    insert_index(terms, Y, 4)
    assert [(t.atom, t.scale) for t in terms] == [(X, 0), (Y, 5)]
    assert merge_terms(terms) == [opaque(Y)._replace(scale=5)]


def test_a_fact_about_a_sum_holds_for_its_multiples_alone() -> None:
    """From what is known of x + 2*y follows a bound of 2*x + 4*y, and none of x + 3*y."""
    rng = np.random.default_rng(2)
    used = 0
    for _ in range(60):
        a, b = (int(k) for k in rng.choice([-3, -2, -1, 1, 2, 3], 2))
        limit = int(rng.integers(-10, 30))
        grid = [{X: x, Y: y} for x in range(-9, 41) for y in range(7)]
        holding = [p for p in grid if a * p[X] + b * p[Y] < limit]
        if not holding:
            continue
        analyzer = Analyzer()
        for v, (low, high) in RANGES.items():
            analyzer.bind(v, Range.of(high + 1 - low, low))
        free = analyzer.can_prove(X * (2 * a) + Y * (2 * b) < 2 * limit)
        with analyzer.constraint(X * a + Y * b < limit):
            known = analyzer.can_prove(X * (2 * a) + Y * (2 * b) < 2 * limit)
            used += known and not free
            for c, d in ((a, b), (2 * a, 2 * b), (-a, -b), (a, 2 * b), (a, b + 1), (2 * a, b)):
                found = [c * p[X] + d * p[Y] for p in holding]
                e = X * c + Y * d
                low, high = analyzer.const_int_bound(e)
                assert low <= min(found) and max(found) <= high
                assert not analyzer.can_prove(e < max(found)), (a, b, limit, c, d)
                assert not analyzer.can_prove(e > min(found)), (a, b, limit, c, d)
    assert used > 20
