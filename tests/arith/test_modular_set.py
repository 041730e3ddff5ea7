from __future__ import annotations

import pytest

from autosched.arith import Analyzer, ModularSet
from autosched.arith.modular_set import residues, union
from autosched.tir.expr import Expr, Var
from autosched.tir.op import (
    cast,
    const,
    eq,
    floordiv,
    floormod,
    max_,
    min_,
    select,
    truncdiv,
    truncmod,
)

X, Y = Var("x"), Var("y")

CASES: list[tuple[Expr, tuple[int, int]]] = [
    (const(7), (0, 7)),
    (X, (1, 0)),
    (X * 4, (4, 0)),
    (X * 4 + 3, (4, 3)),
    (X * 4 - 5, (4, 3)),
    (X * 4 + Y * 6, (2, 0)),
    ((X * 4 + 2) * (Y * 6 + 3), (12, 6)),
    (floordiv(X * 8 + 5, 4), (2, 1)),
    (floordiv(X * 6, 4), (1, 0)),
    (floormod(X * 8 + 5, 4), (0, 1)),
    (floormod(X * 6 + 1, 4), (2, 1)),
    (truncdiv(X * 8 + 4, 4), (2, 1)),
    (truncdiv(X * 8 + 5, 4), (1, 0)),
    (truncmod(X * 6 + 1, 4), (2, 1)),
    (min_(X * 8 + 1, Y * 4 + 3), (2, 1)),
    (max_(X * 8, 4), (4, 0)),
    (select(X < Y, X * 3, Y * 3 + 3), (3, 0)),
    (cast("int64", X * 4), (4, 0)),
    (cast("int32", Var("w", "int64") * const(4, "int64")), (1, 0)),
]


@pytest.mark.parametrize(("e", "expected"), CASES, ids=[repr(e) for e, _ in CASES])
def test_modular_set(e: Expr, expected: tuple[int, int]) -> None:
    assert Analyzer().modular_set(e) == ModularSet(*expected)


def test_set_operations() -> None:
    assert residues(-4, 7) == ModularSet(4, 3)
    assert union(ModularSet(4, 1), ModularSet(6, 3)) == ModularSet(2, 1)
    assert union(ModularSet(0, 5), ModularSet(0, 5)) == ModularSet(0, 5)


def test_residues_of_bound_values_and_conditions() -> None:
    analyzer = Analyzer()
    i = Var("i")
    analyzer.bind(i, X * 6 + 2)
    assert analyzer.modular_set(i) == ModularSet(6, 2)
    with analyzer.constraint(eq(floormod(Y, 4), 3)):
        assert analyzer.modular_set(Y * 2 + i) == ModularSet(2, 0)
        assert analyzer.modular_set(Y) == ModularSet(4, 3)
    assert analyzer.modular_set(Y) == ModularSet(1, 0)
