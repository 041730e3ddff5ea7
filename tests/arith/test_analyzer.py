from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from autosched.arith import Analyzer, ConstIntBound
from autosched.tir.expr import Expr, FloatImm, IntImm, Range, SizeVar, Var
from autosched.tir.op import (
    add,
    and_,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    if_then_else,
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
)
from kit.seeds import each_seed


def random_case(seed: int) -> tuple[random.Random, dict[Var, range], Analyzer]:
    """Three variables with small domains, which the analyzer knows in two cases of three.

    Every second analyzer stops where Ansor's does.
    """
    rng = random.Random(seed)
    domains: dict[Var, range] = {}
    for name in "ijk":
        low = rng.choice((0, 0, 0, 0, 1, -3))
        domains[Var(name)] = range(low, low + rng.choice((1, 2, 3, 4, 5, 8)))
    analyzer = Analyzer(as_ansor=seed % 2 == 1)
    if rng.random() < 0.7:
        bind_all(analyzer, domains)
    return rng, domains, analyzer


def bind_all(analyzer: Analyzer, domains: dict[Var, range]) -> None:
    for var, values in domains.items():
        analyzer.bind(var, Range.of(len(values), values.start))


def some_points(rng: random.Random, found: list[dict[Var, int]]) -> list[dict[Var, int]]:
    return found if len(found) <= 24 else rng.sample(found, 24)


@each_seed(250)
def test_simplified_expressions_keep_their_values(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng, domains, analyzer = random_case(seed)
    make = expressions(rng, list(domains))
    points = some_points(rng, list(all_points(domains)))
    for _ in range(8):
        depth = rng.randrange(1, 5)
        e = make.integer(depth) if rng.random() < 0.6 else make.condition(depth)
        simple = analyzer.simplify(e)
        rewritten = analyzer.rewrite_simplify(e)
        canonical = analyzer.canonical_simplify(e)
        low, high = analyzer.const_int_bound(e)
        coeff, base = analyzer.modular_set(e)
        for point in points:
            value = evaluate(e, point)
            assert evaluate(simple, point) == value, f"{e!r} -> {simple!r} at {point}"
            assert evaluate(rewritten, point) == value, f"{e!r} -> {rewritten!r} at {point}"
            assert evaluate(canonical, point) == value, f"{e!r} -> {canonical!r} at {point}"
            assert low <= value <= high, f"{e!r} is {value}, not in [{low}, {high}]"
            assert value == base if coeff == 0 else value % coeff == base, f"{e!r} is {value}"


@each_seed(150)
def test_simplification_is_idempotent(expressions: Any, seed: int) -> None:
    rng, domains, _ = random_case(seed)
    analyzer = Analyzer()
    bind_all(analyzer, domains)
    make = expressions(rng, list(domains))
    for _ in range(6):
        e = make.integer(3) if rng.random() < 0.6 else make.condition(3)
        simple = analyzer.simplify(e)
        other = Analyzer()
        bind_all(other, domains)
        assert other.simplify(simple) is simple, f"{e!r}"


@pytest.mark.parametrize("others", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_sums_of_extremes_keep_their_order(count: int, others: int) -> None:
    """What is not sorted was turned round by each simplification."""
    i, j, k = Var("i"), Var("j"), Var("k")
    extremes = [min_(i, j + 2), max_(j, k), min_(k * 3, i), max_(i, k * 5), min_(j, i * 7)]
    terms = [*[i * 8, floordiv(j, 2)][:others], *extremes[:count]]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    assert Analyzer().simplify(total) is total
    behind = Analyzer().simplify(total + k)
    assert Analyzer().simplify(behind) is behind


@each_seed(150)
def test_under_a_constraint_values_are_kept_where_it_holds(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng, domains, analyzer = random_case(seed)
    make = expressions(rng, list(domains))
    points = some_points(rng, list(all_points(domains)))
    outer, inner = make.condition(2), make.condition(1)
    for _ in range(2):  # the second time enters what was left
        e = make.integer(3)
        check_values(evaluate, analyzer, e, points)
        with analyzer.constraint(outer):
            holding = [p for p in points if evaluate(outer, p)]
            check_values(evaluate, analyzer, e, holding)
            with analyzer.constraint(inner):
                check_values(evaluate, analyzer, e, [p for p in holding if evaluate(inner, p)])
            check_values(evaluate, analyzer, make.condition(2), holding)
        check_values(evaluate, analyzer, e, points)


def check_values(evaluate: Any, analyzer: Analyzer, e: Expr, points: list[dict[Var, int]]) -> None:
    simple = analyzer.simplify(e)
    low, high = analyzer.const_int_bound(e)
    for point in points:
        value = evaluate(e, point)
        assert evaluate(simple, point) == value, f"{e!r} -> {simple!r} at {point}"
        assert low <= value <= high


@each_seed(60)
def test_binding_anew_voids_what_was_computed(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng, domains, analyzer = random_case(seed)
    make = expressions(rng, list(domains))
    e, condition = make.integer(3), make.condition(1)
    for step in range(4):
        var = rng.choice(list(domains))
        low = rng.randrange(-3, 4)
        domains[var] = range(low, low + rng.randrange(1, 6))
        if step % 2:
            with analyzer.constraint(condition):
                analyzer.simplify(e)
                bind_new(analyzer, var, domains[var])
        else:
            bind_new(analyzer, var, domains[var])
        points = some_points(rng, list(all_points(domains)))
        check_values(evaluate, analyzer, e, points)
        with analyzer.constraint(condition):
            check_values(evaluate, analyzer, e, [p for p in points if evaluate(condition, p)])


def bind_new(analyzer: Analyzer, var: Var, values: range) -> None:
    analyzer.bind(var, Range.of(len(values), values.start), override=True)


@pytest.fixture
def known() -> tuple[Analyzer, Var, Var, Var]:
    analyzer = Analyzer()
    i, j, k = Var("i"), Var("j"), Var("k")
    analyzer.bind(i, Range.of(8))
    analyzer.bind(j, Range.of(16))
    return analyzer, i, j, k


def test_proofs(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, i, j, k = known
    assert analyzer.can_prove(i * 16 + j < 128)
    assert analyzer.can_prove(eq(floordiv(i * 16 + j, 16), i))
    assert analyzer.can_prove(eq(floormod(k * 4 + 8, 4), 0))
    assert analyzer.can_prove(ne(k * 2, j * 4 + 1))
    assert analyzer.can_prove(min_(i, j) <= i)
    assert analyzer.can_prove(max_(i, k) >= k)
    assert analyzer.can_prove(k - 1 < k)
    assert not analyzer.can_prove(i < j)
    assert not analyzer.can_prove(i * 16 + j < 127)
    assert analyzer.can_prove_equal(i * 2 + i, i * 3)
    assert not analyzer.can_prove_equal(i, j)
    assert analyzer.can_prove_less(i * 2 - 1, 14)
    assert not analyzer.can_prove_less(i * 2, 14)
    assert analyzer.can_prove_greater_equal(i - j, -15)
    assert not analyzer.can_prove_greater_equal(k, 0)
    assert analyzer.can_prove_greater_equal(const(3), 3)


def test_a_range_of_one_value_is_that_value() -> None:
    analyzer = Analyzer()
    i, n = Var("i"), Var("n")
    analyzer.bind(i, Range(n + 2, const(1)))
    assert analyzer.simplify(i * 2) is n * 2 + 4
    assert analyzer.simplify(i) is n + 2


def test_a_bound_value_is_substituted() -> None:
    analyzer = Analyzer()
    i, n = Var("i"), Var("n")
    analyzer.bind(i, const(3))
    assert analyzer.simplify(i * n + i) is n * 3 + 3
    assert analyzer.const_int_bound(i) == ConstIntBound(3, 3)


def test_binding_twice_is_refused_unless_it_overrides() -> None:
    analyzer = Analyzer()
    i = Var("i")
    analyzer.bind(i, Range.of(8))
    analyzer.bind(i, Range.of(8))
    with pytest.raises(ValueError, match="i is bound"):
        analyzer.bind(i, Range.of(9))
    analyzer.bind(i, Range.of(9), override=True)
    assert analyzer.const_int_bound(i) == ConstIntBound(0, 8)
    analyzer.bind(i, const(2), override=True)
    with pytest.raises(ValueError, match="i is bound"):
        analyzer.bind(i, const(3))


def test_constraints_bound_and_decide(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, i, j, k = known
    m = Var("m")
    analyzer.bind(m, Range.of(3))
    with analyzer.constraint(likely(and_(k < 4, ge(k, 1)))):
        assert analyzer.const_int_bound(k) == ConstIntBound(1, 3)
        assert analyzer.can_prove(k < 4)
        assert analyzer.can_prove(not_(k >= 4))
        assert analyzer.simplify(likely(k < 4)) is const(True)
    assert not analyzer.can_prove(k < 4)
    with analyzer.constraint(not_(lt(k, 5))):
        assert analyzer.can_prove(k > 4)
    with analyzer.constraint(eq(floormod(k, 4), 1)):
        assert analyzer.simplify(floormod(k, 2)) is const(1)
    with analyzer.constraint(i * 4 + j < 10):
        assert analyzer.can_prove(k * 0 + i * 4 + j + 2 < 12)
        assert analyzer.can_prove(i * 8 + j * 2 < 19)
        assert analyzer.can_prove(m + i * 4 + j < 12)
    with analyzer.constraint(i < j):
        assert analyzer.can_prove(j > i)
        assert analyzer.can_prove(i <= j)
        assert analyzer.can_prove(ne(i, j))
        assert not analyzer.can_prove(i + 1 < j)


def test_branches_know_their_condition(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, i, _, k = known
    e = if_then_else(k < 4, min_(k, 10), max_(k, 2) + 1)
    assert analyzer.simplify(e) is if_then_else(k < 4, k, k + 1)
    e = if_then_else(k < 4, min_(k, 10), max_(k, 2))
    assert analyzer.simplify(e) is k
    e = select(i < 4, floordiv(i, 4), floormod(i, 4) + 4)
    assert analyzer.simplify(e) is select(i < 4, const(0), floormod(i, 4) + 4)


def test_nested_conditions_with_one_constant_merge(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, _, _, k = known
    zero, x = FloatImm(0.0), Var("x", "float32")
    e = if_then_else(k < 10, if_then_else(ge(k, 2), x, zero), zero)
    assert analyzer.simplify(e) is if_then_else(and_(k < 10, le(2, k)), x, zero)


def test_scope_undoes_bindings(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, _, _, k = known
    with analyzer.scope():
        analyzer.bind(k, Range.of(4))
        assert analyzer.can_prove(k < 4)
    assert not analyzer.can_prove(k < 4)


def test_sizes_are_not_negative() -> None:
    n = SizeVar("n")
    assert Analyzer().can_prove(n >= 0)
    analyzer = Analyzer()
    m = Var("m")
    analyzer.mark_non_negative(m)
    assert analyzer.can_prove(m + n >= 0)


def test_floats_only_fold() -> None:
    analyzer = Analyzer()
    x, y = Var("x", "float32"), Var("y", "float32")
    assert analyzer.simplify(x / 4.0) is x * const(0.25, "float32")
    assert analyzer.simplify(sub(x, x)) is sub(x, x)  # NaN for infinity and NaN
    assert analyzer.simplify(sub(add(x, y), y)) is sub(add(x, y), y)  # what rounding took away
    assert analyzer.simplify(mul(x, 0.0)) is mul(x, 0.0)
    n = cast("float32", Var("n"))
    assert analyzer.simplify(sub(n, n)) is const(0.0, "float32")
    assert analyzer.simplify(mul(2.0, x)) is mul(2.0, x)
    assert analyzer.simplify(not_(x < y)) is not_(x < y)  # with NaN not y <= x
    assert analyzer.simplify(or_(x < y, x >= y)) is or_(x < y, y <= x)


def test_casts_of_indices(known: tuple[Analyzer, Var, Var, Var]) -> None:
    analyzer, i, j, k = known
    wide = cast("int64", i * 16 + j)
    assert analyzer.simplify(wide) is cast("int64", i) * const(16, "int64") + cast("int64", j)
    back = cast("int32", cast("int64", i * 16 + j) + const(1, "int64"))
    assert analyzer.can_prove(eq(back, i * 16 + j + 1))
    assert isinstance(analyzer.simplify(cast("int64", k - k)), IntImm)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [-14, -1, 0, 3, 14, 15, 126, 127, 1022, 1023])
@pytest.mark.parametrize("factor", [1.0, -1.0, 3.0])
def test_a_division_becomes_a_product_where_that_is_the_same(
    dtype: str, exponent: int, factor: float
) -> None:
    """Only inverses of powers of two are exact, and those that are denormal may be flushed."""
    limits = np.finfo(dtype)
    divisor = factor * 2.0**exponent
    if not abs(divisor) <= float(limits.max):
        return
    x = Var("x", dtype)
    quotient = x / const(divisor, dtype)
    exact = factor != 3.0 and 1 / abs(divisor) >= limits.smallest_normal
    product = x * const(1 / divisor, dtype)
    assert Analyzer().simplify(quotient) is (product if exact else quotient)
    assert Analyzer(as_ansor=True).simplify(quotient) is product


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats_that_are_only_stored_divide(dtype: str) -> None:
    """1 / 400 is 25% off in float8_e4m3fn, and integers beyond its range are NaN there."""
    x = Var("x", dtype)
    quotient = x / const(384.0, dtype)
    assert Analyzer().simplify(quotient) is quotient
    n = cast(dtype, Var("n"))
    assert (Analyzer().simplify(sub(n, n)) is const(0.0, dtype)) == (dtype == "bfloat16")
