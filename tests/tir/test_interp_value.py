"""The intervals with which the interpreter drops checks contain every value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BinaryExpr,
    CompareExpr,
    Div,
    FloorDiv,
    FloorMod,
    Mod,
    Mul,
    Sub,
)
from autosched.tir.interp_math import trunc_div, trunc_mod
from autosched.tir.interp_value import Value, decide, division_interval, interval

ENDS = [-7, -3, -1, 0, 1, 2, 5]
PAIRS = [(a, b) for a, b in itertools.product(ENDS, ENDS) if a <= b]
MEANING: dict[type[BinaryExpr], Callable[[int, int], int]] = {
    Add: lambda x, y: x + y,
    Sub: lambda x, y: x - y,
    Mul: lambda x, y: x * y,
    Div: trunc_div,
    Mod: trunc_mod,
    FloorDiv: lambda x, y: x // y,
    FloorMod: lambda x, y: x % y,
    EQ: lambda x, y: x == y,
    NE: lambda x, y: x != y,
    LT: lambda x, y: x < y,
    LE: lambda x, y: x <= y,
    GT: lambda x, y: x > y,
    GE: lambda x, y: x >= y,
}


def values(
    kind: type[BinaryExpr], a: tuple[int, int], b: tuple[int, int], skip_zero: bool = False
) -> Iterator[int]:
    for x in range(a[0], a[1] + 1):
        for y in range(b[0], b[1] + 1):
            if y or not skip_zero:
                yield MEANING[kind](x, y)


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod])
def test_arithmetic(kind: type[BinaryExpr]) -> None:
    divides = kind in (Div, Mod, FloorDiv, FloorMod)
    for a, b in itertools.product(PAIRS, PAIRS):
        va, vb = Value("a", low=a[0], high=a[1]), Value("b", low=b[0], high=b[1])
        low, high = division_interval(kind, va, vb) if divides else interval(kind, va, vb)
        assert all(low <= v <= high for v in values(kind, a, b, divides)), (a, b)


@pytest.mark.parametrize("kind", [EQ, NE, LT, LE, GT, GE])
def test_comparisons(kind: type[CompareExpr]) -> None:
    for a, b in itertools.product(PAIRS, PAIRS):
        known = decide(kind, Value("a", low=a[0], high=a[1]), Value("b", low=b[0], high=b[1]))
        if known is not None:
            assert set(values(kind, a, b)) == {known}


def test_text_is_parenthesised_by_strength() -> None:
    assert Value("a + b", 4).at(5) == "(a + b)"
    assert Value("a + b", 4).at(4) == "a + b"
