"""Index expressions as a constant plus multiples of sub-expressions."""

import numpy as np
import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import int32, int64
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import cast, const, floordiv
from autosched.tir.walk import substitute

X, Y, Z = Var("x"), Var("y"), Var("z")
N = decl_buffer((8,), "int32", "N")
VALUES = {X: 7, Y: -3, Z: 5}


def value(e: Expr) -> int:
    result = substitute(e, {v: const(n, v.dtype) for v, n in VALUES.items()})
    assert isinstance(result, IntImm)
    return result.value


@pytest.mark.parametrize(
    ("e", "constant", "terms"),
    [
        (X * 4 + Y - 3, -3, {X: 4, Y: 1}),
        (X - (Y - Z) * 2, 0, {X: 1, Y: -2, Z: 2}),
        ((X + 5) * 3 - X * 3, 15, {}),
        (floordiv(X, 2) * 6 + X, 0, {floordiv(X, 2): 6, X: 1}),
        (X * Y, 0, {X * Y: 1}),
        (const(9), 9, {}),
        (X - X, 0, {}),
    ],
)
def test_forms(e: Expr, constant: int, terms: dict[Expr, int]) -> None:
    assert linear(e) == (constant, terms)
    assert value(sum_of(terms, constant, int32)) == value(e)


def test_only_casts_to_more_bits_are_looked_through() -> None:
    wide = cast("int64", X + 1) * 8
    assert linear(wide) == (8, {X: 8})
    narrow = cast("int8", X * 2)
    assert linear(cast("int32", narrow) + 1) == (1, {cast("int32", narrow): 1})
    assert sum_of({X: 8}, 8, int64).dtype is int64


def test_casts_of_what_may_wrap_are_not_looked_through() -> None:
    """In int8 100 + 100 is -56, and data wraps in every type."""
    narrow = cast("int32", cast("int8", X) + cast("int8", Y))
    assert linear(narrow * 2 + 1) == (1, {narrow: 2})
    assert linear(narrow - narrow + X) == (0, {X: 1})
    data = cast("int64", N[X] + N[Y])
    assert linear(data + 1) == (1, {data: 1})


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint32", "uint64"])
def test_what_wraps_is_one_term(dtype: str) -> None:
    """In uint32 x - 1 is x + 4294967295."""
    x = cast(dtype, X)
    assert linear(x + 1) == (0, {x + 1: 1})
    assert linear((x - const(1, dtype)) * 3) == (0, {(x - const(1, dtype)) * 3: 1})
    assert linear(const(9, dtype)) == (9, {})


def test_random_sums_come_back() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        e: Expr = const(int(rng.integers(-9, 9)))
        for _ in range(5):
            other = (X, Y, Z, const(3))[rng.integers(4)] * int(rng.integers(-4, 5))
            e = e + other if rng.random() < 0.5 else other - e
        constant, terms = linear(e)
        assert value(e) == constant + sum(factor * value(term) for term, factor in terms.items())
        assert value(sum_of(terms, constant, int32)) == value(e)
        assert combine((constant, terms), (constant, terms), -1) == (0, {})
