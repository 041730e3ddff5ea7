"""Integers divided by zero, and the least number by -1: NumPy's results, no dead process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build, build_func, build_steps, lower_func
from autosched.runtime.cpu import load
from autosched.state.steps import ComputeInlineStep, Step
from autosched.target import cpu_target
from autosched.task import Task
from autosched.tir.parser import parse_func
from autosched.workloads.evaluate import evaluate

N = 48
NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": lambda a, b: (a - np.fmod(a, b)) // b,
    "truncmod": np.fmod,
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("name", NUMPY)
def test_as_numpy_says(name: str, dtype: str, lanes: int) -> None:
    A, B = te.placeholder((N,), dtype, "A"), te.placeholder((N,), dtype, "B")
    C = te.compute((N,), lambda i: getattr(te, name)(A[i], B[i]), "C")
    s = te.create_schedule(C.op)
    if lanes > 1:
        _, inner = s[C].split(C.op.axis[0], lanes)
        s[C].vectorize(inner)
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    a = rng.integers(limits.min // 2, limits.max // 2, N).astype(dtype)
    b = rng.integers(max(limits.min, -3), 4, N).astype(dtype)
    a[:6], b[:6] = limits.min, np.array([0, limits.max, 1, 0, 2, 1], dtype)
    if limits.min < 0:
        b[1] = -1
    found = np.empty(N, dtype)
    load(build(s, [A, B, C], cpu_target(1)))(a, b, found)
    with np.errstate(all="ignore"):
        expected = NUMPY[name](a, b).astype(dtype)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(evaluate([A, B, C], [a, b])[0], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("name", NUMPY)
def test_vectors_next_to_whole_quotients(name: str, dtype: str) -> None:
    """They are divided as floats: no quotient may be rounded to the next whole number."""
    limits, rng, n = np.iinfo(dtype), np.random.default_rng(1), 4096
    b = np.exp(rng.uniform(0, np.log(limits.max), n)).astype(np.int64)
    a = (rng.uniform(0, limits.max, n) / b).astype(np.int64) * b + rng.integers(-1, 2, n)
    a, b = (np.clip(x, 1, limits.max) for x in (a, b))
    a[:16] = limits.max
    if limits.min < 0:
        a, b = (x * rng.choice([-1, 1], n) for x in (a, b))
    a, b = a.astype(dtype), b.astype(dtype)
    A, B = te.placeholder((n,), dtype, "A"), te.placeholder((n,), dtype, "B")
    C = te.compute((n,), lambda i: getattr(te, name)(A[i], B[i]), "C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[0], 16)[1])
    found = np.empty(n, dtype)
    load(build(s, [A, B, C], cpu_target(1)))(a, b, found)
    np.testing.assert_array_equal(found, NUMPY[name](a, b).astype(dtype))


@pytest.mark.parametrize("primitives", ["", "unroll", "vectorize", "parallel", "unroll parallel"])
@pytest.mark.parametrize("name", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_a_divisor_that_is_zero_only_beyond_the_axis(name: str, primitives: str) -> None:
    """Loops that a split makes longer are cut and unrolled there, under conditions of theirs."""
    A = te.placeholder((7,), "int32", "A")
    C = te.compute((7,), lambda i: getattr(te, name)(A[i], 7 - i), "C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 4)
    for primitive in primitives.split():
        getattr(s[C], primitive)(outer if primitive == "parallel" else inner)
    a, found = np.arange(20, 27, dtype=np.int32), np.empty(7, np.int32)
    load(build(s, [A, C], cpu_target(1)))(a, found)
    np.testing.assert_array_equal(found, NUMPY[name](a, 7 - np.arange(7)))


@pytest.mark.parametrize("steps", [(), (ComputeInlineStep(2),)])
@pytest.mark.parametrize("operator", ["//", "%"])
def test_a_divisor_that_is_always_zero(operator: str, steps: tuple[Step, ...]) -> None:
    """Simplifying finds it out, here or once `T` is inlined."""
    text = f"T[i] = {'B[i] - B[i]' if steps else 'B[i]'}\n"
    text += f"C[i] = A[i] {operator} {'T[i]' if steps else '(T[i] - T[i])'}"
    given = {"expr": text, "shapes": {"A": [8], "B": [8]}, "dtype": "int32"}
    task = Task.from_json_workload(given, cpu_target(1))
    found = np.full(8, 9, np.int32)
    load(build_steps(task.dag, steps, cpu_target(1)))(*task.inputs(seed=0), found)
    assert not found.any()


INDICES: dict[str, Callable[..., Any]] = {
    "x / i": lambda x, i, quotient, rest: quotient(x, i),
    "x % i": lambda x, i, quotient, rest: rest(x, i),
    "x / (i - 5)": lambda x, i, quotient, rest: quotient(x, i - 5),
    "i / i": lambda x, i, quotient, rest: quotient(i, i),
    "x i / i": lambda x, i, quotient, rest: quotient(x * i, i),
    "(x i + i) / i": lambda x, i, quotient, rest: quotient(x * i + i, i),
    "i / (i % 3) (i % 3) + i % (i % 3)": lambda x, i, quotient, rest: (
        quotient(i, i % 3) * (i % 3) + rest(i, i % 3)
    ),
    "(i + 50) / i >= 1": lambda x, i, quotient, rest: quotient(i + 50, i) >= 1,
    "(i + 50) % i < i": lambda x, i, quotient, rest: rest(i + 50, i) < i,
    "i - i / (i % 3) (i % 3) < 3": lambda x, i, quotient, rest: (
        i - quotient(i, i % 3) * (i % 3) < 3
    ),
    "x / (i // 40)": lambda x, i, quotient, rest: quotient(x, i // 40),
}


@pytest.mark.parametrize("primitive", ["", "unroll", "vectorize"])
@pytest.mark.parametrize("kind", ["floor", "trunc"])
@pytest.mark.parametrize("name", INDICES)
def test_indices_that_are_zero(name: str, kind: str, primitive: str) -> None:
    """Unrolled, the divisor is the number 0."""
    X = te.placeholder((N,), "int32", "X")
    parts, value = (f"{kind}div", f"{kind}mod"), INDICES[name]

    def element(i: Any) -> Any:
        return te.cast("int32", value(X[i], i, *(getattr(te, part) for part in parts)))

    C = te.compute((N,), element, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], 16)
    if primitive:
        getattr(s[C], primitive)(inner)
    x, i = np.arange(N, dtype=np.int32) * 7 - 30, np.arange(N, dtype=np.int32)
    found = np.empty(N, np.int32)
    load(build(s, [X, C], cpu_target(1)))(x, found)
    with np.errstate(all="ignore"):
        expected = value(x, i, *(NUMPY[part] for part in parts)).astype(np.int32)
    np.testing.assert_array_equal(found, expected)


def test_parameters_that_are_zero() -> None:
    """A value, and how often a loop runs."""
    func = parse_func("""\
def main(n: int32, Y: Buffer((8,), int32)):
    for i in range(4 - 8 // n):
        Y[i] = 7 % n + 7 // n
""")
    kernel = load(build_func(lower_func(func, cpu_target(1)), cpu_target(1)))
    for n, wanted in ((0, [0] * 4 + [9] * 4), (4, [4] * 2 + [9] * 6), (-2, [-5] * 8)):
        y = np.full(8, 9, np.int32)
        kernel(n, y)
        assert y.tolist() == wanted


BOUNDED: dict[str, Callable[..., Any]] = {
    "(x + 5) / y >= 1": lambda x, y, quotient, rest: quotient(x + 5, y) >= 1,
    "(x - 9) / y <= -1": lambda x, y, quotient, rest: quotient(x - 9, y) <= -1,
    "(x - 9) / (y - 3) >= 1": lambda x, y, quotient, rest: quotient(x - 9, y - 3) >= 1,
    "x % y < y": lambda x, y, quotient, rest: rest(x, y) < y,
    "x - x / y y < 3": lambda x, y, quotient, rest: x - quotient(x, y) * y < 3,
}


@pytest.mark.parametrize("kind", ["floor", "trunc"])
@pytest.mark.parametrize("name", BOUNDED)
def test_what_the_bounds_of_data_say_of_its_quotients(name: str, kind: str) -> None:
    """x is in [0, 7], y in [0, 3]: a quotient by 0 is 0, which is no quotient by 1 to 3."""
    X, Y = (te.placeholder((N,), "int32", n) for n in "XY")
    parts, value = (f"{kind}div", f"{kind}mod"), BOUNDED[name]

    def element(i: Any) -> Any:
        of_te = (getattr(te, part) for part in parts)
        return te.cast("int32", value(X[i] % 8, Y[i] % 4, *of_te))

    C = te.compute((N,), element, "C")
    x, y = np.arange(N, dtype=np.int32) % 8, np.arange(N, dtype=np.int32) // 8 % 4
    found = np.empty(N, np.int32)
    load(build(te.create_schedule(C.op), [X, Y, C], cpu_target(1)))(x, y, found)
    with np.errstate(all="ignore"):
        expected = value(x, y, *(NUMPY[part] for part in parts)).astype(np.int32)
    np.testing.assert_array_equal(found, expected)


IDENTITIES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "x / x": lambda x, y, quotient, rest: quotient(x, x),
    "3 x / x": lambda x, y, quotient, rest: quotient(x * 3, x),
    "4 x / 2 x": lambda x, y, quotient, rest: quotient(x * 4, x * 2),
    "x y / y": lambda x, y, quotient, rest: quotient(x * y, y),
    "y x / y": lambda x, y, quotient, rest: quotient(y * x, y),
    "(x + y) / x": lambda x, y, quotient, rest: quotient(x + y, x),
    "(y + x) / x": lambda x, y, quotient, rest: quotient(y + x, x),
    "(x y + x) / y": lambda x, y, quotient, rest: quotient(x * y + x, y),
    "x / y y + x % y": lambda x, y, quotient, rest: quotient(x, y) * y + rest(x, y),
    "(x + y) % y": lambda x, y, quotient, rest: rest(x + y, y),
}


@pytest.mark.parametrize(("dtype", "wide"), [("uint8", "int32"), ("int8", "int64"), ("int16", "")])
@pytest.mark.parametrize("kind", ["floor", "trunc"])
@pytest.mark.parametrize("name", IDENTITIES)
def test_what_cancels_out_but_for_zeros(name: str, kind: str, dtype: str, wide: str) -> None:
    """x y / y is no x where y is 0, in types that hold the product as well."""
    X, Y = te.placeholder((N,), dtype, "X"), te.placeholder((N,), dtype, "Y")
    wide = wide or dtype
    parts = f"{kind}div", f"{kind}mod"
    of_te = [getattr(te, part) for part in parts]
    of_arrays = [NUMPY[part] for part in parts]
    identity = IDENTITIES[name]

    def element(i: Any) -> Any:
        return identity(te.cast(wide, X[i]), te.cast(wide, Y[i]), *of_te)

    C = te.compute((N,), element, "C")
    s = te.create_schedule(C.op)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 4, N).astype(dtype) for _ in range(2))
    found = np.empty(N, wide)
    load(build(s, [X, Y, C], cpu_target(1)))(x, y, found)
    with np.errstate(all="ignore"):
        expected = identity(x.astype(wide), y.astype(wide), *of_arrays)
    np.testing.assert_array_equal(found, expected)
