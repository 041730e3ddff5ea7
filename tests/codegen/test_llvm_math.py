"""Elementwise mathematics: accuracy over the whole range, infinities, NaN, subnormals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_math import POLYNOMIALS, TIERS
from autosched.target import cpu_target
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from autosched.tir.intrin import BINARY_MATH
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


def assert_close(found: Array, exact: Array, ulps: float) -> None:
    """float32 results next to those of float64: infinities, NaN and signs of zeros are the same."""
    expected = exact.astype(np.float32)
    finite = np.isfinite(expected) & np.isfinite(found)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    found, expected, exact = found[finite], expected[finite], exact[finite]
    zero = (found == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))
    unit = np.maximum(np.spacing(np.abs(expected)).astype(np.float64), 2.0**-126 * 1e-6)
    error = np.abs(found.astype(np.float64) - exact) / unit
    assert error.max() <= ulps


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(
    ("name", "reference", "ulps"),
    [
        ("exp", np.exp, 1.01),
        ("log", np.log, 1.01),
        ("tanh", np.tanh, 4.01),
        ("sigmoid", sigmoid, 2.41),
        ("erf", erf, 8.01),
        ("sqrt", np.sqrt, 0.5),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 1.51),
        ("floor", np.floor, 0),
        ("exp2", np.exp2, 1.01),
        ("exp10", lambda x: 10.0**x, 1.11),
        ("log2", np.log2, 1.31),
        ("log10", np.log10, 1.01),
        ("log1p", np.log1p, 2.41),
        ("sin", np.sin, 2.51),
        ("cos", np.cos, 2.51),
        ("tan", np.tan, 1.41),
        ("expm1", np.expm1, 0.51),
        ("sinh", np.sinh, 0.51),
        ("cosh", np.cosh, 0.51),
        ("asinh", np.arcsinh, 0.51),
        ("acosh", np.arccosh, 0.51),
        ("atanh", np.arctanh, 0.51),
        ("atan", np.arctan, 0.51),
        ("asin", np.arcsin, 0.51),
        ("acos", np.arccos, 0.51),
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
        assert_close(out, reference(x.astype(np.float64)), ulps)


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


LANE_BY_LANE = {"sin", "cos", "tan", "fmod"}
"""Of which the library has some lanes, in a function of their own."""


@pytest.mark.parametrize("name", sorted({*POLYNOMIALS, *TIERS}))
def test_vectors_do_without_the_library(name: str, elementwise: Elementwise) -> None:
    count = 2 if name in BINARY_MATH else 1
    f = elementwise(lambda *a: op.call(name, *a), ["float32"] * count, "float32", 32, 16)
    text = emit_llvm(f, cpu_target(2))
    helpers = re.findall(r"^define internal <16 x float> (@\S+)\(.*?^}", text, re.M | re.S)
    calls = len(re.findall(r"call float @", text))
    if name in LANE_BY_LANE:
        _, far = text.split("\nfar", 1)
        assert helpers == [f"@{name}.v16f32"]
        assert calls == 16 == len(re.findall(rf"call float @{name}f\(", far))
    else:
        assert not helpers and not calls


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size(name: str, elementwise: Elementwise, run: RunKernel) -> None:
    """Multiples of a quarter turn, and lanes of all sizes beside one another."""
    random = np.random.default_rng(1)
    quarters = np.arange(1, 8001) * np.pi / 2
    any_size = 10.0 ** random.uniform(-3, 38, 16000) * random.choice([-1, 1], 16000)
    x = np.concatenate([quarters, quarters * 4096, any_size]).astype(np.float32)
    out = np.zeros_like(x)
    run(elementwise(lambda a: op.call(name, a), ["float32"], "float32", len(x), 16), x, out)
    assert_close(out, getattr(np, name)(x.astype(np.float64)), 2.51)


CORNERS = (
    *(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e-45, 2.0**-126, 3e38, 2.0**24, 2.0**24 - 1),
    *(1 - 2.0**-24, 1 + 2.0**-23, np.inf),
)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(
    ("name", "reference", "ulps"),
    [
        ("pow", np.power, 0.51),
        ("fmod", np.fmod, 0),
        ("atan2", np.arctan2, 0.51),
        ("hypot", np.hypot, 0.51),
        ("copysign", np.copysign, 0),
    ],
)
def test_two_arguments(
    name: str,
    reference: Callable[..., Array],
    ulps: float,
    lanes: int,
    elementwise: Elementwise,
    run: RunKernel,
) -> None:
    random = np.random.default_rng(2)
    corners = np.array([*CORNERS, *(-c for c in CORNERS), np.nan], np.float32)
    pairs = [part.ravel() for part in np.meshgrid(corners, corners)]
    x, y = (
        np.concatenate([part, np.exp(random.normal(size=4000) * 2) * random.choice([-1, 1], 4000)])
        for part in pairs
    )
    y[-2000:] = np.rint(y[-2000:])
    x, y = (np.resize(part, -(-len(part) // 8) * 8).astype(np.float32) for part in (x, y))
    out = np.zeros_like(x)
    f = elementwise(lambda a, b: op.call(name, a, b), ["float32"] * 2, "float32", len(x), lanes)
    run(f, x, y, out)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        assert_close(out, exact, ulps)


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
