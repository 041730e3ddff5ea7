"""What the pieces of cut loops change in comparisons: what it does where it is written out."""

from __future__ import annotations

import random

import numpy as np

from autosched.features.batched.autosched_1.cut_texts import CutTerm, cut_text
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
        terms = [(scale, rng.random() < 0.6, rng.choice([0, 0, 1, 3])) for scale in scales]
        fixed = [k for k, (_, stays, added) in enumerate(terms) if not stays and added]
        if len(fixed) > 1 and fixed != list(range(len(fixed))):
            continue  # constants apart: refused
        variables = [Var(f"i{k}") for k in range(len(terms))]
        text: Expr = const(0)
        table: dict[Var, Expr] = {}
        for var, (scale, stays, added) in zip(variables, terms, strict=True):
            text = add(text, mul(var, scale))
            table[var] = add(var, added) if stays else IntImm(added)
        before, after = lt(text, 50), substitute(lt(text, 50), table)
        counts = np.array(count_ops(after)) - np.array(count_ops(before))
        found = cut_text(_numbers(terms), counts[:, None])
        left = any(stays for _, stays, _ in terms)
        assert found.gone.tolist() == [not left]
        assert found.where.tolist() == [any(not stays or added for _, stays, added in terms)]
        if left:
            assert found.weight.tolist() == [instructions(after) - instructions(before)], terms


def test_terms_of_no_candidate_count_nothing() -> None:
    found = cut_text(_numbers([(0, False, 3), (4, True, 0)]), np.zeros((16, 1), np.int64))
    assert not found.where.any() and not found.gone.any() and not found.weight.any()
