"""Interval evaluation in ints agrees with the general one and contains all values."""

import itertools
import random
from collections.abc import Callable
from random import Random

from autosched.arith import IntSet, eval_set
from autosched.te.bounds.const_interval import ConstIntervals
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range, Var
from autosched.tir.op import max_, min_
from autosched.tir.walk import substitute
from kit.tir import value_of

DOMAINS = [
    (IterVar(None, Var(name), IterKind.DATA_PAR), Range(IntImm(low), IntImm(extent)))
    for name, low, extent in (("x", 0, 5), ("y", -2, 4), ("z", 3, 1))
]


def random_index(rng: Random, depth: int = 4) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([iv.var for iv, _ in DOMAINS] + [IntImm(rng.randint(-5, 5))])
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    kinds: list[Callable[[], Expr]] = [
        lambda: a + b,
        lambda: a - b,
        lambda: a * rng.choice([-3, 2, 4]),
        lambda: a // rng.choice([2, 3, 8]),
        lambda: a % rng.choice([2, 3, 8]),
        lambda: min_(a, b),
        lambda: max_(a, b),
    ]
    return rng.choice(kinds)()


def test_agrees_and_contains_every_value() -> None:
    rng = random.Random(3)
    sets = {iv.var: IntSet.from_range(r) for iv, r in DOMAINS}
    evaluate = ConstIntervals(DOMAINS)
    spans = [range(value_of(r.min), value_of(r.min) + value_of(r.extent)) for _, r in DOMAINS]
    for _ in range(200):
        e = random_index(rng)
        bounds = evaluate(e)
        assert bounds is not None
        low, high = bounds
        general = eval_set(e, sets)
        assert (value_of(general.min_value), value_of(general.max_value)) == (low, high)
        for point in itertools.product(*spans):
            table = {iv.var: IntImm(v) for (iv, _), v in zip(DOMAINS, point, strict=True)}
            assert low <= value_of(substitute(e, table)) <= high


def test_unknown_variables_and_products_are_left_to_the_general_way() -> None:
    evaluate = ConstIntervals(DOMAINS)
    x, y = DOMAINS[0][0].var, DOMAINS[1][0].var
    assert evaluate(Var("n") + 1) is None
    assert evaluate(x * y) is None
