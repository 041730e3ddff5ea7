from __future__ import annotations

import random
from typing import Any

from autosched.arith import Analyzer, IntSet, eval_set, intersect_set, intset, union_set
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import BufferLoad, Expr, IntImm, Range, SizeVar, Var
from autosched.tir.op import (
    add,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    max_,
    min_,
    mul,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.tir.walk import substitute
from kit.seeds import each_seed
from kit.tir import value_of

I, J, K, N = Var("i"), Var("j"), Var("k"), Var("n")
DOM = {I: IntSet.interval(const(0), const(7)), J: IntSet.interval(const(2), const(5))}


def ends(e: Expr, dom: dict[Var, IntSet] = DOM) -> tuple[Any, Any]:
    """The ends of the evaluated set; ints where constant, None where unbounded."""
    values = eval_set(e, dom)
    low: Any = values.min_value if values.has_lower_bound else None
    high: Any = values.max_value if values.has_upper_bound else None
    return (
        low.value if isinstance(low, IntImm) else low,
        high.value if isinstance(high, IntImm) else high,
    )


def test_constants_and_variables() -> None:
    assert ends(const(4)) == (4, 4)
    assert ends(I) == (0, 7)
    assert eval_set(K, DOM).is_single_point
    assert eval_set(K * 2 + 1, DOM).min_value is K * 2 + 1


def test_sums_and_products() -> None:
    assert ends(I + J) == (2, 12)
    assert ends(I - J) == (-5, 5)
    assert ends(I * 4 + 1) == (1, 29)
    assert ends(I * -2) == (-14, 0)
    assert ends(I * J) == (None, None)
    assert ends(I + K) == (add(0, K), add(7, K))
    assert ends(I * 0 + J) == (2, 5)


def test_types_that_wrap() -> None:
    """Between the ends of an int8 range lie other values than its own where it does not fit."""
    byte, wide = DType("int8"), DType("int64")
    assert ends(cast(byte, I)) == (0, 7) == ends(cast(wide, cast(byte, I)))
    assert ends(cast(byte, I * 20)) == (None, None) == ends(cast("uint8", I - 1))
    assert ends(cast(int32, cast(byte, K) * 1)) == (cast(int32, cast(byte, K)),) * 2
    assert ends(cast(byte, I) + const(125, byte)) == (None, None)
    assert ends(cast(byte, I) - const(-125, byte)) == (None, None)
    assert ends(cast(byte, I) * const(20, byte)) == (None, None)
    assert ends(max_(cast(byte, I), const(3, byte))) == (3, 7)
    long = Var("long", wide)
    assert ends(cast(int32, cast(wide, I) + long)) == (
        cast(int32, const(0, wide) + long),
        cast(int32, const(7, wide) + long),
    )


def test_a_factor_of_unknown_sign_is_selected_on() -> None:
    low, high = ends(I * N)
    positive = N >= 0
    assert low is select(positive, const(0), mul(7, N))
    assert high is select(positive, mul(7, N), const(0))


def test_divisions() -> None:
    assert ends(floordiv(I + 3, 4)) == (0, 2)
    assert ends(floordiv(I, -2)) == (-4, 0)
    assert ends(truncdiv(I, 2)) == (0, 3)
    assert ends(floormod(J, 8)) == (2, 5)
    assert ends(floormod(I, 4)) == (0, 3)
    assert all(isinstance(end, Expr) for end in ends(floormod(I, N)))
    assert ends(truncmod(I, 4)) == (0, 3)
    assert ends(truncmod(I - 3, 4)) == (-3, 3) == ends(truncmod(I - 3, -4))
    assert ends(truncmod(I, -4)) == (0, 3)
    assert ends(floordiv(I, J)) == (None, None)


def test_remainders_by_what_may_be_zero() -> None:
    """They are 0 then; sizes alone are taken not to be 0."""
    rests = truncmod(I - 3, max_(N, 0)), truncmod(I - 3, N), floormod(I, max_(N, 0))
    for e in (floormod(I, N), *rests):
        values = eval_set(e, DOM)
        for n in (const(0), const(3)):
            found = [substitute(x, {N: n}) for x in (values.min_value, values.max_value)]
            low, high = map(value_of, found)
            assert low <= 0 <= high, (e, n)
    size = SizeVar("size")
    assert ends(floormod(I, size)) == (0, size - 1)
    nothing = {J: IntSet.single_point(const(0))}
    assert all(ends(divide(K, J), nothing) == (0, 0) for divide in (floordiv, floormod, truncmod))


def test_a_remainder_within_one_row_is_shifted() -> None:
    analyzer = Analyzer()
    rows = {I: IntSet.interval(K * 8 + 2, K * 8 + 5)}
    values = eval_set(floormod(I, 8), rows, analyzer)
    assert analyzer.simplify(values.min_value) is const(2)
    assert analyzer.simplify(values.max_value) is const(5)


def test_the_other_operators() -> None:
    assert ends(min_(I, J)) == (0, 5)
    assert ends(max_(I, J)) == (2, 7)
    assert ends(select(K < 3, I, J)) == (0, 7)
    assert ends(I < J) == (0, 1)
    assert eval_set(K < N, DOM).is_single_point
    assert ends((I + 1).astype("int64")) == (1, 8)
    load = BufferLoad(decl_buffer((8,), "int32", "A"), (K,))
    assert ends(load) == (load, load)
    assert ends(BufferLoad(decl_buffer((8,), "int32", "A"), (I,))) == (None, None)
    assert ends(eq(I, 3)) == (0, 1)


def test_sets_that_mention_each_other_are_relaxed_in_turn() -> None:
    dom = {I: IntSet.interval(J * 2, J * 2 + 1), J: IntSet.interval(const(0), const(3))}
    assert ends(I, dom) == (0, 7)
    cycle = {I: IntSet.interval(J, J + 1), J: IntSet.interval(I, I + 1)}
    assert eval_set(I, cycle).has_lower_bound


def test_unbounded_ends() -> None:
    half = {I: IntSet.interval(const(3), intset.POS_INF_EXPR)}
    assert ends(I + 1, half) == (4, None)
    assert ends(0 - I, half) == (None, -3)
    assert ends(min_(I, 10), half) == (3, 10)
    assert ends(max_(I, 10), half) == (10, None)
    assert ends(I * 2, half) == (6, None)


def test_predicates_and_ranges() -> None:
    assert IntSet.everything().is_everything
    assert IntSet.nothing().is_nothing
    assert not IntSet.nothing().has_upper_bound
    assert IntSet.from_range(Range.of(1, 5)).is_single_point
    assert IntSet.from_range(Range(N, N)).max_value is sub(add(N, N), 1)
    default = Range.of(10)
    assert IntSet.everything().cover_range(default) is default
    covered = IntSet.interval(N * 2, N * 2 + 4).cover_range(default)
    assert covered.min is N * 2
    assert covered.extent is const(5)
    assert repr(IntSet.everything()) == "IntSet[-inf, +inf]"


def test_union_and_intersection() -> None:
    a, b = IntSet.interval(const(0), const(4)), IntSet.interval(const(3), const(9))
    both = union_set([a, IntSet.nothing(), b])
    assert (both.min_value, both.max_value) == (const(0), const(9))
    common = intersect_set([a, b])
    assert (common.min_value, common.max_value) == (const(3), const(4))
    assert intersect_set([a, IntSet.single_point(const(7))]).is_nothing
    assert intersect_set([]).is_everything
    assert union_set([]).is_nothing
    assert union_set([a, IntSet.everything()]).is_everything
    assert intersect_set([a, IntSet.everything()]).max_value is const(4)
    symbolic = union_set([IntSet.interval(N, N + 3), IntSet.interval(N + 2, N + 6)])
    assert (symbolic.min_value, symbolic.max_value) == (N, N + 6)


@each_seed(150)
def test_sets_contain_every_value(
    evaluate: Any, all_points: Any, expressions: Any, seed: int
) -> None:
    rng = random.Random(seed)
    inner, outer = [Var("i"), Var("j")], Var("o")
    domains = {v: range(rng.choice((0, 0, -2)), rng.randrange(1, 6)) for v in (*inner, outer)}
    analyzer = Analyzer()
    for v, r in domains.items():
        analyzer.bind(v, Range.of(len(r), r.start))
    dom = {v: IntSet.from_range(Range.of(len(domains[v]), domains[v].start)) for v in inner}
    if rng.random() < 0.3:  # a set around the outer variable
        dom[inner[0]] = IntSet.interval(outer * 2 - 1, outer * 2 + 1)
        domains[inner[0]] = range(-7, 12)
    make = expressions(rng, [*inner, outer])
    points = rng.sample(list(all_points(domains)), min(30, len(list(all_points(domains)))))
    for _ in range(5):
        e = make.integer(3)
        values = eval_set(e, dom, analyzer if inner[0] not in dom else None)
        for point in points:
            if not _inside(evaluate, dom, point):
                continue
            value = evaluate(e, point)
            if values.has_lower_bound:
                assert evaluate(values.min_value, point) <= value, f"{e!r} in {values!r}"
            if values.has_upper_bound:
                assert value <= evaluate(values.max_value, point), f"{e!r} in {values!r}"


def _inside(evaluate: Any, dom: dict[Var, IntSet], point: dict[Var, int]) -> bool:
    return all(
        evaluate(s.min_value, point) <= point[v] <= evaluate(s.max_value, point)
        for v, s in dom.items()
    )
