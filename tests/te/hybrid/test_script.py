"""Functions of te.hybrid compute what Python computes when it runs them on arrays."""

# ruff: noqa: F821, SIM113  # names that te.hybrid knows; enumerate has no meaning in it
# mypy: disable-error-code="name-defined"

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched import te
from autosched.driver import build, lower, schedule_ops
from autosched.runtime.cpu import load
from autosched.target import cpu_target, cuda_target
from autosched.te.operations.operation import ExternOp
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp
from autosched.tir.printer import to_text

Array = npt.NDArray[Any]
Program = Callable[..., Any]
RNG = np.random.default_rng(0)
WEIGHTS = [0.5, 2.0, -1.0]


def cumulative(a: Any) -> Any:
    b = output_tensor(a.shape, "float32")
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i]
        b[i] = total
    return b


def bubble_sort(a: Any) -> Any:
    b = output_tensor(a.shape, "float32")
    swaps = output_tensor((1,), "int32")
    (size,) = a.shape
    swaps[0] = 0
    for i in range(size):
        b[i] = a[i]
    for i in range(size):
        for j in range(size - 1 - i):
            if b[j] > b[j + 1]:
                b[j], b[j + 1] = b[j + 1], b[j]
                swaps[0] += 1
    return b, swaps


def product(a: Any, b: Any) -> Any:
    """A matrix product."""
    n, m, k = a.shape[0], b.shape[1], a.shape[1]
    c = output_tensor((n, m), "float32")
    for i in parallel(n):
        row = allocate((16,), "float32", "local")
        for j in vectorize(16):
            row[j] = 0.0
        for x in range(k):
            left = a[i, x]
            for j in range(m):
                row[j] += left * b[x, j]
        for j in unroll(m):
            c[i, j] = row[j]
    return c


def branches(a: Any) -> Any:
    b = output_tensor(a.shape, "float32")
    for i, j in grid(a.shape[0], a.shape[1]):
        if 1 <= i < 5 and not (j == 2 or a[i, j] < 0.0):
            b[i, j] = a[i, j] * 2.0
        elif i == 5:
            b[i, j] = float32(i * 10 + j)
        else:
            b[i, j] = a[i, j] if j % 2 == 0 else -1
    return b


def rows_backwards(a: Any) -> Any:
    b = output_tensor(a.shape, "float32")
    at = 0
    for i in range(a.shape[0] - 1, -1, -1):
        for j in range(1, a.shape[1], 3):
            b[at, j] = a[i, j]
        for j in serial(a.shape[1]):
            if j % 3 != 1:
                b[at, j] = 0.0
        at += 1
    return b


def collatz(n: Any) -> Any:
    steps = output_tensor(n.shape, "int32")
    for i in range(n.shape[0]):
        x, count = n[i], 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            count += 1
        steps[i] = count
    return steps


def known_ahead(a: Any, weights: Any = WEIGHTS, clipped: bool = True) -> Any:
    b = output_tensor(a.shape, "float32")
    assert len(weights) > 1
    for i in range(a.shape[0]):
        for k in const_range(len(weights)):
            weight = weights[k]
            if k == 0:
                b[i] = a[i] * weight
            else:
                b[i] += a[i] * weight
        for more in WEIGHTS:
            b[i] = b[i] + more
        for k, more in enumerate(WEIGHTS):
            b[i] += more * k
        if clipped and len(weights) == 3:
            b[i] = min(max(b[i], 0.0), 4.0)
    return b


def values_before_stores(a: Any) -> Any:
    b = output_tensor(a.shape, "float32")
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i in range(a.shape[0] - 1):
        old = b[i]
        b[i] = b[i + 1] + 1.0
        b[i + 1] = old
    return b


VECTOR, SQUARE = ((13,), "float32"), ((6, 7), "float32")
PROGRAMS: list[tuple[Program, list[tuple[tuple[int, ...], str]]]] = [
    (cumulative, [VECTOR]),
    (cumulative, [((1,), "float32")]),
    (bubble_sort, [VECTOR]),
    (product, [((5, 9), "float32"), ((9, 16), "float32")]),
    (branches, [SQUARE]),
    (rows_backwards, [SQUARE]),
    (collatz, [((12,), "int32")]),
    (known_ahead, [VECTOR]),
    (values_before_stores, [VECTOR]),
]


def numpy_names() -> dict[str, Any]:
    return {
        "output_tensor": np.zeros,
        "allocate": lambda shape, dtype, scope="": np.zeros(shape, dtype),
        "grid": np.ndindex,
        "float32": np.float32,
        **dict.fromkeys(("const_range", "parallel", "serial", "unroll", "vectorize"), range),
    }


def run_by_python(program: Program, arrays: list[Array]) -> list[Array]:
    assert isinstance(program, FunctionType)
    names = {**program.__globals__, **numpy_names()}
    own = FunctionType(program.__code__, names, program.__name__, program.__defaults__)
    made = own(*arrays)
    return list(made) if isinstance(made, tuple) else [made]


def given_to(shapes: list[tuple[tuple[int, ...], str]]) -> list[Array]:
    return [
        (RNG.standard_normal(s) if t == "float32" else RNG.integers(1, 99, s)).astype(t)
        for s, t in shapes
    ]


def declared(
    program: Program, shapes: list[tuple[tuple[int, ...], str]]
) -> tuple[list[Tensor], list[Tensor]]:
    inputs = [te.placeholder(s, t, f"in{k}") for k, (s, t) in enumerate(shapes)]
    made = te.hybrid.script(program)(*inputs)
    return inputs, list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize(("program", "shapes"), PROGRAMS)
def test_kernels_compute_what_python_does(
    program: Program, shapes: list[tuple[tuple[int, ...], str]]
) -> None:
    inputs, outputs = declared(program, shapes)
    schedule = te.create_schedule([t.op for t in outputs[:1]])
    args = [*inputs, *outputs]
    arrays = given_to(shapes)
    wanted = run_by_python(program, [a.copy() for a in arrays])
    kernel = load(build(schedule, args, cpu_target()))
    before = schedule_ops(schedule, args)
    for func in (before, lower(schedule, args, cpu_target())):
        found = [np.empty_like(w) for w in wanted]
        interp.run(func, [*arrays, *found])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    results = kernel(*arrays)
    for one, other in zip(results if len(wanted) > 1 else [results], wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@te.hybrid.script
def first_rows(a: Any, count: Any) -> Any:
    b = output_tensor((count, a.shape[1]), a.dtype)
    for i in range(count):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j]
    return b


def test_between_computed_tensors_and_with_sizes_of_any_length() -> None:
    n = te.var("n")
    A = te.placeholder((n, 8), name="A")
    twice = te.compute((n, 8), lambda i, j: A[i, j] * 2.0, name="twice")
    rows = first_rows(twice, n - 2)
    result = te.compute((n - 2, 8), lambda i, j: rows[i, j] + 1.0, name="result")
    assert isinstance(rows.op, ExternOp) and rows.name == "b"
    schedule = te.create_schedule(result.op)
    schedule[result].parallel(result.op.axis[0])
    kernel = load(build(schedule, [A, result], cpu_target()))
    for size in (3, 10):
        a = RNG.standard_normal((size, 8)).astype(np.float32)
        out = np.empty((size - 2, 8), np.float32)
        kernel(a, out)
        np.testing.assert_array_equal(out, a[:-2] * 2 + 1)


@te.hybrid.script
def on_threads(a: Any) -> Any:
    b = output_tensor(a.shape, a.dtype)
    for block in bind("blockIdx.x", 4):
        for t in bind("threadIdx.x", 16):
            twice = a[block * 16 + t] * 2.0
            b[block * 16 + t] = twice + 1.0
    return b


def test_threads_of_a_gpu() -> None:
    A = te.placeholder((64,), name="A")
    B = on_threads(A)
    func = lower(te.create_schedule(B.op), [A, B], cuda_target())
    a, b = RNG.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)
    interp.run(func, [a, b])
    np.testing.assert_array_equal(b, a * 2 + 1)
    assert 'launch(t, 16, tag="threadIdx.x"' in to_text(func)


def test_arguments_by_name_and_functions_of_a_function() -> None:
    factor = 3.0

    def scaled(x: Any) -> Any:
        return x * factor

    @te.hybrid.script
    def use(a: Any, *, shift: float = 1.0) -> Any:
        b = te.hybrid.output_tensor(a.shape, a.dtype)
        for i in te.hybrid.parallel(a.shape[0]):
            b[i] = scaled(a[i]) + shift
        return b

    A = te.placeholder((4,), name="A")
    B = use(a=A, shift=2.0)
    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    interp.run(lower(te.create_schedule(B.op), [A, B], cpu_target()), [a, b])
    np.testing.assert_array_equal(b, a * 3 + 2)
    assert inspect.signature(use).parameters["shift"].default == 1.0
