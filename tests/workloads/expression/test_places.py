"""argmax and argmin: the place of the extremum, as in NumPy, in the reference and in kernels."""

import ml_dtypes
import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.workloads.expression.workload import ExpressionWorkload
from autosched.workloads.workload import Array

BOTH = "C[i] = argmax(k, A[i, k]); D[i] = argmin(k, A[i, k])"
TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8")


def values(dtype: str) -> Array:
    """Rows with ties; those of floats with NaN and infinities, too."""
    rng = np.random.default_rng(1)
    found = rng.integers(0, 9, (8, 21)).astype(getattr(ml_dtypes, dtype, dtype))
    if found.dtype.kind not in "iu":
        found[0, 3] = found[1, -1] = found[2] = np.nan
        found[3], found[4] = -np.inf, np.inf
        found[5, 4] = found[5, 9] = -np.inf
        found[6, 7] = found[6, 8] = np.inf
    return found


@pytest.mark.parametrize("dtype", TYPES)
def test_places_are_those_of_numpy(dtype: str) -> None:
    task = Task.from_expression(BOTH, {"A": (8, 21)}, dtype=dtype, target="cpu")
    array = values(dtype)
    wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
    wanted = wide.argmax(axis=1), wide.argmin(axis=1)
    compiled = [np.full(8, -1, np.int32) for _ in range(2)]
    load(build_steps(task.dag, (), task.target))(array, *compiled)
    for found in (task.reference([array]), compiled):
        assert [each.dtype for each in found] == [np.int32, np.int32]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "expr",
    [
        "C[i] = argmax(k, A[i, k] * b[k] + A[i, k] * 0.3)",
        "E[i, k] = exp(A[i, k]) * b[k]; C[i] = argmin(k, E[i, k] / 3 + b[k])",
        "C[i] = A[i, argmax(k, A[i, k] * b[k])]",
    ],
)
def test_values_are_the_same_in_both_stages(expr: str, dtype: str) -> None:
    """However they are rounded, one of them is the extremum: no schedule finds none."""
    task = Task.from_expression(expr, {"A": (30, 40), "b": (40,)}, dtype=dtype, target="cpu")
    inputs = task.inputs(seed=3)
    (wanted,) = task.reference(inputs)
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 4):
        found = np.zeros_like(wanted)
        load(build_steps(task.dag, steps, task.target))(*inputs, found)
        np.testing.assert_array_equal(found, wanted)


def test_the_nearest_of_many() -> None:
    expr = "near[i] = argmin(j, sum(d, (X[i, d] - Y[j, d]) ** 2))"
    workload = ExpressionWorkload.parse(expr, {"X": [20, 4], "Y": [9, 4]})
    x, y = workload.inputs()
    distances = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    (near,) = workload.reference([x, y])
    assert near.dtype == np.int32
    np.testing.assert_array_equal(near, distances.argmin(axis=1))


def test_a_place_in_an_index_and_its_type() -> None:
    workload = ExpressionWorkload.parse(
        "best[n, d] = T[argmax(k < 5, S[n, k]), d]; at[n] = argmax(k, S[n, k])",
        {"S": [7, 12], "T": [5, 3]},
        {"S": "float32", "T": "float32", "at": "int64"},
    )
    t, s = workload.inputs()
    best, at = workload.reference([t, s])
    np.testing.assert_array_equal(best, t[s[:, :5].argmax(axis=1)])
    np.testing.assert_array_equal(at, s.argmax(axis=1))
    assert [best.dtype.name, at.dtype.name] == ["float32", "int64"]


@pytest.mark.parametrize(
    ("expr", "kind", "message"),
    [
        ("C[i] = argmax(k, r, A[i, k, r])", "float32", "argmax takes one index, found k, r"),
        ("C[i] = argmax(A[i, 0, 0])", "float32", "argmax takes its indices first"),
        ("C[i] = argmin(k, A[i, k, 0])", "int8", "int8 cannot hold the index 199; give C another"),
    ],
)
def test_what_is_wrong_is_said(expr: str, kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse(expr, {"A": [3, 200, 2]}, {"A": "float32", "C": kind})
