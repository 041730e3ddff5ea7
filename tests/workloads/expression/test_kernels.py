"""Compiled candidates of expressions against their references: operators, types, ranges."""

from collections.abc import Mapping

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.measure.check import compare
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.task import Task

CASES = [
    ("D[i] = A[i+1] - A[i]", {"A": [101]}, "float32"),
    ("B[i, j] = A[i, j+1] + A[i+2, j+1] - 4 * A[i+1, j+1]", {"A": [17, 39]}, "float32"),
    (
        "Y[i, j] = (A[i, j] - mean(k, A[i, k])) / sqrt(mean(r, A[i, r] ** 2) + 1e-5)",
        {"A": [13, 30]},
        "float32",
    ),
    (
        "Y[i] = max(j, A[i, j] * sum(k, B[j, k])) / sum(p, q, B[p, q])",
        {"A": [8, 4], "B": [4, 6]},
        "float32",
    ),
    (
        "C[i, j] = sum(k, A[i, k] * B[k, j])\n"
        "D[i, j] = int8(clip(round(C[i, j] * S[j]), -128, 127))",
        {"A": [7, 24], "B": [24, 20], "S": [20]},
        {"A": "int8", "B": "int8", "S": "float32", "C": "int32", "D": "int8"},
    ),
    ("Y[n, d] = T[I[n], d]", {"I": [50], "T": [7, 24]}, {"I": "int32", "T": "float32"}),
    ("Y[n, d] = T[I[n], d]", {"I": [50], "T": [7, 24]}, {"I": "int64", "T": "float32"}),
    ("B[i] = A[i] + 65536 * 65536 + i * i", {"A": [50000]}, "int64"),
    ("B[i] = A[i] * 0.1", {"A": [30]}, "float64"),
    ("Y[i] = (A[i] & 3) + (A[i] ^ 5) * ~A[i] + (A[i] << 2)", {"A": [100]}, "int32"),
    ("Y[i] = (A[i] & 3) + (A[i] | 8) * (A[i] ^ 5)", {"A": [100]}, "uint8"),
    ("Y[i] = A[i] * 3 - B[i]", {"A": [100], "B": [100]}, "int16"),
    ("Y[i] = (A[i] > 0) & (A[i] < 1) | (A[i] < -1)", {"A": [100]}, "float32"),
    ("Y[i] = exp2(A[i]) + log1p(abs(A[i])) + sinh(A[i]) * atan(A[i])", {"A": [100]}, "float32"),
    ("Y[i] = trunc(A[i]) + round(A[i]*3) + hypot(A[i], 1)", {"A": [100]}, "float32"),
    (f"Y[i] = {' + '.join(['A[i]'] * 400)}", {"A": [100]}, "float32"),
    (
        "C[i, j] += A[i, k] * B[k, j]",
        {"A": [30, 31], "B": [31, 33]},
        {"A": "float16", "B": "float16", "C": "float32"},
    ),
    ("Y[o] += A[i] * A[i]", {"A": [1000], "Y": [1]}, "float32"),
    ("Y[i] = float64(A[i]) ** 2", {"A": [100]}, {"A": "float32"}),
    ("Y[i] = (A[i] & ((1 << 40) - 1)) + i ** 2 + abs(i - 3) * 100000", {"A": [50000]}, "int64"),
    ("Y[i] = clip(A[i], -1000, 1000)", {"A": [100]}, "float8_e4m3fn"),
    ("Y[i] = mean(j, A[i, j])", {"A": [3, 500]}, "float8_e4m3fn"),
    ("Y[i] = A[abs(i - 35)] + A[i - i % 3] + A[i ^ 1]", {"A": [70], "Y": [70]}, "float32"),
]


@pytest.mark.parametrize(("expr", "shapes", "dtype"), CASES, ids=[c[0][:40] for c in CASES])
def test_candidates_compute_the_reference(
    expr: str, shapes: Mapping[str, list[int]], dtype: str | dict[str, str]
) -> None:
    task = Task.from_json_workload({"expr": expr, "shapes": shapes, "dtype": dtype}, "cpu")
    inputs = task.inputs(seed=3)
    wanted = task.reference(inputs)
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 2):
        outputs = [np.empty_like(want) for want in wanted]
        load(build_steps(task.dag, steps, task.target))(*inputs, *outputs)
        for got, want in zip(outputs, wanted, strict=True):
            assert compare("output", got, want) is None, steps


def test_a_division_by_a_constant_is_the_nearest_float() -> None:
    """The product with the inverse, which is rounded, is another number for a third of them."""
    task = Task.from_expression("B[i] = A[i] / 3", {"A": [1000]})
    (a,) = task.inputs()
    (steps,) = SearchSpace(task).sample(np.random.default_rng(0), 1)[:1]
    b = np.empty_like(a)
    load(build_steps(task.dag, steps, task.target))(a, b)
    assert np.array_equal(b, a / np.float32(3))
    assert not np.array_equal(b, a * np.float32(1 / 3))
