"""No term of a canonical form has a constant for its index: products and quotients rely on it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.arith import Analyzer
from autosched.driver import lower_steps
from autosched.errors import ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.op import add, floordiv, floormod, max_, min_, mul, sub, truncdiv, truncmod
from autosched.tir.printer import to_text
from kit.seeds import each_seed

X, Y = Var("x"), Var("y")
DIVISIONS = (floordiv, floormod, truncdiv, truncmod)


def cancelling(divisor: int, constant: int) -> Expr:
    """x // 4 * 4 + x % 4 - x + constant: a constant, as is known once its terms are merged."""
    digits = add(mul(floordiv(X, divisor), divisor), floormod(X, divisor))
    return add(sub(digits, X), constant)


def require_indices(analyzer: Analyzer) -> None:
    """That all sums which the analyzer knows keep to `Term`."""
    for e, form in analyzer.normalized.forms.items():
        for term in form.terms:
            assert not isinstance(term.atom, IntImm), f"{to_text(e)}: {form}"


def analyzers() -> list[Analyzer]:
    """As code is made and as features are extracted; x and y are known to be small."""
    found = [Analyzer(), Analyzer(as_ansor=True)]
    for analyzer in found:
        analyzer.bind(X, Range.of(20, -5))
        analyzer.bind(Y, Range.of(7, 0))
    return found


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("constant", [-9, -1, 0, 1, 7, 23])
def test_what_cancels_is_divided_as_a_constant(
    evaluate: Any, division: Callable[[Any, Any], Expr], constant: int
) -> None:
    for divisor in (2, 3, 5):
        e = mul(division(cancelling(4, constant), divisor), add(Y, 1))
        for analyzer in analyzers():
            simple = analyzer.canonical_simplify(e)
            require_indices(analyzer)
            for x in (-5, 0, 3, 14):
                for y in (0, 6):
                    assert evaluate(simple, {X: x, Y: y}) == evaluate(e, {X: x, Y: y})


def random_expression(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice((X, Y, cancelling(rng.choice((2, 4)), rng.randrange(-3, 9))))
    a = random_expression(rng, depth - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(DIVISIONS)(a, rng.choice((1, 2, 3, 4, 5, 8)))
    b = random_expression(rng, rng.randrange(depth))
    return rng.choice((add, sub, mul, min_, max_) if kind == 1 else (add, sub, mul))(a, b)


@each_seed(150)
def test_of_random_sums_products_and_divisions(evaluate: Any, seed: int) -> None:
    rng = random.Random(seed)
    e = random_expression(rng, 4)
    for analyzer in analyzers():
        simple = analyzer.canonical_simplify(e)
        require_indices(analyzer)
        for point in ({X: -5, Y: 6}, {X: 0, Y: 0}, {X: 14, Y: 1}):
            assert evaluate(simple, point) == evaluate(e, point), f"{e!r} -> {simple!r}"


def test_candidates_that_read_at_minima_of_indices_are_lowered() -> None:
    """An IndexError of the canonical simplifier was met with candidates of this computation."""
    task = Task.from_expression(
        "T[i, j] = exp(A[i // 5])\nD[i] = min(k, T[min(i, 23), min(k, 16)] * Z[k])",
        {"A": (6,), "Z": (40,), "T": (30, 17), "D": (30,)},
    )
    legal = 0
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 12):
        with contextlib.suppress(ScheduleError):  # others are bugs
            lower_steps(task.dag, steps, task.target)
            for features in ("ansor-0.19", "autosched-1"):
                features_of_steps(task.dag, steps, task.target, features)
            legal += 1
    assert legal
