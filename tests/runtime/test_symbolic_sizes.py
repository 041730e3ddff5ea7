"""Parameters whose dimensions are expressions of sizes, compiled and interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_func, lower
from autosched.errors import CompileError, MeasureError
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp

TARGET = cpu_target(threads=1)


def both(args: Any, tensor: Any, *values: Any) -> list[Any]:
    """What the interpreter and the compiled kernel, loaded from bytes, leave in the last array."""
    func = lower(te.create_schedule(tensor.op), args, TARGET)
    results = []
    kernel = load(CpuArtifact.from_bytes(build_func(func, TARGET).to_bytes()))
    run: Callable[..., object]
    for run in (lambda *x: interp.run(func, list(x)), kernel):
        copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        run(*copies)
        results.append(copies[-1])
    return results


def test_a_sum_with_a_constant_gives_the_size() -> None:
    n = te.size_var("n")
    A = te.placeholder((n + 2,), name="A")
    C = te.compute((n,), lambda i: A[i] + A[i + 2], name="C")
    a = np.arange(10, dtype="float32")
    for found in both([A, C], C, a, np.zeros(8, "float32")):
        np.testing.assert_array_equal(found, a[:8] + a[2:])


def test_a_size_that_is_in_no_dimension_alone() -> None:
    n = te.size_var("n")
    A = te.placeholder((n * 3 + 1,), name="A")
    C = te.compute((n + 1,), lambda i: A[i * 3] * 2.0, name="C")
    a = np.arange(13, dtype="float32")
    for found in both([A, C], C, a, np.zeros(5, "float32")):
        np.testing.assert_array_equal(found, a[::3] * 2)


def test_quotients_of_sizes_that_are_arguments() -> None:
    m, n, x = te.size_var("m"), te.size_var("n"), te.size_var("x")
    A = te.placeholder((m, n // x), name="A")
    C = te.compute((m, n // x), lambda i, j: A[i, j] + n, name="C")
    a = np.arange(12, dtype="float32").reshape(3, 4)
    for found in both([n, x, A, C], C, 13, 3, a, np.zeros((3, 4), "float32")):
        np.testing.assert_array_equal(found, a + 13)


def test_sizes_of_one_name_are_told_apart() -> None:
    n, other = te.size_var("n"), te.size_var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((other,), name="B")
    C = te.compute((n, other), lambda i, j: A[i] * B[j], name="C")
    a, b = np.arange(3, dtype="float32"), np.arange(5, dtype="float32")
    for found in both([A, B, C], C, a, b, np.zeros((3, 5), "float32")):
        np.testing.assert_array_equal(found, np.outer(a, b))


def test_what_does_not_fit_is_refused_before_anything_runs() -> None:
    n = te.size_var("n")
    A = te.placeholder((n + 2,), name="A")
    C = te.compute((n,), lambda i: A[i] + A[i + 2], name="C")
    sch = te.create_schedule(C.op)
    kernel = load(build_func(lower(sch, [A, C], TARGET), TARGET))
    zeros = np.zeros(9, "float32")
    with pytest.raises(
        MeasureError, match=r"argument 1 \(A\) must have the dimension n \+ 2 \(n ="
    ):
        kernel(np.zeros(10, "float32"), zeros)
    scalar = load(build_func(lower(sch, [n, A, C], TARGET), TARGET))
    with pytest.raises(MeasureError, match=r"\(C\) must have n = 8, as the argument says, found"):
        scalar(8, np.zeros(10, "float32"), zeros)
    x = te.size_var("x")
    B = te.placeholder((n, n // x), name="B")
    D = te.compute((n,), lambda i: B[i, 0], name="D")
    func = lower(te.create_schedule(D.op), [B, D], TARGET)
    with pytest.raises(
        CompileError, match="size x cannot be computed from the dimension n // x of B"
    ):
        build_func(func, TARGET)
    func = lower(te.create_schedule(D.op), [x, B, D], TARGET)
    with pytest.raises(MeasureError, match="which divides by 0 here"):
        load(build_func(func, TARGET))(0, np.zeros((3, 3), "float32"), np.zeros(3, "float32"))


def _last_column(dtype: str, dims: int) -> Any:
    """A kernel of the last column of A, or of its last element; sizes are of `dtype`."""
    sizes = [te.size_var(name, dtype) for name in "mn"[:dims]]
    A = te.placeholder(sizes, "int8", name="A")
    rows: list[Any] = [*sizes[:-1]] or [1]
    C = te.compute(rows, lambda i: A(*[i][: dims - 1], sizes[-1] - 1), name="C")
    return load(build_func(lower(te.create_schedule(C.op), [A, C], TARGET), TARGET))


@pytest.mark.parametrize("shape", [(65537, 65537), (2**31 + 5,)])
def test_more_elements_than_indices_tell_apart(shape: tuple[int, ...]) -> None:
    """Of sizes of int32 the kernel wrote and read where their product had wrapped to.

    The memory is nowhere written, and read in a few pages.
    """
    a = np.zeros(shape, np.int8)
    c = np.ones(shape[:-1] or (1,), np.int8)
    message = rf"\(A\) has {a.size} elements, of which .* indices tell 2147483647 apart; .*int64"
    with pytest.raises(MeasureError, match=message):
        _last_column("int32", len(shape))(a, c)
    assert (c == 1).all()
    _last_column("int64", len(shape))(a, c)
    assert (c == 0).all()
