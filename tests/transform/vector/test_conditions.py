"""What conditions mean for lanes, against what VectorizeLoop's expressions really do."""

import pytest

from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Var
from autosched.tir.linear import linear
from autosched.tir.walk import substitute
from autosched.transform.vector.conditions import (
    UNCONDITIONAL,
    Conditions,
    Load,
    conditions_along,
    guarded_parts,
)
from autosched.transform.vector.index_steps import step_along
from autosched.transform.vector.lanes import widen

A, B = decl_buffer((4096,), name="A"), decl_buffer((4096,), name="B")
I, J = Var("i"), Var("j")
ZERO = op.const(0.0)


def load(index: Expr, buffer: Buffer = A) -> BufferLoad:
    return BufferLoad(buffer, (index,))


def blocks(e: Load, var: Var) -> int:
    return step_along(linear(e.indices[0])[1], var)[1]


def along(value: Expr, var: Var) -> Conditions:
    return conditions_along(guarded_parts(value), var, blocks)


VALUES = {
    "plain": load(I * 64 + J) * load(J),
    "padding": op.if_then_else(op.ge(J, 2), load(I * 64 + J - 2), ZERO),
    "both": op.if_then_else(op.and_(op.ge(J, 2), op.ge(I, 2)), load(I * 64 + J - 66), ZERO),
    "window": op.if_then_else(
        op.ge(op.floormod(J, 4), 1), load(op.floordiv(J, 4) * 64 + op.floormod(J, 4)), ZERO
    ),
    "one element": op.if_then_else(op.ge(I + J, 2), load(I * 4), ZERO),
    "otherwise": op.if_then_else(op.and_(op.ge(J, 2), op.ge(I, 2)), load(J), load(J, B)),
    "strided": op.if_then_else(op.ge(J, 2), load(J * 3 - 2), ZERO),
}


def test_examples() -> None:
    assert along(VALUES["plain"], J) is UNCONDITIONAL
    assert along(VALUES["padding"], J) == Conditions(True, 0)
    assert along(VALUES["padding"], I) == Conditions(True, 0)
    assert along(VALUES["window"], J) == Conditions(True, 4)
    assert along(VALUES["one element"], J) == Conditions(True, 1)
    assert along(VALUES["otherwise"], J) == Conditions(True, 1)


def test_masked_loads_are_guarded() -> None:
    masked = BufferLoad(A, (J,), op.ge(J, 2))
    assert guarded_parts(masked * load(I)) == [masked]
    assert along(masked, J) == Conditions(True, 0)
    assert along(masked * load(I), I) is UNCONDITIONAL


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("var", [I, J])
@pytest.mark.parametrize("count", [2, 4, 16])
def test_values_have_a_vector_form_just_where_that_is_foreseen(
    name: str, var: Var, count: int
) -> None:
    value = VALUES[name]
    lane = Var("lane")
    moved = widen(moved_by(value, var, lane, count), lane, count)
    lanes = along(value, var).lanes
    assert (moved is not None) == (not lanes or lanes % count == 0)


@pytest.mark.parametrize("name", VALUES)
def test_lanes_of_conditions_do_not_grow(name: str) -> None:
    value = VALUES[name]
    if not along(value, J).conditional or along(value, J).lanes:
        return
    lane = Var("lane")
    vector = widen(moved_by(value, J, lane, 4), lane, 4)
    assert vector is not None
    assert widen(moved_by(vector, J, lane, 2), lane, 2) is None


def moved_by(value: Expr, var: Var, lane: Var, count: int) -> Expr:
    return substitute(value, {var: var * count + lane})
