"""Requantised products: bit for bit, whatever the schedule, types, zero points and borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.evaluate import evaluate

SIZES = {"N": 1, "H": 5, "W": 6, "CI": 8, "CO": 6, "KH": 3, "KW": 2, "stride": 2, "padding": 1}
CONV: dict[str, Any] = {**SIZES, "target": cpu_target(1)}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("conv2d_nhwc_requantised", {**CONV, "in_dtype": "uint8", "x_zero": 7, "y_zero": 3}),
    ("conv2d_nhwc_requantised", {**CONV, "groups": 2, "relu": 0, "y_zero": -5, "x_zero": -128}),
    ("dense_requantised", {"M": 17, "N": 1, "K": 31, "weight_dtype": "uint8", "relu": 0}),
    ("dense_requantised", {"M": 3, "N": 20, "K": 5, "in_dtype": "uint8", "out_dtype": "int8"}),
]


@pytest.mark.parametrize(("name", "args"), CASES, ids=range(4))
def test_candidates_equal_the_reference_bit_for_bit(name: str, args: dict[str, Any]) -> None:
    task = Task.from_workload(name, **args)
    inputs = task.inputs(seed=1)
    (expected,) = task.reference(inputs)
    (declared,) = evaluate(task.tensors, inputs)
    np.testing.assert_array_equal(declared, expected)
    ends = np.iinfo(expected.dtype)
    assert np.mean((expected > ends.min) & (expected < ends.max)) > 0.2  # not all saturated
    space = SearchSpace(task, SearchOptions())
    for steps in ((), *space.sample(np.random.default_rng(0), 1)):
        found = load(build_steps(task.dag, steps, task.target))(*inputs)
        np.testing.assert_array_equal(found, expected)


def test_a_layer_by_hand() -> None:
    """Ties go to even, numbers beyond the type to its ends; relu comes before the zero point."""
    task = Task.from_workload("dense_requantised", M=1, N=5, K=2, y_zero=10, out_dtype="uint8")
    a = np.array([[3, -4]], np.int8)
    w = np.array([[1, 0], [1, 0], [0, 1], [100, 0], [5, 0]], np.int8)
    bias = np.array([0, 2, 0, 0, 0], np.int32)
    scale = np.array([0.5, 0.5, 1, 1, 0.5], np.float32)
    (found,) = task.reference([a, w, bias, scale])
    assert found.tolist() == [[12, 12, 10, 255, 18]]  # 1.5, 2.5, -4, 300, 7.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x_zero": -1, "in_dtype": "uint8"},
            "argument x_zero must be 0 to 255, the values of uint8, found",
        ),
        ({"y_zero": 200}, "argument y_zero must be -128 to 127, the values of int8, found 200"),
        ({"in_dtype": "int16"}, "in_dtype must be one of int8, uint8, found 'int16'"),
        ({"dtype": "int8"}, "unknown argument 'dtype'"),
        ({"KH": 9}, "smaller than the window"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    """At once, not when the computation is first needed."""
    with pytest.raises(ConfigError, match=message):
        Task.from_workload("conv2d_nhwc_requantised", **{**CONV, **changes})
