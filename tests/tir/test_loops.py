"""Facts of loops, and nests made anew."""

from __future__ import annotations

import pytest

from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.loops import around, count_from_zero, nest_of, trip_count
from autosched.tir.stmt import Evaluate, For, ForKind, Stmt

BODY = Evaluate(IntImm(7))


def loop(extent: Expr, low: int = 0, body: Stmt = BODY) -> For:
    return For(Var("i"), IntImm(low), extent, ForKind.SERIAL, body)


@pytest.mark.parametrize(
    ("extent", "low", "trips", "from_zero"),
    [(IntImm(8), 0, 8, 8), (IntImm(8), 2, 8, 0), (IntImm(-3), 0, 0, 0), (Var("n"), 0, 0, 0)],
)
def test_only_constant_extents_are_counted(
    extent: Expr, low: int, trips: int, from_zero: int
) -> None:
    assert trip_count(loop(extent, low)) == trips
    assert count_from_zero(loop(extent, low)) == from_zero


def test_a_nest_is_taken_apart_and_made_again() -> None:
    inner = loop(IntImm(4))
    outer = loop(IntImm(2), body=inner)
    assert nest_of(outer) == ([outer, inner], BODY)
    assert nest_of(BODY) == ([], BODY)
    assert around([outer, inner], BODY) is outer
    other = around([outer, inner], Evaluate(IntImm(8)))
    assert nest_of(other)[1] is not BODY
