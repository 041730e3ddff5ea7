"""Every operation in every type gives what the interpreter and NumPy give, at the ends too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.task import Task
from autosched.te.operations.operation import ComputeOp
from autosched.workloads.expression.workload import ExpressionWorkload
from kit.every_type import FLOATS, INTEGERS, expressions, problems
from kit.types import Array


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_every_operation_on_vectors(dtype: str) -> None:
    found = list(problems(dtype, expressions(dtype), lanes=8))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
def test_every_operation_on_numbers(dtype: str) -> None:
    found = list(problems(dtype, expressions(dtype), lanes=1))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        ("int8", "uint8"),
        ("uint8", "int16"),
        ("int64", "float16"),
        ("float16", "bfloat16"),
        ("bfloat16", "int32"),
        ("float8_e4m3fn", "float8_e5m2"),
        ("float8_e5m2", "int8"),
        ("float64", "uint8"),
    ],
)
def test_operations_of_two_types(dtype: str, other: str) -> None:
    each = expressions(dtype, other)
    found = list(problems(dtype, each, other=other, lanes=8))
    assert not found, "\n".join(found)


def test_truth_values_are_added_up_as_numbers() -> None:
    """One bit would make true + true false."""
    values: dict[str, Callable[[Array], Array]] = {
        "(A[i] > 0) + (A[i] < 5)": lambda a: (a > 0) + 1 * (a < 5),
        "(A[i] > 0) - (A[i] < 5)": lambda a: 1 * (a > 0) - (a < 5),
        "-(A[i] > 0)": lambda a: -1 * (a > 0),
        "abs(A[i] > 0) + square(A[i] > 0)": lambda a: 2 * (a > 0),
        "(A[i] > 0) << (A[i] < 5)": lambda a: 1 * (a > 0) << (a < 5),
    }
    a = np.array([-3, 1, 7], np.int8)
    for text, wanted in values.items():
        workload = ExpressionWorkload.parse(f"C[i] = {text}", {"A": [3]}, {"A": "int8"})
        (found,) = workload.reference([a])
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, wanted(a), text)


def test_the_absolute_value_of_what_has_no_sign_is_itself() -> None:
    workload = ExpressionWorkload.parse("C[i] = abs(A[i])", {"A": [3]}, "uint8")
    assert workload.reference([np.array([0, 2, 255], np.uint8)])[0].tolist() == [0, 2, 255]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("sum(k, A[i, k]) + 1", [301, -383]),
        ("prod(k, A[i, k]) - sum(k, max(A[i, k], 0))", [1e6 - 300, -(128**3)]),
        ("max(k, A[i, k] * sum(r, A[i, r])) * 2", [60000, 98304]),
        ("where(sum(k, A[i, k]) > 0, 1, 0)", [1, 0]),
        ("(sum(k, A[i, k]) < 0 and A[i, 0] < 0) + 0", [0, 1]),
        ("B[clip(sum(k, A[i, k]), 0, 300)] + 0", [44, 0]),
    ],
)
def test_reductions_inside_of_a_value_are_as_wide_as_the_result(
    value: str, wanted: list[float], dtype: str
) -> None:
    types = {"A": "int8", "B": "int16", "C": dtype}
    shapes = {"A": [2, 3], "B": [301]} if "B" in value else {"A": [2, 3]}
    given = {name: types[name] for name in (*shapes, "C")}
    workload = ExpressionWorkload.parse(f"C[i] = {value}", shapes, given)
    arrays: dict[str, Array] = {
        "A": np.array([[100] * 3, [-128] * 3], np.int8),
        "B": (np.arange(301) % 256).astype(np.int16),
    }
    (found,) = workload.reference([arrays[name] for name in workload.program.inputs])
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("value", "stages"),
    [
        ("int64(sum(k, A[i, k])) + 1", ["int8", "int64"]),
        ("argmax(r, sum(k, A[i, k] * A[r, k])) + 0", ["int8", "int8", "int32", "int64"]),
        ("sum(k, 1 if A[i, k] > 0 else 0) + 1", ["int32", "int64"]),
    ],
)
def test_reductions_that_keep_the_type_of_their_value(value: str, stages: list[str]) -> None:
    shapes, types = {"A": [2, 3]}, {"A": "int8", "C": "int64"}
    task = Task.from_expression(f"C[i] = {value}", shapes, dtype=types)
    computed = [each for each in task.dag.ops if isinstance(each, ComputeOp)]
    assert [str(each.body[0].dtype) for each in computed] == stages


@pytest.mark.parametrize("types", [{"A": "int8"}, {"A": "float32"}, {"A": "int8", "C": "float32"}])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("sum(k, A[i, k] > 0) * 2", [400, 0]),
        ("sum(k, A[i, k] > 0 and k < 150)", [50, 0]),
        ("argmax(k, A[i, k] > 0)", [100, 0]),
        ("argmin(k, not A[i, k] > 0) + 0", [100, 0]),
        ("A[i, argmax(k, A[i, k] > 0)] + max(k, A[i, k] < 0)", [1, 0]),
    ],
)
def test_reductions_of_truth_values_count_and_compare_them(
    value: str, wanted: list[int], types: dict[str, str]
) -> None:
    workload = ExpressionWorkload.parse(f"C[i] = {value}", {"A": [2, 300]}, types)
    a = np.zeros((2, 300), types["A"])
    a[0, 100:] = 1
    assert workload.reference([a])[0].tolist() == wanted


@pytest.mark.parametrize("value", ["A[i, k] > 0", "1 if A[i, k] > 0 else 0", "int32(A[i, k])"])
def test_the_mean_of_what_is_no_float_is_of_the_floats_around_it(value: str) -> None:
    expr, types = f"C[i] = mean(k, {value}) * 2", {"A": "int8", "C": "float32"}
    workload = ExpressionWorkload.parse(expr, {"A": [1, 4]}, types)
    assert workload.reference([np.array([[1, 0, 1, 1]], np.int8)])[0].tolist() == [1.5]
