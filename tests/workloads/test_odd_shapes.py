"""Workloads of unusual shapes: no dimension, none at all, long sums, clipped indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_func, lower, lower_for_features, lower_steps
from autosched.errors import ConfigError, ScheduleError
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.target import cpu_target
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.op import min_
from autosched.workloads.evaluate import evaluate
from autosched.workloads.workload import random_inputs

TARGET = cpu_target(threads=1)


def results(args: list[Any], steps: Any = None) -> list[list[Any]]:
    """The outputs by NumPy, by the interpreter and by the compiled kernel."""
    inputs = [t for t in args if not t.op.inputs]
    outputs = args[len(inputs) :]
    arrays = random_inputs(inputs)
    if steps is None:
        func = lower(te.create_schedule([t.op for t in outputs]), args, TARGET)
    else:
        func = lower_steps(ComputeDAG(args), steps, TARGET)
    found = [evaluate(args, arrays)]
    run: Callable[..., object]
    for run in (lambda *x: interp.run(func, list(x)), load(build_func(func, TARGET))):
        made = [np.full([e.value for e in t.shape], 77, t.dtype.numpy) for t in outputs]
        run(*arrays, *made)
        found.append(made)
    return found


def assert_agree(args: list[Any], steps: Any = None) -> None:
    wanted, *others = results(args, steps)
    for found in others:
        for got, want in zip(found, wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def sampled(args: list[Any], count: int) -> list[Any]:
    context = Context(ComputeDAG(args), TARGET.hardware, False, SearchOptions())
    return list(SearchSpace.of(context).sample(np.random.default_rng(0), count))


def total() -> list[Any]:
    A = te.placeholder((6, 7), name="A")
    i, j = te.reduce_axis((0, 6), "i"), te.reduce_axis((0, 7), "j")
    return [A, te.compute((), lambda: te.sum(A[i, j], axis=(i, j)), name="C")]


def largest() -> list[Any]:
    A = te.placeholder((37,), name="A")
    k = te.reduce_axis((0, 37), "k")
    return [A, te.compute((), lambda: te.max(A[k], axis=k), name="C")]


def scalar() -> list[Any]:
    A = te.placeholder((), name="A")
    return [A, te.compute((), lambda: A[()] * 2.0 + 1.0, name="C")]


def mean_and_difference() -> list[Any]:
    A = te.placeholder((37,), name="A")
    k = te.reduce_axis((0, 37), "k")
    M = te.compute((), lambda: te.sum(A[k], axis=k), name="M")
    return [A, te.compute((37,), lambda i: A[i] - M[()] / 37.0, name="C")]


@pytest.mark.parametrize("make", [total, largest, scalar, mean_and_difference])
def test_tensors_without_dimensions(make: Any) -> None:
    args = make()
    assert_agree(args)
    for steps in sampled(args, 6):
        assert_agree(args, steps)


def test_inputs_without_dimensions_keep_their_shape() -> None:
    assert random_inputs([te.placeholder((), name="A")])[0].shape == ()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_sizes_of_zero_compile_and_are_no_task(shape: tuple[int, ...]) -> None:
    A = te.placeholder(shape, name="A")
    args = [A, te.compute(shape, lambda *i: A[i] * 2.0, name="C")]
    assert_agree(args)
    with pytest.raises(ConfigError, match="tensor A has no elements"):
        ComputeDAG(args)


@pytest.mark.parametrize("kind", [te.sum, te.max])
def test_reductions_over_nothing(kind: Any) -> None:
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 0), "k")
    args = [A, te.compute((3,), lambda i: kind(A[i, k], axis=k), name="C")]
    assert_agree(args)
    with pytest.raises(ConfigError, match="axis k is empty"):
        ComputeDAG(args)


def long_sum(terms: int, dtype: str) -> list[Any]:
    A = te.placeholder((64,), dtype, name="A")

    def element(i: Any) -> Any:
        e = A[i]
        for k in range(1, terms):
            e = e + A[(i + k) % 64]
        return e

    return [A, te.compute((64,), element, name="C")]


@pytest.mark.parametrize(("dtype", "terms"), [("float32", 1000), ("int32", 400), ("uint8", 400)])
def test_long_sums(dtype: str, terms: int) -> None:
    assert_agree(long_sum(terms, dtype))


def test_a_longer_sum_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"nests 3\d\d\d deep.*te.sum over an axis"):
        long_sum(3000, "float32")


def test_clipped_indices() -> None:
    """Bounds whose terms cancel: extents that are products of differences of minima."""
    A, Z = te.placeholder((6,), name="A"), te.placeholder((20,), name="Z")
    T = te.compute((24, 17), lambda i, j: te.exp(A[i // 5]), name="T")
    k = te.reduce_axis((0, 20), "k")
    D = te.compute(
        (30,), lambda i: te.min(T[min_(i, 23), min_(k.var, 16)] * Z[k], axis=k), name="D"
    )
    args = [A, Z, D]
    dag = ComputeDAG(args)
    for steps in sampled(args, 12):
        lower_for_features(dag, steps, TARGET)
        assert_agree(args, steps)


def test_a_mean_that_is_read_by_row_and_by_column() -> None:
    """Computed at a tile it has loops whose extents depend on the tile, vectorized ones too."""
    expr = "m[i] = sqrt(mean(k, X[i, k])); D[i, j] = sum(k, X[i, k] * X[j, k]) / (m[i] * m[j])"
    args = list(Task.from_expression(expr, {"X": (9, 7)}).dag.tensors)
    refused = 0
    for steps in sampled(args, 12):
        assert_agree(args, steps)
        try:
            lower(*ComputeDAG(args).apply_steps(steps), TARGET)
        except ScheduleError as error:  # somebody who wrote this schedule must know
            assert "must be a positive constant" in str(error)
            refused += 1
    assert refused
