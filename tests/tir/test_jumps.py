"""What jumps with floats, and the variables that it is made of."""

from __future__ import annotations

import pytest

from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Let, Var
from autosched.tir.jumps import deciding_variables, is_sum, jumps, made_whole
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, SeqStmt, Stmt
from autosched.tir.walk import stmts

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
    assert (jumps(e), bool(expected and made_whole(e))) == (expected, whole)


def test_terms_of_what_is_rounded_to_nearest_count() -> None:
    """What is rounded up or down tells the smallest numbers from zero."""
    quotient, total = X / X, X / X + X
    for e in (op.call("round", total), op.call("trunc", total - X), op.cast("int8", X - total)):
        assert {total, quotient} < made_whole(e)
    assert made_whole(op.call("floor", total)) == {total}
    assert quotient not in made_whole(op.call("round", total * X))


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
    a, b = (decl_buffer((4,), "float32", name) for name in "ab")
    square = Let(X, BufferLoad(a, (N,)) * 2.0, op.call("floor", X))
    body = BufferStore(b, square, (N,))
    assert deciding_variables(body) == {X}
    assert deciding_variables(BufferStore(b, Let(X, X + X, X * X), (N,))) == frozenset()


def kernel(lines: str) -> Stmt:
    """The body of a kernel that computes from A, by way of T and M, and stores to Y."""
    return parse_func(f"""\
def main(A: Buffer((8,), float32), Y: Buffer((8,), float32)):
    T = allocate((8,), float32, "global")
    M = allocate((8,), float32, "global")
{lines}
""").body


def of_memory(lines: str) -> list[str]:
    """The names of what decides in such a kernel."""
    return sorted(var.name for var in deciding_variables(kernel(lines)))


FLOORS = "    for i in range(8):\n        Y[i] = floor(M[i])"


def test_memory_that_jumps_are_made_of() -> None:
    stages = """\
    for j in range(8):
        T[j] = A[j] * A[j] + A[j]
    for k in range(8):
        M[k] = T[k] * T[k]
"""
    assert of_memory(stages + FLOORS) == ["M", "T"]
    assert of_memory(stages) == []


def test_extremes_are_made_of_what_is_compared() -> None:
    assert of_memory(f"""\
    for j in range(8):
        T[j] = A[j] * A[j] + A[j]
        M[0] = max(M[0], T[j])
{FLOORS}""") == ["M", "T"]


@pytest.mark.parametrize(
    ("added", "expected"), [("M[0] + T[j] * A[j]", []), ("M[0] + T[j]", ["M", "T"])]
)
def test_sums_of_products_are_left_out(added: str, expected: list[str]) -> None:
    """Their order is free; without a product there is nothing to fuse."""
    assert (
        of_memory(f"""\
    for j in range(8):
        T[j] = A[j] * A[j] + A[j]
        M[0] = {added}
{FLOORS}""")
        == expected
    )


def test_sums_of_products_may_be_followed() -> None:
    body = kernel(f"""\
    for j in range(8):
        T[j] = A[j] * A[j] + A[j]
        M[0] = M[0] + T[j] * A[j]
{FLOORS}""")
    found = deciding_variables(body, through_sums=True)
    assert sorted(var.name for var in found) == ["M", "T"]


def test_stages_in_the_memory_of_others_are_no_sums() -> None:
    assert of_memory(f"""\
    for j in range(8):
        M[j] = A[j] * A[j]
        M[j] = M[j] * A[j] + A[j]
{FLOORS}""") == ["M"]


def test_stages_in_the_memory_of_a_term_are_no_sums() -> None:
    """They have a buffer of their own; with the operand's they would add up."""
    lines = f"""\
    V = view(M, (8,), float32)
    for j in range(8):
        M[j] = A[j] + A[j]
        V[j] = A[j] * A[j] + M[j]
{FLOORS}"""
    stores = [s for s in stmts(kernel(lines)) if isinstance(s, BufferStore)]
    first, second, _ = stores
    assert not is_sum(second) and is_sum(second, first.buffer)
    assert of_memory(lines) == ["M"]


def test_steps_that_read_the_one_before_are_no_sums() -> None:
    assert of_memory(f"""\
    for j in range(7):
        M[j + 1] = A[j] * A[j] + M[j]
{FLOORS}""") == ["M"]


def test_functions_that_share_memory() -> None:
    whole = parse_func("""\
def main(A: Buffer((8,), float32), T: Buffer((8,), float32), Y: Buffer((8,), float32)):
    for i in range(8):
        T[i] = A[i] * A[i]
    for j in range(8):
        Y[j] = floor(T[j])
""").body
    assert isinstance(whole, SeqStmt)
    first, second = whole.stmts
    assert {var.name for var in deciding_variables(first, second)} == {"T"}
    assert deciding_variables(first) == deciding_variables(second) == frozenset()


def test_asynchronous_copies_hand_on_what_jumps_are_made_of() -> None:
    assert of_memory(f"""\
    for j in range(8):
        T[j] = A[j] * A[j]
    ptx_cp_async(M, 0, T, 0, 16)
{FLOORS}""") == ["M", "T"]
