from typing import Any

import numpy as np
import pytest

from autosched.te.bounds.box import Box, box_of, scaled
from autosched.tir.dtype import DType
from autosched.tir.expr import EQ, GE, GT, LE, LT, NE, And, Expr, IntImm, Not, Or, Var
from autosched.tir.op import eq, floordiv, ge, gt, le, likely, lt, ne
from autosched.transform.device.thread_index import evaluate

I, J = Var("i"), Var("j")
ENDS: Box = {I: (0, 9), J: (-3, 4)}
COMPARISONS = (lt, le, gt, ge, eq, ne)
NUMPY: dict[type[Expr], Any] = {
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    EQ: np.equal,
    NE: np.not_equal,
}


def condition(rng: np.random.Generator, depth: int) -> Expr:
    kind = rng.integers(0, 6 if depth else 3)
    if kind < 3:
        var = (I, J)[rng.integers(2)]
        side = var * int(rng.choice([-3, -2, -1, 1, 2, 3])) + int(rng.integers(-5, 6))
        other = IntImm(int(rng.integers(-9, 15))) + (var if rng.random() < 0.2 else 0)
        compare = COMPARISONS[rng.integers(len(COMPARISONS))]
        return compare(side, other) if rng.random() < 0.5 else compare(other, side)
    if kind == 3:
        return Not(condition(rng, depth - 1))
    both = condition(rng, depth - 1), condition(rng, depth - 1)
    return And(*both) if kind == 4 else Or(*both)


def truth(e: Expr, grid: Any) -> Any:
    match e:
        case Not(a):
            return ~truth(a, grid)
        case And(a, b):
            return truth(a, grid) & truth(b, grid)
        case Or(a, b):
            return truth(a, grid) | truth(b, grid)
    left, right = (evaluate(child, grid) for child in e.children())
    return NUMPY[type(e)](left, right)


@pytest.mark.parametrize("seed", range(400))
def test_the_box_is_where_the_conditions_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    conditions = [condition(rng, 2) for _ in range(rng.integers(1, 3))]
    box = box_of(conditions, ENDS)
    values = [np.arange(first, last + 1) for first, last in ENDS.values()]
    grid = dict(zip(ENDS, np.meshgrid(*values, indexing="ij"), strict=True))
    holds = np.logical_and.reduce([truth(c, grid) for c in conditions])
    if box is not None:
        inside = [(box[v][0] <= grid[v]) & (grid[v] <= box[v][1]) for v in (I, J)]
        assert holds.any() and np.array_equal(holds, inside[0] & inside[1])


def test_how_much_is_known() -> None:
    assert box_of([And(ge(I, 2), Not(Or(gt(J, 3), eq(J, 9))))], ENDS) is None  # J is not 9
    assert box_of([And(ge(I, 2), Not(Or(gt(J, 3), lt(J, 0)))), likely(lt(I, 7))], ENDS) == {
        I: (2, 6),
        J: (0, 3),
    }
    assert box_of([eq(I * 2, 6)], ENDS) == {I: (3, 3), J: (-3, 4)}
    assert box_of([eq(I * 2, 5)], ENDS) is None  # it never holds
    whole = Var("I", DType("uint8"))
    for unknown in (lt(I, J), lt(floordiv(I, 2), 3), ne(I, 3), lt(Var("n"), 3), lt(whole, 3)):
        assert box_of([unknown], {**ENDS, whole: (0, 9)}) is None


def test_a_negative_factor_turns_the_ends_around() -> None:
    assert scaled((-1, 3), 2) == (-2, 6)
    assert scaled((-1, 3), -2) == (-6, 2)
