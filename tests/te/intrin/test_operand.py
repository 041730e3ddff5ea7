"""Operands that a sum computes: which types hold their values, and what they are indexed by."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.te.intrin.operand import computed, element, of_type
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var

I, J, K = (Var(name) for name in "ijk")
AXES = {I: 6, J: 6, K: 8}
BYTES = te.placeholder((8, 8), "int8", "A")
WIDE = te.placeholder((8, 8), "int32", "B")
HALVES = te.placeholder((8, 8), "bfloat16", "H")
FLOATS = te.placeholder((8, 8), "float32", "F")
EIGHTS = te.placeholder((8, 8), "float8_e5m2", "E")


def _int(e: Expr) -> Expr:
    return te.cast("int32", e)


def _float(e: Expr) -> Expr:
    return te.cast("float32", e)


@pytest.mark.parametrize(
    ("e", "dtype", "holds"),
    [
        (_int(BYTES[I, K]), "int8", True),
        (_int(BYTES[I, K]), "uint8", False),
        (te.max(_int(BYTES[I, K]), te.const(0, "int32")), "uint8", True),
        (_int(BYTES[I, K]) - 1, "int8", False),
        (_int(BYTES[I, K]) - 1, "int16", True),
        (_int(te.cast("uint16", BYTES[I, K])), "int8", False),
        (_int(te.cast("int8", WIDE[I, K])), "int8", True),
        (WIDE[I, K], "int8", False),
        (te.if_then_else(WIDE[I, K] > 0, _int(BYTES[I, K]), I), "int8", True),
        (te.if_then_else(WIDE[I, K] > 0, _int(BYTES[I, K]), I * 100), "int8", False),
        (_float(HALVES[I, K]), "bfloat16", True),
        (_float(HALVES[I, K]) * 2.0, "bfloat16", False),
        (_float(HALVES[I, K] * HALVES[K, I]), "bfloat16", False),
        (_float(te.cast("bfloat16", FLOATS[I, K])), "bfloat16", True),
        (te.max(_float(HALVES[I, K]), te.const(0.0, "float32")), "bfloat16", True),
        (te.max(_float(HALVES[I, K]), te.const(0.1, "float32")), "bfloat16", False),
        (_float(BYTES[I, K]), "bfloat16", True),
        (_float(_int(BYTES[I, K]) * 3), "bfloat16", False),
        (_float(_int(BYTES[I, K]) * 3), "float16", True),
        (_float(EIGHTS[I, K]), "bfloat16", True),
        (_float(HALVES[I, K]), "float16", False),
        (FLOATS[I, K], "float16", False),
        (FLOATS[I, K], "int8", False),
        (EIGHTS[I, K], "int16", False),
    ],
)
def test_of_type(e: Expr, dtype: str, holds: bool) -> None:
    found = of_type(e, DType(dtype), AXES)
    assert (found is not None) is holds
    if found is not None:
        assert found.dtype is DType(dtype)


def test_casts_that_keep_the_value_are_left_out() -> None:
    assert of_type(_float(HALVES[I, K]), DType("bfloat16"), AXES) is HALVES[I, K]


def test_it_is_indexed_by_the_variables_in_it() -> None:
    load = computed(_int(BYTES[WIDE[K, 0] % 8, J]) - K % 2, DType("int16"), AXES)
    assert load is not None
    assert load.indices == (K, J)
    assert str(load.producer.shape) == "(8, 6)"
    p, q = Var("p"), Var("q")
    assert str(element(load, (p, q))) == "int16(int32(A[B[p, 0] % 8, q]) - p % 2)"


def test_an_index_whose_variables_occur_nowhere_else_is_one_axis() -> None:
    """The window of a convolution is read once, not once for each of its places."""
    y = Var("y")
    axes = {**AXES, y: 3}
    relu = te.max(_int(BYTES[I + y, K]), te.const(0, "int32"))
    load = computed(relu, DType("uint8"), axes)
    assert load is not None
    assert [str(index) for index in load.indices] == ["i + y", "k"]
    assert str(load.producer.shape) == "(8, 8)"
    load = computed(relu + I % 2, DType("uint8"), axes)
    assert load is not None
    assert set(load.indices) == {I, y, K}
    assert computed(te.max(_int(BYTES[I + y - 1, K]), I), DType("uint8"), axes) is not None
    other = Var("other")
    assert computed(_int(BYTES[other, K]), DType("int8"), AXES) is None
    assert computed(I % 2, DType("int8"), AXES) is None
