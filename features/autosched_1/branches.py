"""How often the branch of a condition runs.

    for i in parallel(28):
        if 1 <= i and i <= 26: A      # runs in 26 of 28 iterations
        else: B                       # in the 2 others

Loops over windows that reach over a border have a branch for each border and corner; each counts by
its share of the iterations, not as if it ran in all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.features.walk.scope import Loop
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Var,
)
from autosched.tir.walk import free_vars

MOST_POINTS = 1 << 20
"""Iterations of the loops in conditions; of more, the share counts as all. A 224x224 image has 50
thousand."""

Branch = tuple[Expr, bool]
"""A condition and which of its branches."""

_BINARY: dict[type[Expr], Callable[[Any, Any], Any]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    Min: np.minimum,
    Max: np.maximum,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    EQ: operator.eq,
    NE: operator.ne,
    And: np.logical_and,
    Or: np.logical_or,
}


def share_of_branches(nest: Nest) -> float:
    """The share of the iterations of the loops around a place in which it is reached.

    Conditions without another branch do not count. 1 where `points_of` says nothing.
    """
    found = points_of(nest.branches, nest.loops) if nest.branches else None
    return 1.0 if found is None else found[0] / found[1]


def points_of(branches: Sequence[Branch], loops: Sequence[Loop]) -> tuple[int, int] | None:
    """How many iterations of the loops in the conditions are in all the branches, and of how many.

    None where a condition asks for more than `loops` with constant bounds, or for too many of them.
    """
    asked = frozenset[Var]().union(*[free_vars(condition) for condition, _ in branches])
    around = [loop for loop in loops if loop.var in asked]
    points = math.prod([loop.extent for loop in around])
    if len(around) < len(asked) or points > MOST_POINTS or not all(map(_is_constant, around)):
        return None
    return _count(branches, around), points


def values_at(e: Expr, loops: Sequence[Loop]) -> Any:
    """The values of `e` at all iterations of these loops, of which a dimension each.

    None for more than arithmetic, and for other variables.
    """
    return _value(e, _iterations(loops)) if all(map(_is_constant, loops)) else None


def _iterations(loops: Sequence[Loop]) -> dict[Expr, Any]:
    """The values of each loop's variable, along a dimension of its own."""
    values: dict[Expr, Any] = {}
    for k, loop in enumerate(loops):
        axis = [1] * len(loops)
        axis[k] = -1
        values[loop.var] = np.arange(loop.point[0], loop.span[1] + 1).reshape(axis)
    return values


def _is_constant(loop: Loop) -> bool:
    low, high = loop.point
    return low == high and loop.span == (low, low + loop.extent - 1)


def _count(branches: Sequence[Branch], loops: Sequence[Loop]) -> int:
    """How many points of the loops are in all the branches; all of them where that is unknown."""
    shape = tuple([loop.extent for loop in loops])
    values = _iterations(loops)
    holds: Any = np.ones(shape, bool)
    for condition, taken in branches:
        found = _value(condition, values)
        if found is None:
            return math.prod(shape)
        holds = holds & (found if taken else np.logical_not(found))
    return int(np.count_nonzero(holds))


def _value(e: Expr, known: dict[Expr, Any]) -> Any:
    """The value of `e` at all points; None for what is neither arithmetic nor a comparison."""
    if isinstance(e, IntImm):
        return e.value
    found = known.get(e)
    if found is not None or isinstance(e, Var):
        return found
    parts = [_value(child, known) for child in e.children()]
    if any(part is None for part in parts):
        return None
    if isinstance(e, Not):
        found = np.logical_not(parts[0])
    elif type(e) in _BINARY:
        found = _BINARY[type(e)](*parts)
    known[e] = found
    return found
