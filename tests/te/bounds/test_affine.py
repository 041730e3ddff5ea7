"""The quick way for affine expressions agrees with the Analyzer."""

import random
from random import Random

import pytest

from autosched.arith import Analyzer
from autosched.te.bounds.affine import affine_form, equal_affine, simplify_affine
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import max_

X, Y, Z = Var("x"), Var("y"), Var("z")


def random_affine(rng: Random, depth: int = 4) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([X, Y, Z, IntImm(rng.randint(-9, 9))])
    a = random_affine(rng, depth - 1)
    kind = rng.random()
    if kind < 0.3:
        return a * rng.choice([-4, -1, 2, 3, 4, 8])
    b = random_affine(rng, depth - 1)
    return a + b if kind < 0.7 else a - b


def test_the_same_form_as_the_analyzer() -> None:
    rng = random.Random(7)
    for _ in range(300):
        e = random_affine(rng)
        quick = simplify_affine(e)
        assert quick is None or quick is Analyzer().simplify(e), e


def test_forms() -> None:
    assert affine_form(X * 4 + Y - (X - 3)) == ({X: 3, Y: 1}, 3)
    assert affine_form(X * Y) is None
    assert affine_form(max_(X, Y) + 1) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (X * 2 + Y, Y + X + X, True),
        (X + 1, X, False),
        (X, Y, False),
        (X - X, IntImm(0), True),
        (X // 2, X // 2 + 0 * Y, None),
    ],
)
def test_equality(a: Expr, b: Expr, expected: bool | None) -> None:
    assert equal_affine(a, b) is expected
