"""Elementwise mathematics: accuracy over the whole range, infinities, NaN, subnormals."""

from __future__ import annotations

import dataclasses
import math
import platform
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import assembly
from autosched.codegen.llvm_math import POLYNOMIALS, TIERS
from autosched.runtime.cpu import build_artifact, load
from autosched.target import Target, cpu_target
from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from autosched.tir.intrin import BINARY_MATH
from kit.cpus import CPUS
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
    """Results next to those of a wider type: infinities, NaN and signs of zeros are the same."""
    expected = exact.astype(found.dtype)
    finite = np.isfinite(expected) & np.isfinite(found)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    found, expected, exact = found[finite], expected[finite], exact[finite]
    zero = (found == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))
    unit = np.spacing(np.abs(expected)).astype(exact.dtype)
    if found.dtype == np.float32:
        unit = np.maximum(unit, 2.0**-126 * 1e-6)
    error = np.abs(found.astype(exact.dtype) - exact) / unit
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


def wide_inputs() -> Array:
    """The same of float64."""
    random = np.random.default_rng(3)
    sizes = 10.0 ** np.linspace(-323, 308, 2001)
    ends = [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-1022, -(2.0**-1022), 1.0, -1.0),
        *(709.78, 709.79, 710.475, 710.476, -745.1, -745.2, 0.5, 1 - 2.0**-53, 1 + 2.0**-52),
    ]
    near_one = 1 + random.normal(size=4000) * 1e-3
    lines = np.linspace(-760, 760, 4001), np.linspace(-3, 3, 4001)
    x = np.concatenate([*lines, sizes, -sizes, near_one, ends])
    return np.resize(x, -(-len(x) // 16) * 16)


needs_longer_floats = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is float64 here"
)
OLD = dataclasses.replace(cpu_target(1), cpu="x86-64", features="", vector_bytes=16)
"""A CPU whose multiply-adds round twice: products with parts of constants must be exact."""


@needs_longer_floats
@pytest.mark.parametrize(
    ("target", "lanes"),
    [
        (cpu_target(1), 1),
        (cpu_target(1), 16),
        pytest.param(
            *(OLD, 2),
            marks=pytest.mark.skipif(
                platform.machine() not in ("x86_64", "AMD64"), reason="another kind of CPU"
            ),
        ),
    ],
)
@pytest.mark.parametrize(
    ("name", "reference", "ulps"),
    [
        ("exp", np.exp, 1.11),
        ("exp2", np.exp2, 1.21),
        ("exp10", lambda x: np.longdouble(10) ** x, 1.51),
        ("log", np.log, 0.91),
        ("log2", np.log2, 1.31),
        ("log10", np.log10, 1.51),
        ("log1p", np.log1p, 2.41),
        ("sigmoid", sigmoid, 2.51),
        ("sin", np.sin, 1.51),
        ("cos", np.cos, 2.51),
        ("tan", np.tan, 3.51),
        ("expm1", np.expm1, 2.51),
        ("sinh", np.sinh, 3.01),
        ("cosh", np.cosh, 1.51),
        ("tanh", np.tanh, 3.31),
        ("atan", np.arctan, 2.51),
        ("asin", np.arcsin, 2.31),
        ("acos", np.arccos, 1.31),
    ],
)
def test_float64(
    name: str,
    reference: Callable[..., Array],
    ulps: float,
    target: Target,
    lanes: int,
    elementwise: Elementwise,
) -> None:
    x = wide_inputs()
    out = np.zeros_like(x)
    f = elementwise(lambda a: op.call(name, a), ["float64"], "float64", len(x), lanes)
    load(build_artifact(f, target))(x, out)
    with np.errstate(all="ignore"):
        assert_close(out, reference(x.astype(np.longdouble)), ulps)


@pytest.mark.parametrize("lanes", [1, 8])
def test_erf_of_float64(lanes: int, elementwise: Elementwise, run: RunKernel) -> None:
    x = wide_inputs()
    out = np.zeros_like(x)
    run(elementwise(lambda a: op.call("erf", a), ["float64"], "float64", len(x), lanes), x, out)
    assert_close(out, erf(x), 1.0)  # a unit beside what errs by less than one itself


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


BASES = {"exp": np.e, "exp2": 2.0, "exp10": 10.0}


@needs_longer_floats
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize(("bits", "least"), [(32, -149), (64, -1074)])
def test_powers_at_the_least_subnormal(
    bits: int, least: int, name: str, cpu: str, elementwise: Elementwise
) -> None:
    """Where underflow is slow, lanes whose result is zero are left out, and no others."""
    target = dataclasses.replace(CPUS[cpu], triple=cpu_target().triple)
    lacking = set(target.features.split(",")) - set(cpu_target().features.split(","))
    if lacking:
        pytest.skip(f"this CPU lacks {','.join(sorted(lacking))}")
    near = np.linspace(least - 3, least + 3, 4001) * np.log(2) / np.log(BASES[name])
    x = np.concatenate([near, [-1e30, -np.inf, np.nan]]).astype(f"float{bits}")
    x = np.resize(x, 4096)
    f = elementwise(lambda a: op.call(name, a), [f"float{bits}"], f"float{bits}", len(x), 16)
    out = np.full_like(x, -1)
    load(build_artifact(f, target))(x, out)
    unit, wide = 2.0**least, np.longdouble
    expected = np.power(wide(BASES[name]), x.astype(wide)) if name != "exp" else np.exp(wide(x))
    np.testing.assert_array_equal(np.isnan(out), np.isnan(x))
    error = np.abs((out - expected) / wide(unit))[~np.isnan(x)]
    assert error.max() < (0.5001 if bits == 32 else 0.6)
    assert np.count_nonzero(out == 0) > 1000 < np.count_nonzero(out > 0)


@pytest.mark.parametrize(
    ("cpu", "lanes", "expected"),
    [("skylake-avx512", 16, "{z}"), ("znver4", 16, ""), ("haswell", 8, "vcmpnltps")],
)
def test_exponentials_of_zero_take_no_longer(
    cpu: str, lanes: int, expected: str, elementwise: Elementwise
) -> None:
    """On Intel's CPUs a product that underflows takes 200 cycles; masked attention has many."""
    known = CPUS["haswell" if lanes == 8 else "skylake-avx512"]
    f = elementwise(lambda a: op.call("exp", a), ["float32"], "float32", 64, lanes)
    target = dataclasses.replace(known, cpu=cpu)
    text = assembly(emit_llvm(f, target), target)
    if lanes == 16:
        found = re.findall(r"vscalefps.*?(\{z\}|$)", text, re.M)
        assert set(found) == {expected}
    else:
        assert expected in text


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


OWN = {bits: sorted({*POLYNOMIALS[bits], *TIERS[bits]}) for bits in (32, 64)}


@pytest.mark.parametrize(
    ("bits", "name"), [(bits, name) for bits, names in OWN.items() for name in names]
)
def test_vectors_do_without_the_library(bits: int, name: str, elementwise: Elementwise) -> None:
    count, dtype = 2 if name in BINARY_MATH else 1, f"float{bits}"
    f = elementwise(lambda *a: op.call(name, *a), [dtype] * count, dtype, 32, 16)
    target = dataclasses.replace(cpu_target(2), features=CPUS["haswell"].features)
    text, kind = emit_llvm(f, target), "float" if bits == 32 else "double"
    helpers = re.findall(rf"^define internal <16 x {kind}> (@\S+)\(.*?^}}", text, re.M | re.S)
    calls = len(re.findall(rf"call {kind} @", text))
    if name in LANE_BY_LANE or (bits, name) == (64, "atan2"):
        _, far = text.split("\nfar", 1)
        assert helpers == [f"@{name}.v16f{bits}"]
        library = name + ("f" if bits == 32 else "")
        assert calls == 16 == len(re.findall(rf"call {kind} @{library}\(", far))
    else:
        assert not helpers and not calls


@pytest.mark.parametrize("name", ["pow", "fmod"])
def test_functions_of_float64_that_need_fused_multiply_adds(
    name: str, elementwise: Elementwise
) -> None:
    f = elementwise(lambda *a: op.call(name, *a), ["float64"] * 2, "float64", 8, 2)
    target = dataclasses.replace(cpu_target(1), features="")
    assert emit_llvm(f, target).count(f"call double @{name}(") == 2


@needs_longer_floats
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_any_size_in_float64(name: str, elementwise: Elementwise, run: RunKernel) -> None:
    """The reference reduces what it is given by its own long pi."""
    random = np.random.default_rng(1)
    quarters = np.arange(1, 8001) * np.pi / 2
    any_size = 10.0 ** random.uniform(-3, 17, 16000) * random.choice([-1, 1], 16000)
    x = np.concatenate([quarters, quarters * 512, any_size])
    out = np.zeros_like(x)
    run(elementwise(lambda a: op.call(name, a), ["float64"], "float64", len(x), 8), x, out)
    assert_close(out, getattr(np, name)(x.astype(np.longdouble)), 3.51)


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
WIDE_CORNERS = (
    *(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5e-324, 2.0**-1022, 1.7e308, 1.2e308, 2.0**53, 2.0**53 - 1),
    *(1 - 2.0**-53, 1 + 2.0**-52, 1e-200, 1e200, np.inf),
)


def pairs_of(corners: Sequence[float], spread: float, dtype: type) -> tuple[Array, Array]:
    """All pairs of the corners and their negatives, and random numbers; some second ones whole."""
    random = np.random.default_rng(2)
    both = np.array([*corners, *(-c for c in corners), np.nan])
    x, y = (
        np.concatenate(
            [part.ravel(), np.exp(random.normal(size=4000) * spread) * random.choice([-1, 1], 4000)]
        )
        for part in np.meshgrid(both, both)
    )
    y[-2000:] = np.rint(y[-2000:])
    length = -(-len(x) // 8) * 8
    return np.resize(x, length).astype(dtype), np.resize(y, length).astype(dtype)


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
    x, y = pairs_of(CORNERS, 2, np.float32)
    out = np.zeros_like(x)
    f = elementwise(lambda a, b: op.call(name, a, b), ["float32"] * 2, "float32", len(x), lanes)
    run(f, x, y, out)
    with np.errstate(all="ignore"):
        assert_close(out, reference(x.astype(np.float64), y.astype(np.float64)), ulps)


@needs_longer_floats
@pytest.mark.parametrize("spread", [2, 60])
@pytest.mark.parametrize(
    ("name", "reference", "ulps"),
    [
        ("pow", np.power, 1.01),
        ("atan2", np.arctan2, 2.31),
        ("hypot", np.hypot, 1.21),
        ("fmod", np.fmod, 0),
    ],
)
def test_two_arguments_of_float64(
    name: str,
    reference: Callable[..., Array],
    ulps: float,
    spread: float,
    elementwise: Elementwise,
    run: RunKernel,
) -> None:
    x, y = pairs_of(WIDE_CORNERS, spread, np.float64)
    out = np.zeros_like(x)
    f = elementwise(lambda a, b: op.call(name, a, b), ["float64"] * 2, "float64", len(x), 8)
    run(f, x, y, out)
    with np.errstate(all="ignore"):
        assert_close(out, reference(x.astype(np.longdouble), y.astype(np.longdouble)), ulps)


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
