"""What jumps with floats, and the variables that it is made of."""

from __future__ import annotations

import pytest

from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Let, Var
from autosched.tir.jumps import deciding_variables, jumps, makes_whole
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore

X, N = Var("x", "float32"), Var("n", "int32")


@pytest.mark.parametrize(
    ("e", "expected", "whole"),
    [
        (op.cast("int8", X), True, True),
        (op.cast("bool", X), True, False),
        (op.cast("float16", X), False, False),
        (op.cast("int8", N), False, False),
        (op.lt(X, X + X), True, False),
        (op.ne(X, X + X), True, False),
        (op.lt(N, N * 2), False, False),
        (op.floordiv(X, X + X), True, False),
        (op.floormod(X, X + X), True, False),
        (op.truncmod(X, X + X), True, False),
        (op.floormod(N, 3), False, False),
        (op.truncdiv(X, X + X), False, False),
        (op.call("floor", X), True, True),
        (op.call("nearbyint", X), True, True),
        (op.call("fmod", X, X), True, False),
        (op.call("exp", X), False, False),
        (op.max_(X, X + X), False, False),
    ],
    ids=repr,
)
def test_what_jumps(e: Expr, expected: bool, whole: bool) -> None:
    assert (jumps(e), expected and makes_whole(e)) == (expected, whole)


def test_variables_that_jumps_are_made_of() -> None:
    body = parse_func("""\
def main(A: Buffer((4,), float32), Y: Buffer((4,), float32)):
    for i in range(4):
        z: float32 = A[i] * A[i]
        a: float32 = z * z
        b: float32 = a + a
        c: float32 = a * b
        n: int32 = i + 1
        Y[i] = floor(b) + c + float32(n)
""").body
    assert sorted(var.name for var in deciding_variables(body)) == ["a", "b", "z"]


def test_variables_inside_of_expressions() -> None:
    a = decl_buffer((4,), "float32", "a")
    square = Let(X, BufferLoad(a, (N,)) * 2.0, op.call("floor", X))
    body = BufferStore(a, square, (N,))
    assert deciding_variables(body) == {X}
    assert deciding_variables(BufferStore(a, Let(X, X + X, X * X), (N,))) == frozenset()
