"""Quotients and remainders beside what is divided: x % n < n, x // 4 * 4 <= x."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir import op
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import floordiv, floormod, max_, truncdiv, truncmod
from autosched.tir.printer import to_text
from kit.seeds import each_seed

I, J, N, X = (Var(name) for name in "ijnx")

PROVED: list[Expr] = [
    floormod(I, N) < N,
    floormod(8, N) < N,
    floormod(I, N) <= I,
    floordiv(I, N) <= I,
    truncmod(I, N) < N,
    truncmod(I, 4) <= I,
    truncdiv(I, 4) <= I,
    floordiv(I, 4) <= I,
    floormod(I, 4) <= I,
    floordiv(I, N) * N <= I,
    truncdiv(I, N) * N <= I,
    I - floordiv(I, N) * N < 8,
    floordiv(J, 2) < N,
    floordiv(J * 2, 4) < N,
    floormod(X, N) < N,
    floordiv(X, 4) * 4 <= X,
    floordiv(floordiv(I, N), 2) <= I,
    floormod(floormod(I, N), 3) < N,
    op.eq(truncmod(I + N, N), truncmod(I, N)),
    op.eq(truncdiv(I + N, N), truncdiv(I, N) + 1),
]
NOT_PROVED: list[Expr] = [
    floormod(X, N) <= X,
    floordiv(X, N) <= X,
    truncdiv(X, 4) * 4 <= X,
    truncdiv(X, N) * N <= X,
    floordiv(I, N) < I,
    floormod(I, N) < N - 1,
    floormod(N, I) < I - 1,
    floormod(I, X) < X,
]


def knowing() -> Analyzer:
    """i in [0, 20), n in [1, 8], j in [0, n), nothing of x."""
    analyzer = Analyzer()
    analyzer.bind(I, Range.of(20))
    analyzer.bind(N, Range.of(8, 1))
    analyzer.bind(J, Range.of(8))
    analyzer.enter(J < N)
    return analyzer


@pytest.mark.parametrize("condition", PROVED, ids=to_text)
def test_proved(condition: Expr) -> None:
    assert knowing().can_prove(condition)


@pytest.mark.parametrize("condition", NOT_PROVED, ids=to_text)
def test_not_proved(condition: Expr) -> None:
    assert not knowing().can_prove(condition)


def test_ansor_proves_none_of_them() -> None:
    analyzer = Analyzer(as_ansor=True)
    analyzer.bind(I, Range.of(20))
    assert not analyzer.can_prove(floordiv(I, 4) <= I)


def divided(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice([I, J, N, X, IntImm(rng.choice((1, 2, 3, 8)))])
    e = divided(rng, depth - 1)
    kind = rng.randrange(7)
    if kind < 4:
        by = rng.choice([N, IntImm(2), IntImm(3), IntImm(4), J])
        return (floordiv, floormod, truncdiv, truncmod)[kind](e, by)
    if kind == 4:
        return e * rng.choice([N, IntImm(2), IntImm(-3)])
    other = divided(rng, depth - 1)
    return e + other if kind == 5 else max_(e - other, 0)


@each_seed(400)
def test_what_is_decided_is_so(evaluate: Any, seed: int) -> None:
    rng = random.Random(seed)
    analyzer = knowing()
    compare = rng.choice((op.lt, op.le, op.eq))
    condition = compare(divided(rng, rng.randrange(1, 4)), divided(rng, rng.randrange(3)))
    found = analyzer.simplify(condition)
    if not isinstance(found, IntImm):
        return
    for _ in range(200):
        n = rng.randrange(1, 9)
        point = {I: rng.randrange(20), N: n, J: rng.randrange(n), X: rng.randrange(-9, 10)}
        try:
            value = evaluate(condition, point)
        except ZeroDivisionError:
            continue
        assert value == found.value, f"{condition!r} at {point}"
