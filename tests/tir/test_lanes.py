"""Vector indices as a scalar and the distances of lanes from it."""

from __future__ import annotations

import pytest

from autosched.tir.expr import (
    Broadcast,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Ramp,
    Var,
)
from autosched.tir.lanes import lane_offsets

X, Y = Var("x"), Var("y")
WINDOW = Ramp(IntImm(0), IntImm(1), 9)


def every(n: Expr | int, lanes: int = 9) -> Expr:
    return Broadcast(IntImm(n) if isinstance(n, int) else n, lanes)


@pytest.mark.parametrize(
    ("index", "base", "offsets"),
    [
        (Ramp(X * 4, IntImm(3), 3), X * 4, (0, 3, 6)),
        (every(X, 2), X, (0, 0)),
        (Ramp(X, IntImm(1), 3) - Ramp(Y, IntImm(3), 3), X - Y, (0, -2, -4)),
        (Mul(Ramp(X, IntImm(2), 2), every(5, 2)), X * 5, (0, 10)),
        (
            every(X) + FloorDiv(WINDOW, every(3)) * every(57) + FloorMod(WINDOW, every(3)),
            X,
            (0, 1, 2, 57, 58, 59, 114, 115, 116),
        ),
        (Div(WINDOW, every(2)) + Mod(WINDOW, every(2)), IntImm(0), (0, 1, 1, 2, 2, 3, 3, 4, 4)),
        (
            Call(WINDOW.dtype, "shift_right", (WINDOW, every(2)))
            + Call(WINDOW.dtype, "bitwise_and", (WINDOW, every(3))),
            IntImm(0),
            (0, 1, 2, 3, 1, 2, 3, 4, 2),
        ),
    ],
)
def test_known_distances(index: Expr, base: Expr, offsets: tuple[int, ...]) -> None:
    found = lane_offsets(index)
    assert found is not None
    assert found[0] is base
    assert found[1] == offsets


@pytest.mark.parametrize(
    "index",
    [
        Ramp(X, Y, 4),
        FloorDiv(Ramp(X, IntImm(1), 9), every(3)),
        FloorDiv(Ramp(IntImm(-1), IntImm(1), 9), every(3)),
        FloorMod(WINDOW, every(0)),
        Mul(WINDOW, every(X)),
        Call(WINDOW.dtype, "shift_left", (WINDOW, every(2))),
        X,
    ],
)
def test_unknown_distances(index: Expr) -> None:
    assert lane_offsets(index) is None
