"""Divisions by what is always 0, as in branches that are never taken, are no error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir import op
from autosched.tir.expr import Expr, IntImm, Range, Var
from kit.seeds import each_seed

DIVISIONS = (op.floordiv, op.floormod, op.truncdiv, op.truncmod)


@pytest.mark.parametrize("divide", DIVISIONS)
def test_a_loop_that_runs_once_as_divisor(divide: Any) -> None:
    i, zero = Var("i"), Var("zero")
    analyzer = Analyzer()
    analyzer.bind(i, Range.of(8))
    analyzer.bind(zero, Range.of(1))
    e = op.if_then_else(op.ne(zero, 0), divide(i, zero), i)
    assert analyzer.simplify(e) is i


@each_seed(200)
def test_expressions_that_divide_by_variables(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng = random.Random(seed)
    domains = {Var(n): range(rng.choice((0, 0, -2, 1)), rng.choice((1, 2, 4))) for n in "ijk"}
    domains = {v: r if len(r) else range(r.start, r.start + 1) for v, r in domains.items()}
    analyzer = Analyzer(as_ansor=rng.random() < 0.3)
    for v, r in domains.items():
        analyzer.bind(v, Range.of(len(r), r.start))
    make = expressions(rng, list(domains))

    def divided(e: Expr) -> Expr:
        by = rng.choice([*domains, make.integer(1)])
        return e if isinstance(by, IntImm) else rng.choice(DIVISIONS)(e, by)

    e = divided(make.integer(2)) + divided(make.integer(2)) * make.constant()
    known = make.condition(2)
    with analyzer.constraint(known):
        simple, bound = analyzer.simplify(e), analyzer.const_int_bound(e)
    for point in all_points(domains):
        try:
            if not evaluate(known, point):
                continue
            value = evaluate(e, point)
        except ZeroDivisionError:
            continue  # nothing is said of what divides by 0
        assert evaluate(simple, point) == value, f"{known!r}: {e!r} -> {simple!r} at {point}"
        assert bound.min_value <= value <= bound.max_value
