"""How loops move indices with quotients and remainders."""

import pytest

from autosched.tir import op
from autosched.tir.expr import Expr, Var
from autosched.tir.linear import linear
from autosched.tir.op import const
from autosched.tir.walk import substitute
from autosched.transform.vector.index_steps import step_along
from kit.tir import value_of

I, J = Var("i"), Var("j")

INDICES = [
    I * 3 + J,
    op.floordiv(I, 8) * 20 + op.floormod(I, 8),
    op.floordiv(I * 2 + J * 8, 8) * 20 + op.floormod(I * 2 + J * 8, 8),
    op.floordiv(I + 4, 8) * 20 + op.floormod(I + 4, 8),
    op.floordiv(I, 4) * 9 + op.floormod(I, 6),
    op.floordiv(I + J, 8),
]


def test_examples() -> None:
    assert step_along(linear(INDICES[0])[1], I) == (3, 0)
    assert step_along(linear(INDICES[1])[1], I) == (1, 8)
    assert step_along(linear(INDICES[1])[1], J) == (0, 0)
    assert step_along(linear(INDICES[2])[1], I) == (2, 4)
    assert step_along(linear(INDICES[3])[1], I) == (1, 4)
    assert step_along(linear(INDICES[5])[1], I) == (0, 1)
    assert step_along(linear(op.floordiv(op.floormod(I, 8), 2))[1], I) == (0, 1)
    assert step_along(linear(I * I)[1], I) == (0, 1)


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("other", [0, 1, 3])
def test_steps_are_even_inside_blocks(index: Expr, other: int) -> None:
    step, block = step_along(linear(index)[1], I)
    values = [value_of(substitute(index, {I: const(i), J: const(other)})) for i in range(48)]
    for i in range(47):
        if not block or (i + 1) % block:
            assert values[i + 1] - values[i] == step
