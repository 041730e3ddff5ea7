from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from autosched.tir.op import (
    add,
    and_,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    not_,
    or_,
    select,
    sub,
    truncdiv,
    truncmod,
)

Point = Mapping[Var, int]


def _truncdiv(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


_VALUE: dict[type[Expr], Callable[[Any, Any], int]] = {
    Add: lambda x, y: x + y,
    Sub: lambda x, y: x - y,
    Mul: lambda x, y: x * y,
    FloorDiv: lambda x, y: x // y,
    FloorMod: lambda x, y: x % y,
    Div: _truncdiv,
    Mod: lambda x, y: x - y * _truncdiv(x, y),
    Min: min,
    Max: max,
    EQ: lambda x, y: int(x == y),
    NE: lambda x, y: int(x != y),
    LT: lambda x, y: int(x < y),
    LE: lambda x, y: int(x <= y),
    GT: lambda x, y: int(x > y),
    GE: lambda x, y: int(x >= y),
    And: lambda x, y: int(bool(x) and bool(y)),
    Or: lambda x, y: int(bool(x) or bool(y)),
}


def value_at(e: Any, point: Point) -> int:
    """The value of an integer expression when the variables have these values."""
    cls = e.__class__
    if isinstance(e, IntImm):
        return e.value
    if cls in _VALUE:
        return _VALUE[cls](value_at(e.a, point), value_at(e.b, point))
    if isinstance(e, Var):
        return point[e]
    if cls is Not:
        return int(not value_at(e.a, point))
    if cls is Select:
        chosen = e.true_value if value_at(e.condition, point) else e.false_value
        return value_at(chosen, point)
    if cls is Call and e.op == "if_then_else":
        return value_at(e.args[1] if value_at(e.args[0], point) else e.args[2], point)
    if cls is Call and e.op == "likely":
        return value_at(e.args[0], point)
    if cls is Cast:
        return value_at(e.value, point)
    raise AssertionError(f"no value for {e!r}")


def points(domains: Mapping[Var, range]) -> Iterator[dict[Var, int]]:
    """All points of the domains."""
    for values in itertools.product(*domains.values()):
        yield dict(zip(domains, values, strict=True))


class Expressions:
    """Random expressions over `variables`, in the shapes that schedules and rules have."""

    def __init__(self, rng: random.Random, variables: list[Var]) -> None:
        self.rng = rng
        self.variables = variables

    def constant(self) -> Expr:
        return const(self.rng.choice((0, 1, 2, 2, 3, 4, 4, 5, 6, 8, 12, 16, -1, -2, -3, -4)))

    def integer(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return rng.choice(self.variables) if rng.random() < 0.75 else self.constant()
        kind = rng.randrange(20)
        a = self.integer(depth - 1)
        if kind < 5:
            return add(a, self.integer(depth - 1))
        if kind < 7:
            return sub(a, self.integer(depth - 1))
        if kind < 11:
            return mul(a, self.constant())
        if kind < 14:
            return floordiv(a, self.positive())
        if kind < 17:
            return floormod(a, self.positive())
        if kind == 17:
            return rng.choice((min_, max_))(a, self.integer(depth - 1))
        if kind == 18:
            return rng.choice((truncdiv, truncmod))(a, self.positive())
        if rng.random() < 0.5:
            return mul(a, rng.choice(self.variables))
        return select(self.condition(depth - 1), a, self.integer(depth - 1))

    def positive(self) -> Expr:
        return const(self.rng.choice((2, 2, 3, 4, 4, 5, 6, 8, 16)))

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        kind = rng.randrange(10)
        if depth <= 0 or kind < 7:
            compare = rng.choice((lt, lt, le, gt, ge, eq, ne))
            return compare(self.integer(depth - 1), self.integer(depth - 1))
        if kind < 9:
            both = rng.choice((and_, or_))
            return both(self.condition(depth - 1), self.condition(depth - 1))
        return not_(self.condition(depth - 1))


@pytest.fixture(scope="session")
def evaluate() -> Callable[[Any, Point], int]:
    return value_at


@pytest.fixture(scope="session")
def all_points() -> Callable[[Mapping[Var, range]], Iterator[dict[Var, int]]]:
    return points


@pytest.fixture(scope="session")
def expressions() -> type[Expressions]:
    return Expressions
