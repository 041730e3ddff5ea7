"""Conversions written with integers are those of ml_dtypes, on every bit pattern."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Ramp
from autosched.tir.float_bits import narrow, widen
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import pre_order
from kit.floats import patterns, same_bits
from kit.stmts import func_of
from kit.types import Array

STORED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
WIDE = ("float16", "float32")


def applied(formula: Callable[[Expr], Expr], values: Array, source: str, target: str) -> Array:
    """`formula` of all values at once, as the interpreter computes it."""
    n = len(values)
    A, B = decl_buffer((n,), source, "A"), decl_buffer((n,), target, "B")
    everywhere = (Ramp(IntImm(0), IntImm(1), n),)
    out = np.zeros(n, DType(target).numpy)
    store = BufferStore(B, formula(BufferLoad(A, everywhere)), everywhere)
    interp.run(func_of(store, A, B), [values, out])
    return out


@pytest.mark.parametrize("source", WIDE)
@pytest.mark.parametrize("target", STORED)
def test_narrowing_rounds_as_ml_dtypes(source: str, target: str) -> None:
    values, kind = patterns(source), DType(target)
    exact = values.astype(np.float32)
    same_bits(applied(lambda e: narrow(e, kind), values, source, target), exact, target)
    saturated = applied(lambda e: narrow(e, kind, saturate=True), values, source, target)
    largest = float(kind.max_value)
    clipped = np.where(np.isnan(exact), exact, np.clip(exact, -largest, largest))
    same_bits(saturated, clipped.astype(np.float32), target)


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("source", STORED)
def test_widening_is_exact(source: str, target: str) -> None:
    values = patterns(source)
    found = applied(lambda e: widen(e, DType(target)), values, source, target)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, values.astype(np.float32).astype(target))
    assert (np.signbit(found) == np.signbit(values)).all()


@pytest.mark.parametrize(
    ("target", "source", "wrong"), [("float8_e5m2", "float16", 512), ("bfloat16", "float32", None)]
)
def test_the_forms_of_tvm_are_wrong_for_nan_alone(
    target: str, source: str, wrong: int | None
) -> None:
    values, kind = patterns(source), DType(target)
    found = applied(lambda e: narrow(e, kind, nan_safe=False), values, source, target)
    with np.errstate(all="ignore"):
        off = found.view(f"uint{kind.bits}") != values.astype(kind.numpy).view(f"uint{kind.bits}")
    assert np.isnan(values[off]).all()
    assert off.any()
    assert wrong is None or np.isnan(found[off]).sum() < off.sum() <= 2046
    if source == "float16":
        ends = found.view(np.uint8)[[0x7C01, 0x7FFF]]
        assert ends.tolist() == [0x7C, 0x80]  # infinity and -0


def test_an_operand_is_evaluated_once() -> None:
    operand = Call(DType("float32"), "exp", (decl_buffer((4,), "float32", "A")[0],))
    for target in STORED:
        found = narrow(operand, DType(target))
        assert isinstance(found, Let)
        assert sum(e is operand for e in pre_order(found)) == 1


def test_float64_and_integers_go_through_float32() -> None:
    """As every conversion of them to a small float does: the interpreter's too."""
    tie = 1 + 2.0**-4 + 2.0**-30  # float32 drops the last bit, then the tie goes to even
    values = np.full(16, tie)
    found = applied(lambda e: narrow(e, DType("float8_e4m3fn")), values, "float64", "float8_e4m3fn")
    cast = applied(lambda e: e.astype("float8_e4m3fnx16"), values, "float64", "float8_e4m3fn")
    assert (found == 1).all() and (cast == 1).all()
