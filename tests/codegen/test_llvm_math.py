"""Elementwise mathematics: accuracy over the whole range, infinities, NaN, subnormals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from kit.types import Array, Elementwise, RunKernel


def inputs() -> Array:
    parts = [
        np.linspace(-110, 110, 4001),
        np.linspace(-3, 3, 4001),
        10.0 ** np.linspace(-45, 38, 2001),
        -(10.0 ** np.linspace(-45, 38, 2001)),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 88.72, 88.73, -87.34, -103.9, -104.1]),
    ]
    x = np.concatenate(parts).astype(np.float32)
    return x[: len(x) // 16 * 16] if len(x) % 16 == 0 else np.resize(x, -(-len(x) // 16) * 16)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def erf(x: Array) -> Array:
    result: Array = np.vectorize(math.erf)(x)
    return result


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(
    ("name", "reference", "ulps"),
    [
        ("exp", np.exp, 1.01),
        ("log", np.log, 1.01),
        ("tanh", np.tanh, 4.01),
        ("sigmoid", sigmoid, 2.01),
        ("erf", erf, 8.01),
        ("sqrt", np.sqrt, 0.5),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 1.01),
        ("floor", np.floor, 0),
        ("log1p", np.log1p, 2),
        ("sin", np.sin, 2),
    ],
)
def test_float32(
    name: str,
    reference: Callable[..., Array],
    ulps: float,
    lanes: int,
    elementwise: Elementwise,
    run: RunKernel,
) -> None:
    x = inputs()
    out = np.zeros_like(x)
    f = elementwise(lambda a: op.call(name, a), ["float32"], "float32", len(x), lanes)
    run(f, x, out)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64)).astype(np.float32)
        finite = np.isfinite(expected) & np.isfinite(out)
        np.testing.assert_array_equal(out[~finite], expected[~finite])
        unit = np.maximum(np.spacing(np.abs(expected[finite])).astype(np.float64), 2.0**-126 * 1e-6)
        error = np.abs(out[finite].astype(np.float64) - expected[finite]) / unit
    assert error.max() <= ulps


@pytest.mark.parametrize("lanes", [8, 9, 45])
def test_exp_of_other_registers(lanes: int, elementwise: Elementwise, run: RunKernel) -> None:
    """Those that are not filled, or several, agree with single lanes but for the last places."""

    def exp(a: Expr) -> Expr:
        return op.call("exp", a)

    x = inputs()[-11880:]  # a number that all of the widths divide
    results = []
    for width in (lanes, 1):
        results.append(np.zeros_like(x))
        run(elementwise(exp, ["float32"], "float32", len(x), width), x, results[-1])
    np.testing.assert_array_max_ulp(results[0], results[1], maxulp=2)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["exp", "tanh", "log", "erf", "sigmoid", "floor", "sqrt", "cos"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_floats(
    dtype: str, name: str, lanes: int, elementwise: Elementwise, run: RunKernel
) -> None:
    kind = DType(dtype).numpy
    x = np.linspace(0.1, 5, 64).astype(kind)
    out = np.zeros(64, kind)
    run(elementwise(lambda a: op.call(name, a), [dtype], dtype, 64, lanes), x, out)
    functions = {"erf": erf, "sigmoid": sigmoid}
    expected = (functions.get(name) or getattr(np, name))(x.astype(np.float64))
    tolerance = {"float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=tolerance)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["pow", "fmod", "atan2", "hypot", "copysign"])
def test_two_arguments(name: str, lanes: int, elementwise: Elementwise, run: RunKernel) -> None:
    x, y = np.linspace(0.5, 4, 64, dtype=np.float32), np.linspace(-2, 3, 64, dtype=np.float32)
    out = np.zeros(64, np.float32)
    f = elementwise(lambda a, b: op.call(name, a, b), ["float32"] * 2, "float32", 64, lanes)
    run(f, x, y, out)
    reference = {"pow": np.power, "atan2": np.arctan2}.get(name) or getattr(np, name)
    np.testing.assert_allclose(out, reference(x, y), rtol=1e-6)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classification(
    name: str, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    x = np.array([0, 1, np.nan, np.inf, -np.inf, -np.nan, 1e-45, 3e38], np.float32)
    f = elementwise(lambda a: op.call(name, a, dtype=DType("bool")), ["float32"], "bool", 8)
    same_as_interpreted(f, x, np.zeros(8, bool))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
@pytest.mark.parametrize("name", ["clz", "popcount", "bitwise_not"])
def test_bits_of_one_argument(
    name: str, dtype: str, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    x = np.array([0, 1, 2, 3, 64, 100, 127, 5], DType(dtype).numpy)
    same_as_interpreted(
        elementwise(lambda a: op.call(name, a), [dtype], dtype, 8), x, np.zeros_like(x)
    )


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8"])
@pytest.mark.parametrize(
    "name", ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)
def test_bits_of_two_arguments(
    name: str, dtype: str, lanes: int, elementwise: Elementwise, same_as_interpreted: RunKernel
) -> None:
    kind = DType(dtype).numpy
    x = np.array([0, 1, 2, 3, 64, 100, 127, 5], kind)
    y = np.array([0, 1, 2, 3, 4, 5, 6, 7], kind)
    f = elementwise(lambda a, b: op.call(name, a, b), [dtype] * 2, dtype, 8, lanes)
    same_as_interpreted(f, x, y, np.zeros_like(x))
