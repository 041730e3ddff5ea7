from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.arith import NEG_INF, POS_INF, Analyzer, ConstIntBound, eval_bound
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import int32
from autosched.tir.expr import BufferLoad, Call, Expr, Range, SizeVar, Var
from autosched.tir.op import (
    cast,
    const,
    floordiv,
    floormod,
    max_,
    min_,
    select,
    shift_right,
    truncdiv,
    truncmod,
)

X, Y, Z = Var("x"), Var("y"), Var("z")
ENV = {X: (-3, 10), Y: (0, 7), Z: (2, 5)}
INT32 = (-(2**31), 2**31 - 1)

CASES: list[tuple[Expr, tuple[int, int]]] = [
    (const(5), (5, 5)),
    (X, (-3, 10)),
    (X + Y, (-3, 17)),
    (X - Y, (-10, 10)),
    (X - X, (-13, 13)),
    (X * Z, (-15, 50)),
    (X * -2, (-20, 6)),
    (floordiv(X, 4), (-1, 2)),
    (floordiv(X, Z), (-2, 5)),
    (floordiv(X, Y), (-3, 10)),
    (floordiv(Y, X), (-7, 7)),
    (truncdiv(X, 4), (0, 2)),
    (truncdiv(X, -2), (-5, 1)),
    (floormod(X, 4), (0, 3)),
    (floormod(Y, 16), (0, 7)),
    (floormod(Y, 4), (0, 3)),
    (floormod(Y, Z), (0, 4)),
    (floormod(Y, X), (-2, 7)),
    (floormod(Y % 3, Y), (0, 2)),
    (floormod(X - 8, X), (-2, 9)),  # -1 % 10 is 9
    (truncmod(X, 4), (-3, 3)),
    (truncmod(Y, -16), (0, 7)),
    (truncmod(X, -4), (-3, 3)),
    (truncmod(Y % 3, X), (0, 2)),
    (truncmod(Y, 4), (0, 3)),
    (truncmod(Y, 16), (0, 7)),
    (min_(X, Z), (-3, 5)),
    (max_(X, Z), (2, 10)),
    (select(X < Y, X, Z), (-3, 10)),
    (cast("int8", X), (-3, 10)),
    (cast("uint8", X), (0, 255)),  # -3 becomes 253
    (cast("int64", BufferLoad(decl_buffer((8,), "uint64", "U"), (Y,))), (NEG_INF, POS_INF)),
    (cast("int64", BufferLoad(decl_buffer((8,), "uint32", "U"), (Y,))), (0, 2**32 - 1)),
    (X < Y, (0, 1)),
    (Call(int32, "shift_right", (X, const(1))), (-2, 5)),
    (Call(int32, "shift_left", (Y, const(2))), (0, 28)),
    (Call(int32, "shift_right", (Y, const(33))), (-(2**31), 2**31 - 1)),
    (Call(int32, "bitwise_and", (Y, Z)), (0, 5)),
    (Call(int32, "bitwise_and", (X, Z)), (0, 5)),
    (Call(int32, "bitwise_and", (Y, X)), (0, 7)),
    (Call(int32, "bitwise_and", (X, X)), INT32),
    (Call(int32, "if_then_else", (X < Y, X, Z)), INT32),
    (BufferLoad(decl_buffer((8,), "int32", "A"), (Y,)), INT32),
]


@pytest.mark.parametrize(("e", "bound"), CASES, ids=[repr(e) for e, _ in CASES])
def test_bound(e: Expr, bound: tuple[int, int]) -> None:
    assert eval_bound(e, ENV) == bound


def test_unbound_variables_have_the_range_of_their_type() -> None:
    assert eval_bound(Var("v"), {}) == INT32
    assert eval_bound(Var("v", "int64"), {}) == (NEG_INF, POS_INF)
    assert eval_bound(Var("v", "uint8"), {}) == (0, 255)
    assert eval_bound(SizeVar("n"), {}) == (0, POS_INF)
    assert eval_bound(Var("f", "float32"), {}) == (NEG_INF, POS_INF)


def test_infinity_stays_infinite() -> None:
    n = SizeVar("n")
    assert eval_bound(n + 5, {}) == (5, POS_INF)
    assert eval_bound(n - 5, {}) == (-5, POS_INF)
    assert eval_bound(n * -3, {}) == (NEG_INF, 0)
    assert eval_bound(n * 0 + n * 4, {}) == (0, POS_INF)
    assert eval_bound(floordiv(n, 8), {}) == (0, POS_INF)
    assert eval_bound(floormod(n, 8), {}) == (0, 7)
    wide = Var("w", "int64")
    assert eval_bound(wide * wide, {wide: (2**40, 2**50)}) == (POS_INF, POS_INF)


@pytest.mark.parametrize("divide", [floordiv, truncdiv])
def test_a_quotient_by_what_may_be_zero_may_be_zero(divide: Callable[..., Expr]) -> None:
    """Sizes alone are taken not to be."""
    by, size = Var("by"), SizeVar("size")
    assert eval_bound(divide(X, by), {X: (1, 4), by: (0, 0)}) == (0, 0)
    assert eval_bound(divide(X, by), {X: (5, 8), by: (0, 4)}) == (0, 8)
    assert eval_bound(divide(X, by), {X: (-8, -5), by: (0, 4)}) == (-8, 0)
    assert eval_bound(divide(X, by), {X: (5, 8), by: (1, 4)}) == (1, 8)
    assert eval_bound(divide(X, size), {X: (5, 8), size: (0, 4)}) == (1, 8)
    assert eval_bound(divide(X, size + by), {X: (5, 8), size: (0, 2), by: (0, 2)}) == (0, 8)


def test_a_remainder_by_zero() -> None:
    by = Var("by")
    for e in (floormod(X, by), truncmod(X, by)):
        assert eval_bound(e, {X: (-3, 4), by: (0, 0)}) == (0, 0)


def test_binding_a_range() -> None:
    analyzer = Analyzer()
    i, j, n = Var("i"), Var("j"), Var("n")
    analyzer.bind(n, Range.of(4, 2))
    analyzer.bind(i, Range(n, n))
    assert analyzer.const_int_bound(i) == ConstIntBound(2, 9)
    analyzer.bind(j, Range(n, const(1)))
    assert analyzer.const_int_bound(j) == ConstIntBound(2, 5)
    analyzer.update_bound(i, ConstIntBound(-1, 1))
    assert analyzer.const_int_bound(i * 2) == ConstIntBound(-2, 2)


def test_a_cast_of_what_does_not_fit_can_be_anything() -> None:
    """All values of x + 300 are beyond uint8: they wrap, and may come out anywhere."""
    assert eval_bound(cast("uint8", X + 300), ENV) == (0, 255)
    assert eval_bound(cast("int8", X - 300), ENV) == (-128, 127)


def test_an_index_that_lies_outside_of_its_new_type_can_be_anything() -> None:
    """Index casts are taken to fit; of one that cannot, nothing is known."""
    wide = Var("wide", "int64")
    assert eval_bound(cast("int32", wide), {wide: (2**40, 2**41)}) == INT32
    assert eval_bound(cast("int32", wide), {wide: (5, 2**41)}) == (5, 2**31 - 1)


WORD = BufferLoad(decl_buffer((4,), "uint64", "W"), (const(0),))
LARGEST, LEAST = 2**64 - 1, -(2**63) + 1


@pytest.mark.parametrize(
    ("e", "value"),
    [
        (shift_right(const(LARGEST, "uint64"), const(4, "uint64")), LARGEST >> 4),
        (shift_right(const(LEAST, "int64"), const(3, "int64")), LEAST >> 3),
        (truncmod(const(LARGEST - 9, "uint64"), WORD), LARGEST - 9),  # W[0] is 2**64 - 1
    ],
)
def test_constants_beyond_what_a_bound_holds(e: Expr, value: int) -> None:
    """Quotients and remainders of them are not taken for as large as they are."""
    low, high = Analyzer().const_int_bound(e)
    assert low <= value and (value <= high or high == POS_INF)
