"""Sizes of allocations, and bindings around a body."""

from __future__ import annotations

import pytest

from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm, Var, pointer
from autosched.tir.stmt import TRUE, Allocate, LetStmt, let, nop

N = Var("n")


@pytest.mark.parametrize(
    ("dtype", "extents", "size"),
    [
        ("float32", (IntImm(3), IntImm(5)), 60),
        ("float16x4", (IntImm(3),), 24),
        ("int8", (IntImm(0), IntImm(5)), 0),
        ("int8", (IntImm(5), N), None),
    ],
)
def test_bytes_of_an_allocation(dtype: str, extents: tuple[Expr, ...], size: int | None) -> None:
    data = pointer("a", DType(dtype), "shared")
    assert Allocate(data, DType(dtype), extents, TRUE, nop()).constant_bytes == size


def test_the_first_of_several_bindings_is_the_outermost() -> None:
    i, j, body = Var("i"), Var("j"), nop()
    outer = let(((i, N), (j, i)), body)
    assert isinstance(outer, LetStmt) and (outer.var, outer.value) == (i, N)
    inner = outer.body
    assert isinstance(inner, LetStmt) and (inner.var, inner.value, inner.body) == (j, i, body)
    assert let((), body) is body
