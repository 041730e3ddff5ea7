"""What the pieces of cut loops change in comparisons: what it does where it is written out."""

from __future__ import annotations

import random

import numpy as np

from autosched.arith import Analyzer
from autosched.features.batched.autosched_1.cut_texts import CutTerm, cut_text, index_texts
from autosched.features.walk.count import count_ops
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, const, lt, mul
from autosched.tir.walk import substitute
from autosched.transform.vector.instructions import instructions


def _numbers(terms: list[tuple[int, bool, int]]) -> list[CutTerm]:
    return [
        CutTerm(np.array([scale != 0]), np.array([scale]), np.array([stays]), np.array([added]))
        for scale, stays, added in terms
    ]


def test_random_sums() -> None:
    rng = random.Random(1)
    for _ in range(300):
        scales = sorted(rng.sample(range(2, 30), rng.randint(0, 3)), reverse=True)
        scales += [1] if rng.random() < 0.6 or not scales else []
        terms, text, table = _written(rng, scales)
        before, after = lt(text, 50), substitute(lt(text, 50), table)
        counts = np.array(count_ops(after)) - np.array(count_ops(before))
        found = cut_text(_numbers(terms), counts[:, None])
        left = any(stays for _, stays, _ in terms)
        assert found.gone.tolist() == [not left]
        assert found.where.tolist() == [any(not stays or added for _, stays, added in terms)]
        if left:
            assert found.weight.tolist() == [instructions(after) - instructions(before)], terms


def _written(
    rng: random.Random, scales: list[int]
) -> tuple[list[tuple[int, bool, int]], Expr, dict[Var, Expr]]:
    """Terms, a sum of them, and what stands for its variables in a piece."""
    terms = [(scale, rng.random() < 0.6, rng.choice([0, 0, 1, 3])) for scale in scales]
    text: Expr = const(0)
    table: dict[Var, Expr] = {}
    for k, (scale, stays, added) in enumerate(terms):
        var = Var(f"i{k}")
        text = add(text, mul(var, scale))
        table[var] = add(var, added) if stays else IntImm(added)
    return terms, text, table


def test_indices_count_what_stands_in_them() -> None:
    rng = random.Random(2)
    several = 0
    for _ in range(400):
        scales = sorted(rng.sample(range(2, 30), rng.randint(1, 4)), reverse=True)
        scales += [1] if rng.random() < 0.6 else []
        terms, text, table = _written(rng, scales)
        base = rng.choice([0, 0, -1, -2])
        text = add(text, base)
        found = index_texts(_numbers(terms), np.array([base]))
        assert not found.unsure.any()
        before = np.array(count_ops(text))
        raw = substitute(text, table)
        assert (np.array(count_ops(raw)) - before == found.counts[:, 0]).all(), raw
        simple = Analyzer().canonical_simplify(raw)
        assert (np.array(count_ops(simple)) - before == found.simplified[:, 0]).all(), simple
        several += sum(not stays and added > 0 for _, stays, added in terms) > 1
    assert several > 30


def test_constants_at_the_scale_of_a_loop_are_unsure() -> None:
    one = [(4, False, 1), (1, True, 0), (1, False, 2)]
    assert index_texts(_numbers(one), np.array([0])).unsure.tolist() == [True]
    assert index_texts(_numbers(one[1:]), np.array([0])).unsure.tolist() == [False]


def test_terms_of_no_candidate_count_nothing() -> None:
    found = cut_text(_numbers([(0, False, 3), (4, True, 0)]), np.zeros((16, 1), np.int64))
    assert not found.where.any() and not found.gone.any() and not found.weight.any()
