"""Several inequalities together, and divisions by what is no constant."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir import op
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.printer import to_text
from kit.seeds import each_seed

A, B, C, D, I = (Var(name) for name in "abcdi")

CHAINS: list[tuple[list[Expr], Expr, bool]] = [
    ([A < B, B < C], A < C, True),
    ([A < B, B < C], A + 1 < C, True),
    ([A < B, B < C], A + 2 < C, False),
    ([A <= B, C >= B], A <= C, True),
    ([A < B, B <= C, C < D], A + 1 < D, True),
    ([A < B, C < D], A + C < B + D, True),
    ([A * 2 < B, B < C * 2], A * 2 < C * 2, True),
    ([A < B, B < C], A < B + C, False),
    ([A < B], A < C, False),
    ([op.eq(A, B), B < C], A < C, True),
]


@pytest.mark.parametrize(("known", "asked", "proved"), CHAINS, ids=lambda x: str(x))
def test_chains(known: list[Expr], asked: Expr, proved: bool) -> None:
    analyzer = Analyzer()
    entered = [analyzer.enter(condition) for condition in known]
    assert analyzer.can_prove(asked) == proved
    for state in reversed(entered):
        analyzer.leave(state)
    assert not analyzer.can_prove(asked)


DIVISIONS: list[tuple[Expr, str]] = [
    (A // B, "0"),
    (A % B, "a"),
    ((C * B + A) // B, "c"),
    ((C * B + A) % B, "a"),
    ((A + B) % B, "a"),
    (op.truncdiv(A, B), "0"),
    (op.truncmod(A, B), "a"),
    (C // B, "c // b"),
    ((C % B) % B, "c % b"),
    (op.truncmod(op.truncmod(C, 16), 4), "truncmod(c, 4)"),
    (op.truncdiv(C * 8, 4), "c * 2"),
]


@pytest.mark.parametrize(("e", "text"), DIVISIONS, ids=[to_text(e) for e, _ in DIVISIONS])
def test_divisors_that_are_no_constant(e: Expr, text: str) -> None:
    analyzer = Analyzer()
    analyzer.bind(A, Range.of(100))
    analyzer.bind(B, Range.of(100, 1))
    with analyzer.constraint(A < B):
        assert to_text(analyzer.simplify(e)) == text


@each_seed(150)
def test_what_conditions_prove_holds_where_they_do(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng = random.Random(seed)
    variables = [A, B, C]
    domains = {v: range(low := rng.randrange(-3, 3), low + rng.randrange(2, 6)) for v in variables}
    analyzer = Analyzer()
    for v, r in domains.items():
        if rng.random() < 0.5:
            analyzer.bind(v, Range.of(len(r), r.start))
    make = expressions(rng, variables)

    def linear() -> Expr:
        e: Expr = IntImm(rng.randrange(-3, 4))
        for v in rng.sample(variables, rng.randrange(1, 3)):
            e = e + v * rng.choice((1, 1, -1, 2, -2, 3))
        return e

    compare = rng.choice((op.lt, op.le, op.gt, op.ge, op.eq))
    known = [compare(linear(), linear()) for _ in range(rng.randrange(1, 4))]
    asked = op.lt(linear(), linear()) if rng.random() < 0.6 else make.condition(1)
    for condition in known:
        analyzer.enter(condition)
    simple = analyzer.simplify(asked)
    for point in all_points(domains):
        try:
            holds = all(evaluate(condition, point) for condition in known)
            before = evaluate(asked, point)
        except ZeroDivisionError:
            continue
        if holds:
            assert evaluate(simple, point) == before, f"{known}: {asked!r} -> {simple!r} at {point}"
