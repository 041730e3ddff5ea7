"""Expression workloads: what they compute, how lengths follow, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.workloads.expression import ExpressionWorkload
from autosched.workloads.workload import shape_of

SHAPES = {"A": [8, 4], "B": [4, 6]}


def run(expr: str, shapes: dict[str, list[int]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    workload = ExpressionWorkload.parse(expr, shapes)
    inputs = workload.inputs(seed=5)
    return inputs, workload.reference(inputs)


def test_matmul() -> None:
    (a, b), (c,) = run("C[i, j] = sum(k, A[i, k] * B[k, j])", SHAPES)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_statements_build_on_each_other_and_leave_several_outputs() -> None:
    expr = """
    C[i, j] = sum(k, A[i, k] * B[k, j])
    D[i, j] = max(C[i, j] * 2, 0) if i > 0 else exp(C[i, j]); Z[x] = max(r, A[x, r])
    """
    (a, b), (d, z) = run(expr.replace("\n    ", "\n"), SHAPES)
    c = a.astype(float) @ b
    expected = np.maximum(2 * c, 0)
    expected[0] = np.exp(c[0])
    np.testing.assert_allclose(d, expected, rtol=1e-5)
    np.testing.assert_array_equal(z, a.max(axis=1))


def test_length_follows_from_a_window() -> None:
    expr = "Y[n, x] = sum(r, X[n, 2*x + r] * W[r])"
    (x, w), (y,) = run(expr, {"X": [3, 11], "W": [4]})
    windows = np.lib.stride_tricks.sliding_window_view(x, 4, axis=1)[:, ::2]
    np.testing.assert_allclose(y, windows @ w, rtol=1e-5, atol=1e-5)


def test_shape_of_the_result_can_be_given() -> None:
    expr = "P[i] = X[i - 1] if 1 <= i and i < 9 else 0.0"
    (x,), (p,) = run(expr, {"X": [8], "P": [10]})
    np.testing.assert_array_equal(p, np.pad(x, 1))


def test_functions_and_operators() -> None:
    expr = "B[i] = pow(abs(A[i]), 0.5) + tanh(-A[i]) / 2 - min(A[i], 0.25) + A[i // 2 * 2 % 8]"
    (a,), (b,) = run(expr, {"A": [8]})
    i = np.arange(8)
    expected = abs(a) ** 0.5 + np.tanh(-a) / 2 - np.minimum(a, 0.25) + a[i // 2 * 2 % 8]
    np.testing.assert_allclose(b, expected, rtol=1e-5)


def test_plain_data_and_dtype() -> None:
    workload = ExpressionWorkload.parse("C[i] = A[i] + 1", {"A": [4]}, "int32")
    assert ExpressionWorkload.parse(**workload.to_json()) == workload
    assert [shape_of(t) for t in workload.tensors()] == [(4,), (4,)]
    assert workload.num_outputs == 1
    assert workload.reference(workload.inputs())[0].dtype == np.int32


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("C[i] = A[i", "not an expression at column"),
        ("", "empty"),
        ("import os", "expected NAME"),
        ("C[i] = __import__('os').system('x')", "unknown function"),
        ("C[i] = A.T[i, 0]", "only tensors can be indexed|Attribute is not allowed"),
        ("C[i] = A[i, 0].x", "Attribute is not allowed"),
        ("C[i] = [x for x in A][i]", "not allowed|only tensors"),
        ("C[i] = lambda: 1", "Lambda is not allowed"),
        ("C[i] = A[i, 0] ** 2", "Pow is not allowed"),
        ("C[i] = A[i, 0] * 'x'", "'x' is not a number"),
        ("C[i] = A[i, j]", "j is neither an index"),
        ("C[i] = A[i]", "has 1 indices, the tensor has 2"),
        ("C[i, i] = A[i, i]", "distinct names"),
        ("C[i] = A[i + 1, 0] + A[i, 0]", "reads elements 1..8 of an axis of length 8"),
        ("C[i] = sum(k, A[i, k]) + 1", "must be the whole right side"),
        ("C[i] = sum(k, A[i, k] * Q[k])", "shape of input Q is not given"),
        ("C[i] = sum(k, A[i, k]); C[i] = A[i, 0]", "assigned twice"),
        ("C[i] = exp(A[i, 0], 1)", "exp takes 1 arguments, found 2"),
        ("C[i, j] = A[i, 0]", "length of index j does not follow"),
        ("C[i, k] = A[i, k] * B[k, i]", "index i has length 8, but"),
        ("C[i] = sum(k, A[i, k] * B[k, 0] + i / 2)", "ambiguous"),
        ("C[i] = C[i] + A[i, 0]", "reads itself"),
        ("D[i] = A[i, 0]" + "+(1" * 500 + ")" * 500, "nested too deeply|too many nested"),
    ],
)
def test_refuses(expr: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse(expr, {"A": [8, 4], "B": [4, 6]})


@pytest.mark.parametrize("shape", [[], [0], [2.5], "8", [True], None])
def test_refuses_shapes(shape: object) -> None:
    with pytest.raises(ConfigError, match="list of positive integers"):
        ExpressionWorkload.parse("C[i] = A[i]", {"A": shape})  # type: ignore[dict-item]


def test_refuses_a_shape_that_is_not_used() -> None:
    with pytest.raises(ConfigError, match="Q does not occur"):
        ExpressionWorkload.parse("C[i] = A[i]", {"A": [4], "Q": [4]})
