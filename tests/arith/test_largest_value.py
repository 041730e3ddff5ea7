"""Bounds of sums of minima and maxima, against evaluation."""

from itertools import product

import numpy as np
import pytest

from autosched.arith import Analyzer
from autosched.arith.largest_value import largest_value
from autosched.tir.expr import Expr, Range, SizeVar, Var
from autosched.tir.op import const, floordiv, max_, min_, select
from autosched.transform.device.thread_index import evaluate

B, K = Var("b"), Var("k")
BLOCKS, STEPS = 6, 3


def known() -> Analyzer:
    analyzer = Analyzer()
    analyzer.bind(B, Range(const(0), const(BLOCKS)))
    analyzer.bind(K, Range(const(0), const(STEPS)))
    return analyzer


def index(rng: np.random.Generator, depth: int) -> Expr:
    """A position that moves with the block, perhaps held within bounds or halved."""
    kind = int(rng.integers(0, 6 if depth else 1))
    if kind == 0:
        return B * int(rng.integers(0, 9)) + K * int(rng.integers(-2, 3)) + int(rng.integers(-9, 9))
    inner = index(rng, depth - 1)
    if kind == 1:
        return floordiv(inner, int(rng.integers(2, 4)))
    if kind == 2:
        return inner * int(rng.integers(-2, 3)) + 1
    other = index(rng, depth - 1) if rng.random() < 0.3 else const(int(rng.integers(-5, 40)))
    if kind == 3:
        return select(B < 2, inner, other)
    return (min_, max_)[kind - 4](inner, other)


@pytest.mark.parametrize("seed", range(150))
def test_no_value_is_larger(seed: int) -> None:
    rng = np.random.default_rng(seed)
    e = index(rng, 3) + 1 - index(rng, 3)
    most = largest_value(e, known())
    assert most is not None
    blocks, steps = np.array(list(product(range(BLOCKS), range(STEPS)))).T
    values = evaluate(e, {B: blocks, K: steps})
    assert values is not None
    assert values.max() <= most


@pytest.mark.parametrize(
    ("low", "high", "most"),
    [
        (max_(B * 8 - 1, 0), min_(B * 8 + 8, 40), 10),
        (max_(B * 8, K * 4), max_(B * 8 + 7, K * 4 + 3), 8),
        (floordiv(max_(B * 8 - 3, 0), 2), floordiv(min_(B * 8 + 8, 40), 2), 7),
        (min_(B * 8, 20), min_(B * 8 + K, 20), 3),
        (B * 8, const(47), 48),
    ],
)
def test_what_cancels_is_found(low: Expr, high: Expr, most: int) -> None:
    assert largest_value(high + 1 - low, known()) == most


def test_a_size_that_is_not_known_has_no_bound() -> None:
    assert largest_value(SizeVar("n") - max_(B - 1, 0), known()) is None
    assert largest_value(min_(SizeVar("n"), 8) - max_(B - 1, 0), known()) == 8
