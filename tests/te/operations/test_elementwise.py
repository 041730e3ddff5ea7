"""Operators on whole tensors, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_func, lower
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.expr import IntImm

TARGET = cpu_target(threads=1)
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
INTEGER = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]
SHAPES = [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1), (1, 5)), ((), (3,)), ((2, 1, 3), (4, 1))]


def check(inputs: list[Any], result: Any, arrays: list[Any], wanted: Any) -> None:
    assert tuple(e.value for e in result.shape if isinstance(e, IntImm)) == wanted.shape
    assert result.dtype.numpy == wanted.dtype
    func = lower(te.create_schedule(result.op), [*inputs, result], TARGET)
    run: Callable[..., object]
    for run in (lambda *x: interp.run(func, list(x)), load(build_func(func, TARGET))):
        found = np.zeros_like(wanted)
        run(*arrays, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    return np.asarray(np.random.default_rng(len(shape)).integers(1, 9, shape), dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_two_tensors(shapes: Any, dtype: str) -> None:
    A, B = (te.placeholder(s, dtype, name) for s, name in zip(shapes, "AB", strict=True))
    a, b = (drawn(s, dtype) for s in shapes)
    for function in ARITHMETIC if dtype == "float32" else INTEGER:
        check([A, B], function(A, B), [a, b], np.asarray(function(a, b), dtype))


@pytest.mark.parametrize("function", ARITHMETIC)
def test_a_number_on_either_side(function: Any) -> None:
    A = te.placeholder((3, 4), name="A")
    a = drawn((3, 4), "float32")
    check([A], function(A, 2.5), [a], function(a, np.float32(2.5)))
    check([A], function(2.5, A), [a], function(np.float32(2.5), a))


def test_operators_nest_and_have_names() -> None:
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((4,), name="B")
    a, b = drawn((3, 4), "float32"), drawn((4,), "float32")
    result = -(A + B) * 2.0 - B
    assert result.name == "T_subtract"
    check([A, B], result, [a, b], -(a + b) * 2 - b)
    check([A], A.astype("int32"), [a], a.astype("int32"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_opposite_of_zero_is_signed(dtype: str) -> None:
    A = te.placeholder((6,), dtype, "A")
    a = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf], dtype)
    for width in (1, 6):  # a loop, and lanes
        B = te.compute((6,), lambda i: -A[i], name="B")
        s = te.create_schedule(B.op)
        _, lanes = s[B].split(B.op.axis[0], factor=width)
        s[B].vectorize(lanes)
        func = lower(s, [A, B], TARGET)
        run: Callable[..., object]
        for run in (lambda *x, f=func: interp.run(f, list(x)), load(build_func(func, TARGET))):
            found = np.zeros_like(a)
            run(a, found)
            assert found.tolist() == (-a).tolist()
            assert np.signbit(found).tolist() == np.signbit(-a).tolist()


def test_symbolic_shapes_must_be_the_same() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A, B, C = te.placeholder((n,)), te.placeholder((n,)), te.placeholder((m,))
    assert (A + B).shape == (n,)
    with pytest.raises(ValueError, match="do not fit: dimension -1 is n and m"):
        A + C
    with pytest.raises(ValueError, match="dimensions must be equal or 1"):
        te.placeholder((4,)) * te.placeholder((5,))


def test_types_that_have_no_such_operation_are_refused() -> None:
    with pytest.raises(TypeError, match="ambiguous"):
        te.placeholder((4,), "int32") / te.placeholder((4,), "int32")


def test_powers_and_absolute_values() -> None:
    A = te.placeholder((3, 4), name="A")
    a = drawn((3, 4), "float32") - np.float32(4)
    check([A], A**2, [a], a**2)
    check([A], abs(A), [a], np.abs(a))
    check([A], 2 ** abs(A), [a], 2 ** np.abs(a))
