"""Regions accessed by loops, against enumerating all iterations."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from autosched.arith import (
    Analyzer,
    IntSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Range, SizeVar, Var
from autosched.tir.op import (
    add,
    and_,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    le,
    lt,
    max_,
    mul,
    ne,
    sub,
)
from kit.seeds import each_seed

I, J, K, N, O = Var("i"), Var("j"), Var("k"), SizeVar("n"), Var("o")
Region = list[tuple[Expr, int]]
Box = tuple[IntSet, ...] | None
TRUE = const(True)
DATA = decl_buffer((8,), "int32", "data")


def boxes(
    region: list[Range],
    dom: dict[Var, Range],
    predicate: Expr = TRUE,
    analyzer: Analyzer | None = None,
) -> tuple[Box, Box, Box]:
    """Lower, strict and upper bound."""
    return (
        estimate_region_lower_bound(region, dom, predicate, analyzer),
        estimate_region_strict_bound(region, dom, predicate, analyzer),
        estimate_region_upper_bound(region, dom, predicate, analyzer),
    )


def text(box: Box) -> str:
    return "None" if box is None else " ".join(repr(s)[6:] for s in box)


def ranges(region: Region) -> list[Range]:
    return [Range.of(extent, low) for low, extent in region]


EXACT: list[tuple[Region, dict[Var, int], Expr, str]] = [
    ([(I * 8 + J, 1)], {I: 4, J: 8}, TRUE, "[0, 31]"),
    ([(I * 8 + J, 3)], {I: 4, J: 6}, TRUE, "[0, 31]"),
    ([(I * 4 + J, 1)], {I: 4, J: 8}, TRUE, "[0, 19]"),
    ([(sub(10, I), 2), (J + O, 4)], {I: 4, J: 8}, TRUE, "[7, 11] [o, o + 10]"),
    ([(floordiv(I, 8), 1), (floormod(I, 8), 1)], {I: 24}, TRUE, "[0, 2] [0, 7]"),
    ([(floordiv(I, 8), 1)], {I: 20}, TRUE, "[0, 2]"),
    ([(floormod(I, 8), 1)], {I: 20}, TRUE, "[0, 7]"),
    ([(floormod(floordiv(I, 4), 4), 1), (floormod(I, 4), 1)], {I: 20}, TRUE, "[0, 3] [0, 3]"),
    ([(I * 8 + J, 1)], {I: 4, J: 8}, I * 8 + J < 30, "[0, 29]"),
    ([(I * 8, 8)], {I: 4}, I < 3, "[0, 23]"),
    ([(I * 4 + J * 2, 2)], {I: 4, J: 2}, le(I * 2 + J, 5), "[0, 11]"),
    ([(I, 1), (J, 1)], {I: 4, J: 4}, and_(I > 0, eq(J, 2)), "[1, 3] [2, 2]"),
    ([(I * 8 + J, 1)], {I: 4, J: 8}, and_(ge(I * 8 + J, 3), I * 8 + J < 5), "[3, 4]"),
    ([(I, 1)], {I: 4, J: 3}, TRUE, "[0, 3]"),
    ([(floordiv(I * 5 + J, 3), 1)], {I: 4, J: 5}, TRUE, "[0, 6]"),
    ([(floordiv(I * 5 + J, 3) * 2, 2)], {I: 4, J: 5}, TRUE, "[0, 13]"),
    ([(sub(10, floordiv(I + 1, 2)), 1)], {I: 4}, TRUE, "[8, 10]"),
    ([(floormod(I * 5 + J, 7), 1)], {I: 4, J: 5}, TRUE, "[0, 6]"),
    ([(floormod(I + 3, 8), 2)], {I: 5}, TRUE, "[3, 8]"),
    ([(floordiv(I * 3 + J, 8), 1)], {I: 14, J: 3}, I * 3 + J < 20, "[0, 2]"),
    ([(I, 1)], {I: 4, J: 3, K: 2}, J * 2 + K < 4, "[0, 3]"),
    ([(I, 1)], {I: 4}, I < 0, "nothing"),
    ([(I, 1)], {I: 4, J: 0}, TRUE, "nothing"),
    ([(I, 0)], {I: 4}, TRUE, "nothing"),
    ([(I, 1)], {I: 4, J: 3, K: 2}, and_(ge(J * 2 + K, 3), J * 2 + K < 2), "nothing"),
]


@pytest.mark.parametrize(("region", "sizes", "predicate", "expected"), EXACT)
def test_exact_regions(
    region: Region, sizes: dict[Var, int], predicate: Expr, expected: str
) -> None:
    dom = {v: Range.of(n) for v, n in sizes.items()}
    lower, strict, upper = boxes(ranges(region), dom, predicate)
    if expected == "nothing":
        assert strict is not None and all(s.is_nothing for s in strict)
    else:
        assert text(lower) == text(strict) == text(upper) == expected


PARTLY: list[tuple[Region, dict[Var, int], Expr, str, str]] = [
    ([(I * 9 + J, 1)], {I: 4, J: 8}, TRUE, "[0, 7]", "[0, 34]"),
    ([(I, 1), (I, 1)], {I: 4}, TRUE, "[0, 0] [0, 0]", "[0, 3] [0, 3]"),
    ([(I, 1), (I + J, 1)], {I: 4, J: 3}, TRUE, "[0, 0] [0, 2]", "[0, 3] [0, 5]"),
    ([(I * J, 1)], {I: 4, J: 3}, TRUE, "[0, 0]", "[-inf, +inf]"),
    ([(floordiv(I, 8), 1), (floormod(I, 8), 1)], {I: 20}, TRUE, "[0, 0] [0, 0]", "[0, 2] [0, 7]"),
    ([(I * 4 + J, 1)], {I: 4, J: 4}, I < J, "[1, 3]", "[0, 15]"),
    ([(I, 1)], {I: 4}, ne(I, 2), "[0, 0]", "[0, 3]"),
    ([(I * 2 + J, 1)], {I: 4, J: 2}, and_(I < 2, ne(J, 0)), "[1, 1]", "[0, 3]"),
    ([(floordiv(I * 5 + J, 3) * 2, 1)], {I: 4, J: 5}, TRUE, "[0, 0]", "[0, 12]"),
    ([(floormod(I + 3, 8), 1)], {I: 6}, TRUE, "[3, 3]", "[0, 7]"),
    ([(I * 8 + J, 1), (I, 1)], {I: 4, J: 8}, I * 8 + J < 5, "[0, 4] [0, 0]", "[0, 4] [0, 3]"),
    ([(I, 1)], {I: 4, J: 3, K: 2}, and_(J * 2 + K < 4, J < K), "[0, 3]", "[0, 3]"),
]


@pytest.mark.parametrize(("region", "sizes", "predicate", "lower", "upper"), PARTLY)
def test_regions_that_are_not_known_exactly(
    region: Region, sizes: dict[Var, int], predicate: Expr, lower: str, upper: str
) -> None:
    dom = {v: Range.of(n) for v, n in sizes.items()}
    found = boxes(ranges(region), dom, predicate)
    assert [text(box) for box in found] == [lower, "None", upper]


def test_symbolic_loops() -> None:
    positive = Analyzer()
    positive.bind(N, Range.of(1000, 1))
    dom = {I: Range.of(N, O), J: Range.of(4)}
    region = [Range.of(1, I * 4 + J)]
    assert boxes(region, dom)[1] is None, "there may be no iteration"
    lower, strict, upper = boxes(region, dom, TRUE, positive)
    assert text(strict) == text(upper) == text(lower) == "[o * 4, o * 4 + n * 4 - 1]"
    rows = [Range.of(1, I * N + J)]
    assert (
        text(boxes(rows, {I: Range.of(3), J: Range.of(N)}, TRUE, positive)[1]) == "[0, n * 3 - 1]"
    )
    assert repr(positive.const_int_bound(I)) == repr(Analyzer().const_int_bound(I)), "as before"


def test_loops_whose_domain_depends_on_another() -> None:
    dom = {I: Range.of(4), J: Range.of(I + 1)}
    lower, strict, upper = boxes([Range.of(1, J)], dom)
    assert [text(b) for b in (lower, strict, upper)] == ["[0, 0]", "None", "[0, 3]"]


def test_data_and_unknown_conditions() -> None:
    dom = {I: Range.of(4)}
    assert boxes([Range.of(1, DATA[I])], dom)[1] is None
    assert boxes([Range.of(1, I)], dom, O < 3)[:2] == (None, None)
    assert text(boxes([Range.of(1, I)], dom, O < 3)[2]) == "[0, 3]"


def accessed(
    evaluate: Any, region: list[Range], dom: dict[Var, range], predicate: Expr, at: dict[Var, int]
) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for values in itertools.product(*dom.values()):
        point = {**at, **dict(zip(dom, values, strict=True))}
        if evaluate(predicate, point):
            box = [
                range(low := evaluate(r.min, point), low + evaluate(r.extent, point))
                for r in region
            ]
            found.update(itertools.product(*box))
    return found


def elements(
    evaluate: Any, box: tuple[IntSet, ...], at: dict[Var, int]
) -> set[tuple[int, ...]] | None:
    """All elements of a box; None when it is unbounded."""
    if any(s.is_nothing for s in box):
        return set()
    if not all(s.has_lower_bound and s.has_upper_bound for s in box):
        return None
    ends = [(evaluate(s.min_value, at), evaluate(s.max_value, at)) for s in box]
    return set(itertools.product(*(range(low, high + 1) for low, high in ends)))


class Accesses:
    """Random regions as programs have them: tiles, windows, fused loops, conditions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dom = {
            v: range(low := rng.choice((0, 0, 0, 1, -2)), low + rng.choice((1, 2, 3, 4, 6, 8)))
            for v in rng.sample([I, J, K], rng.randrange(1, 4))
        }

    def index(self) -> Expr:
        rng = self.rng
        e: Expr = const(rng.randrange(-3, 4)) if rng.random() < 0.5 else O
        for v in rng.sample(list(self.dom), rng.randrange(0, len(self.dom) + 1)):
            part: Expr = v
            if rng.random() < 0.4:
                part = rng.choice((floordiv, floormod))(v, rng.choice((2, 3, 4)))
                if rng.random() < 0.2:
                    part = floormod(floordiv(v, 2), 2)
            e = add(e, mul(part, rng.choice((1, 1, 2, 3, 4, 8, -1, -2))))
        if rng.random() < 0.2:
            e = rng.choice((floordiv, floormod))(e, rng.choice((2, 3, 4, 7)))
            e = add(mul(e, rng.choice((1, 1, 2, -1))), rng.randrange(-3, 4))
        return e

    def condition(self) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            e: Expr = rng.choice(list(self.dom))
        else:
            e = self.index()
        compare = rng.choice((lt, lt, le, ge, eq, ne))
        return compare(e, const(rng.randrange(-2, 12)))


@each_seed(300)
def test_against_all_iterations(evaluate: Any, seed: int) -> None:
    rng = random.Random(seed)
    make = Accesses(rng)
    shared = make.index()
    mins = [shared if rng.random() < 0.3 else make.index() for _ in range(rng.randrange(1, 3))]
    region = [Range.of(rng.choice((1, 1, 2, 3, 4)), low) for low in mins]
    predicate: Expr = TRUE
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        own = rng.random() < 0.4
        limit = lt(rng.choice(mins), rng.randrange(0, 12)) if own else make.condition()
        predicate = and_(predicate, limit)
    dom = {v: Range.of(len(r), r.start) for v, r in make.dom.items()}
    lower, strict, upper = boxes(region, dom, predicate)
    assert upper is not None
    for o in (-3, 0, 5):
        at = {O: o}
        real = accessed(evaluate, region, make.dom, predicate, at)
        case = f"{region} over {dom} where {predicate!r}"
        if strict is not None:
            assert elements(evaluate, strict, at) == real, f"{case}: {text(strict)}"
        if lower is not None:
            inside = elements(evaluate, lower, at)
            assert inside is not None and inside <= real, f"{case}: {text(lower)}"
        around = elements(evaluate, upper, at)
        assert around is None or real <= around, f"{case}: {text(upper)}"


def test_most_plain_tiles_are_exact() -> None:
    """Splits of a loop with guards, of all sizes: the strict bound is always found."""
    for extent, tile in itertools.product(range(1, 20), range(1, 6)):
        outer = -(-extent // tile)
        whole = I * tile + J
        dom = {I: Range.of(outer), J: Range.of(tile)}
        found = estimate_region_strict_bound([Range.of(1, whole)], dom, whole < extent)
        assert found is not None
        low, high = found[0].min_value, found[0].max_value
        assert (low, high) == (IntImm(0), IntImm(extent - 1))


def test_bounds_of_extremes_are_upper_bounds_only() -> None:
    region = [Range.of(1, max_(I - 2, 0))]
    lower, strict, upper = boxes(region, {I: Range.of(8)})
    assert [text(b) for b in (lower, strict, upper)] == ["[0, 0]", "None", "[0, 5]"]
