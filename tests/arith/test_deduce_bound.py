"""Solving conditions for a variable, against all values of small domains."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer, IntSet, deduce_bound
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, SizeVar, Var
from autosched.tir.op import (
    add,
    and_,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    le,
    likely,
    lt,
    max_,
    min_,
    mul,
    ne,
    not_,
    or_,
    select,
    sub,
    truncdiv,
)
from autosched.tir.walk import free_vars
from kit.seeds import each_seed

I, J, N, M = Var("i"), Var("j"), Var("n"), SizeVar("m")
L = Var("l", "int64")
DATA = decl_buffer((8,), "int32", "data")


def between(low: int, high: int) -> IntSet:
    return IntSet.interval(const(low), const(high))


SOLVED: list[tuple[Expr, dict[Var, IntSet], str]] = [
    (I * 4 + J < N, {J: between(0, 3)}, "IntSet[-inf, n // 4 - 1]"),
    (I * 4 < N, {}, "IntSet[-inf, (n - 1) // 4]"),
    (lt(3 - I * 2, N), {}, "IntSet[(5 - n) // 2, +inf]"),
    (and_(I >= 2, I < N), {}, "IntSet[2, n - 1]"),
    (likely(eq(I + 1, N)), {}, "IntSet[n - 1, n - 1]"),
    (not_(I < 3), {}, "IntSet[3, +inf]"),
    (floordiv(I, 4) <= 2, {}, "IntSet[-inf, 11]"),
    (floordiv(I, -4) <= -2, {}, "IntSet[5, +inf]"),
    (floordiv(I + J, -4) >= -2, {J: between(0, 3)}, "IntSet[-inf, 5]"),
    (min_(I, 7) <= 7, {}, "IntSet[-inf, +inf]"),
    (ge(max_(I, 5), 9), {}, "IntSet[9, +inf]"),
    (le(max_(I, J), 9), {J: between(0, 9)}, "IntSet[-inf, 9]"),
    (I * (M + 1) < M + 1, {}, "IntSet[-inf, 0]"),
    (floormod(I, 8) < 8, {}, "IntSet[-inf, +inf]"),
    (lt(cast("int64", I) * 2, 10), {}, "IntSet[-inf, 4]"),
    (or_(I < 3, J > 9), {J: between(0, 9)}, "IntSet[-inf, 2]"),
    (I - I < 1, {}, "IntSet[-inf, +inf]"),
    (eq(floordiv(2 - I, 2) * -2, -4), {}, "IntSet[-3, -2]"),
]


@pytest.mark.parametrize(("condition", "relax", "text"), SOLVED, ids=lambda x: repr(x))
def test_solutions(condition: Expr, relax: dict[Var, IntSet], text: str) -> None:
    assert repr(deduce_bound(I, condition, None, relax)) == text


UNSOLVED: list[Expr] = [
    ne(I, 3),
    floormod(I, 8) < 4,
    I * J < 8,
    I * I < 9,
    floordiv(8, I) < 2,
    J < 3,
    DATA[I] < 3,
    I + DATA[0] < 3,
    I < J,
    or_(I * I < 4, ne(I, 2)),
    I * 2 + 1 < I * 2,
]


@pytest.mark.parametrize("condition", UNSOLVED, ids=lambda x: repr(x))
def test_what_is_not_solved_is_nothing(condition: Expr) -> None:
    unbounded = {J: IntSet.everything()}
    assert deduce_bound(I, condition, None, unbounded).is_nothing


def test_hints_decide_signs_and_what_always_holds() -> None:
    assert deduce_bound(I, I * J < 8).is_nothing
    assert repr(deduce_bound(I, I * J < 8, {J: between(1, 4)})) == "IntSet[-inf, 7 // j]"
    assert repr(deduce_bound(I, I * J < 8, {J: between(-4, -1)})) == (
        "IntSet[(0 - j - 8) // (0 - j), +inf]"
    )
    assert deduce_bound(I, floormod(I, 8) < 4, {I: between(0, 3)}).is_everything
    assert deduce_bound(I, I < 0, {I: between(0, 3)}).is_nothing


def test_limits_that_do_not_fit_in_the_type() -> None:
    assert deduce_bound(L, floordiv(L, 4) < 2**62).is_nothing
    assert deduce_bound(I, lt(cast("int64", I), L)).is_nothing


def inside(evaluate: Any, values: IntSet, value: int, point: dict[Var, int]) -> bool:
    if values.is_nothing:
        return False
    if values.has_lower_bound and value < evaluate(values.min_value, point):
        return False
    return not values.has_upper_bound or value <= evaluate(values.max_value, point)


@each_seed(400)
def test_every_value_found_makes_the_condition_hold(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng = random.Random(seed)
    outer, inner = Var("o"), Var("r")
    domains = {
        v: range(low := rng.choice((0, 0, -3, 1)), low + rng.randrange(1, 6))
        for v in (I, outer, inner)
    }
    domains[I] = range(-9, 10)
    make = expressions(rng, [I, outer, inner])
    condition = make.condition(2)
    relax = {inner: between(domains[inner][0], domains[inner][-1])}
    hint = {outer: between(domains[outer][0], domains[outer][-1])} if rng.random() < 0.7 else {}
    values = deduce_bound(I, condition, hint, relax)
    for point in all_points(domains):
        try:
            if inside(evaluate, values, point[I], point):
                assert evaluate(condition, point), f"{condition!r} at {point}: {values!r}"
        except ZeroDivisionError:
            continue


def once(rng: random.Random, depth: int) -> Expr:
    """An expression in which the variable stands once."""
    e: Expr = I
    for _ in range(depth):
        c = const(rng.choice((1, 2, 3, 4, 5)))
        make = rng.randrange(6)
        if make == 0:
            e = add(e, mul(N, rng.choice((1, 2, -1, 3))))
        elif make == 1:
            e = sub(c, e)
        elif make == 2:
            e = mul(e, rng.choice((2, 3, 4, -1, -2)))
        elif make == 3:
            e = floordiv(e, c)
        elif make == 4:
            e = rng.choice((min_, max_))(e, mul(c, rng.choice((1, -1))))
        else:
            e = sub(e, c)
    return e


@each_seed(400)
def test_no_value_is_missed_where_the_variable_stands_once(
    evaluate: Any, all_points: Any, seed: int
) -> None:
    """All values of a point of the other variables are found, and no others."""
    rng = random.Random(seed)
    compare = rng.choice((lt, le, gt, ge, eq))
    condition = compare(once(rng, rng.randrange(1, 5)), const(rng.randrange(-6, 7)))
    values = deduce_bound(I, condition)
    for point in all_points({I: range(-25, 26), N: range(-2, 3)}):
        holds = bool(evaluate(condition, point))
        found = inside(evaluate, values, point[I], point)
        assert found == holds or (not found and _split(condition)), (
            f"{condition!r} at {point}: {values!r}"
        )


def _split(condition: Expr) -> bool:
    """A min or max of which `n` decides which operand it is: then only one of them is solved."""
    text = repr(condition)
    return N in free_vars(condition) and ("min" in text or "max" in text)


def test_relaxing_several_variables_and_symbolic_sets() -> None:
    k = Var("k")
    relax = {J: IntSet.interval(const(0), M - 1), k: IntSet.interval(J, J + 2)}
    found = deduce_bound(I, I + J + k < N, None, relax)
    assert not found.has_lower_bound
    assert Analyzer().can_prove_equal(found.max_value, N - M * 2 - 1)
    assert deduce_bound(I, select(J < 1, I, I + 2) < 5).max_value is const(2)
    assert repr(deduce_bound(I, truncdiv(I, 4) < 2, {I: between(0, 99)})) == "IntSet[-inf, 7]"
