"""Conditions about sums, divided by a factor of most of the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir.expr import Expr, Range, Var
from autosched.tir.op import const, eq, floordiv, floormod, ge, gt, lt, ne

I, J, K, L = Var("i"), Var("j"), Var("k"), Var("l")
LOOPS = {I: range(20), J: range(4), K: range(-1, 15), L: range(-7, -2)}


def simplified(e: Expr, as_ansor: bool) -> Expr:
    analyzer = Analyzer(as_ansor)
    for var, values in LOOPS.items():
        analyzer.bind(var, Range(const(values.start), const(len(values))))
    return analyzer.simplify(e)


# the second column as Ansor has it, but for `l`, of which it takes some for the others
CASES = [
    (lt(I * 32 + J, 100), "i < 4", "i < 4"),
    (lt(I * 32 + J, 34), "i * 32 + j < 34", "i * 32 + j < 34"),
    (lt(I * 32 + K, 16), "i < 1", "i < 1"),  # 16 is not 0 modulo 32
    (gt(I * 32 + J, 100), "3 < i", "3 < i"),
    (ge(I * 32 + J, 101), "101 <= i * 32 + j", "101 <= i * 32 + j"),
    (lt(I * 32 + J * 2, 61), "i * 32 + j * 2 < 61", "i * 32 + j * 2 < 61"),
    (lt(I * 32 + L, 20), "i * 32 + l < 20", "i * 32 + l < 20"),
    (lt(I * 32 + L, 32), "i * 32 + l < 32", "i * 32 + l < 32"),  # Ansor: i < 1, but 32 - 7 < 32
    (lt(I * 32 + K, 32), "i * 32 + k < 32", "i * 32 + k < 32"),  # Ansor: i < 1, but 31 < 32
    (
        lt(J * 4 + floormod(I * 6 + floordiv(K, 2), 8), 10),
        *["j * 2 + (i * 3 + k // 4) % 4 < 5"] * 2,
    ),
    (lt(J * 4 + floormod(I * 5 + K, 8), 10), *["j * 2 + (i * 5 + k) % 8 // 2 < 5"] * 2),
    (
        lt(J * 4 + floordiv(floormod(I * 4 + K, 16), 2), 10),
        *["j * 2 + (k // 4 + i) % 4 < 5"] * 2,
    ),
]


@pytest.mark.parametrize(("e", "ansor", "simplest"), CASES, ids=[repr(c[0]) for c in CASES])
def test_a_rest_that_cannot_matter(
    e: Expr, ansor: str, simplest: str, evaluate: Callable[..., int], all_points: Any
) -> None:
    for as_ansor, text in ((True, ansor), (False, simplest)):
        result = simplified(e, as_ansor)
        assert repr(result) == text
        assert all(evaluate(result, p) == evaluate(e, p) for p in all_points(LOOPS))


@pytest.mark.parametrize(
    ("e", "result"),
    [
        (ne(floormod(I * 6 + 18, 32), 1), "True"),
        (eq(floormod(I * 6 + 18, 32), 1), "False"),
        (eq(floormod(I * 2 + 1, 8), 0), "False"),
        (eq(floormod(I * 6 + 18, 9), 1), "False"),
        (eq(floormod(I * 6 + 18, 35), 1), "(i * 6 + 18) % 35 == 1"),
    ],
)
def test_residues_of_remainders_decide(e: Expr, result: str) -> None:
    assert repr(simplified(e, True)) == repr(simplified(e, False)) == result
