"""Types of built-ins: what is asked for, what is computed, what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched import workloads
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.measure.check import compare
from autosched.measure.tolerance import tolerances
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.evaluate import evaluate
from kit.built_ins import small_args

SIZES: dict[str, Any] = {"M": 17, "N": 1, "K": 31}
KINDS: list[dict[str, Any]] = [
    {"in_dtype": "int8"},
    {"in_dtype": "uint8", "weight_dtype": "int8"},
    {"in_dtype": "int8", "out_dtype": "int8"},
    {"in_dtype": "int16"},
    {"in_dtype": "int8", "acc_dtype": "float32", "out_dtype": "float16"},
    {"in_dtype": "float8_e4m3fn"},
    {"in_dtype": "float8_e5m2", "out_dtype": "bfloat16"},
    {"in_dtype": "float16"},
    {"dtype": "bfloat16", "acc_dtype": "float32"},
]


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[5], KINDS[8]], ids=str)
@pytest.mark.parametrize("name", [n for n, w in workloads.WORKLOADS.items() if w.types.dtypes])
def test_every_built_in_takes_types(name: str, kind: dict[str, Any]) -> None:
    """The reference, rounded as it says, is what the declaration computes with its casts."""
    task = Task.from_workload(name, **small_args(name), **kind)
    asked = workloads.get(name).types_of({**small_args(name), **kind})
    assert task.tensors[0].dtype.name == kind.get("in_dtype", kind.get("dtype"))
    assert task.tensors[-1].dtype.name == asked.out
    assert Task.from_json(task.to_json()).key == task.key
    inputs = task.inputs(seed=1)
    (expected,) = task.reference(inputs)
    (found,) = evaluate(task.tensors, inputs)
    (tolerance,) = tolerances(task, inputs, [expected])
    assert compare("out", found.astype(expected.dtype), expected, tolerance) is None


@pytest.mark.parametrize("out", ["int32", "uint8"])
@pytest.mark.parametrize(
    "name", [n for n, w in workloads.WORKLOADS.items() if w.types.dtypes and not w.types.floats]
)
def test_sums_of_integers_wrap_before_what_follows_them(name: str, out: str) -> None:
    kind = {"in_dtype": "int32", "acc_dtype": "int32", "out_dtype": out}
    task = Task.from_workload(name, **small_args(name), **kind)
    inputs = [np.asarray(a) * np.int32(2**29 + 3) for a in task.inputs(seed=1)]
    (expected,) = task.reference(inputs)
    (found,) = evaluate(task.tensors, inputs)
    assert np.unique(expected).size > 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kernels_compute_in_the_types_that_are_asked_for(kind: dict[str, Any]) -> None:
    task = Task.from_workload("dense_bias_relu", target=cpu_target(1), **SIZES, **kind)
    inputs = task.inputs(seed=2)
    (expected,) = task.reference(inputs)
    (steps,) = SearchSpace(task, SearchOptions()).sample(np.random.default_rng(1), 1)
    found = load(build_steps(task.dag, steps, task.target))(*inputs)
    assert isinstance(found, np.ndarray)
    (tolerance,) = tolerances(task, inputs, [expected])
    assert compare("relu", found, expected, tolerance) is None


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8")])
def test_a_sum_over_the_lanes_of_one_vector(kinds: tuple[str, str]) -> None:
    """LLVM 22 makes it a vpdpbusd and forgets to add up its four lanes."""
    sizes = {"B": 2, "M": 17, "N": 1, "K": 31}
    types = dict(zip(("in_dtype", "weight_dtype"), kinds, strict=True))
    args: dict[str, Any] = {**sizes, **types, "target": cpu_target(2)}
    task = Task.from_workload("batch_matmul", **args)
    (steps,) = SearchSpace(task, SearchOptions(space="ansor")).sample(np.random.default_rng(0), 1)
    inputs = task.inputs()
    found = load(build_steps(task.dag, steps, task.target))(*inputs)
    np.testing.assert_array_equal(found, task.reference(inputs)[0])


@pytest.mark.parametrize("length", [4, 8, 16])
def test_a_sum_over_lanes_that_fill_no_register(length: int) -> None:
    """As above; the products of 8 lanes lie in half of the smallest register."""
    sizes: dict[str, Any] = {"M": 3, "N": 1, "K": length}
    types: dict[str, Any] = {"in_dtype": "int8", "weight_dtype": "uint8"}
    task = Task.from_workload("dense_requantised", target=cpu_target(1), **sizes, **types)
    steps = [
        *(["CI", 5], ["CI", 4], ["SP", 2, 0, 3, [1, 3, 1], 1], ["SP", 2, 4, 1, [1, 1, 1], 1]),
        *(["SP", 2, 8, length, [length], 1], ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["CR", 7]),
        *(["FU", 2, [0, 1]], ["AN", 2, 0, 3], ["AN", 7, 0, 3]),
        *(["PR", 2, 0, "auto_unroll_max_step$512"], ["AN", 2, 8, 2]),
    ]
    inputs = task.inputs()
    kernel = load(build_steps(task.dag, steps_from_json(steps), task.target))
    np.testing.assert_array_equal(kernel(*inputs), task.reference(inputs)[0])


@pytest.mark.parametrize(
    "factors",
    [
        "int32(max(A[i, k], 0)) * int32(B[k, j])",
        "(int32(A[i, k]) & 15) * int32(B[k, j])",
        "int32(A[i, k]) * (int32(B[k, j]) // 16 + 8)",
    ],
)
def test_a_sum_over_the_lanes_of_one_vector_of_values_that_fit_bytes(factors: str) -> None:
    """LLVM 22 knows of what fits uint8 and int8."""
    task = Task.from_expression(
        f"C[i, j] = sum(k, {factors})",
        shapes={"A": [17, 31], "B": [31, 1]},
        dtype={"A": "int8", "B": "int8", "C": "int32"},
        target=cpu_target(2),
    )
    inputs = task.inputs()
    space = SearchSpace(task, SearchOptions(space="autosched"))
    for steps in space.sample(np.random.default_rng(0), 8):
        found = load(build_steps(task.dag, steps, task.target))(*inputs)
        np.testing.assert_array_equal(found, task.reference(inputs)[0])


def test_integers_that_do_not_fit_the_outputs_become_the_nearest_that_do() -> None:
    matmul = workloads.get("matmul")
    a = np.full((1, 4), 127, np.int8)
    (found,) = matmul.reference([a, a.T], M=1, N=1, K=4, in_dtype="int8", out_dtype="uint8")
    assert found.dtype == np.uint8
    assert found == 255


def test_long_sums_of_bfloat16_add_up_in_the_accumulator() -> None:
    """4096 ones are 256 in bfloat16 alone, whose next number is 258."""
    kind: dict[str, Any] = {"dtype": "bfloat16", "acc_dtype": "float32"}
    task = Task.from_workload("matmul", M=1, N=1, K=4096, target=cpu_target(1), **kind)
    ones = np.ones((1, 4096), task.tensors[0].dtype.numpy)
    found = load(build_steps(task.dag, (), task.target))(ones, np.ones_like(ones.T))
    assert float(found[0, 0]) == 4096.0


@pytest.mark.parametrize(
    ("name", "kind", "resolved", "shown"),
    [
        ("matmul", {}, {"dtype": "float32"}, {}),
        ("matmul", {"in_dtype": "float32"}, {"dtype": "float32"}, {}),
        (
            "matmul",
            {"in_dtype": "int8"},
            {"in_dtype": "int8", "acc_dtype": "int32", "out_dtype": "int32"},
            {"in_dtype": "int8"},
        ),
        (
            "matmul",
            {"dtype": "bfloat16", "acc_dtype": "float32"},
            {"in_dtype": "bfloat16", "acc_dtype": "float32", "out_dtype": "bfloat16"},
            {"in_dtype": "bfloat16", "out_dtype": "bfloat16"},
        ),
        (
            "softmax",
            {"in_dtype": "int8"},
            {"in_dtype": "int8", "acc_dtype": "float32", "out_dtype": "float32"},
            {"in_dtype": "int8"},
        ),
        ("max_pool2d_nchw", {"in_dtype": "int8"}, {"dtype": "int8"}, {"dtype": "int8"}),
    ],
)
def test_types_not_given(
    name: str, kind: dict[str, Any], resolved: dict[str, str], shown: dict[str, str]
) -> None:
    task = Task.from_workload(name, **small_args(name), **kind)
    sizes = small_args(name)
    args = task.workload.to_json()["args"]
    assert {key: value for key, value in args.items() if key not in sizes} == resolved
    assert all(f"{key}={value}" in task.name for key, value in shown.items())
    assert task.name.count("dtype") == len(shown)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("matmul", {"dtype": "int8"}, "dtype must be one of .*in_dtype=int8 .* sums in int32"),
        ("matmul", {"in_dtype": "int8", "acc_dtype": "int8"}, "acc_dtype must be one of"),
        (
            "matmul",
            {"dtype": "int8", "out_dtype": "int32"},
            "int8 cannot be the type of sums; give acc",
        ),
        ("matmul", {"in_dtype": "float32", "acc_dtype": "int32"}, "cannot hold .* give float32"),
        ("matmul", {"in_dtype": "bfloat16", "acc_dtype": "float16"}, "cannot hold all values of"),
        ("matmul", {"in_dtype": "float32", "out_dtype": "int8"}, "does not determine how sums"),
        ("softmax", {"in_dtype": "int8", "acc_dtype": "int32"}, "acc_dtype must be one of float32"),
        ("softmax", {"weight_dtype": "int8"}, "unknown argument 'weight_dtype'"),
    ],
)
def test_refuses_types_that_make_no_sense(name: str, kind: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Task.from_workload(name, **small_args(name), **kind)


def test_a_type_of_numpy_is_its_name() -> None:
    for kind in ("float16", "bfloat16", "float32"):
        dtype = np.dtype(getattr(ml_dtypes, kind, kind))
        task = Task.from_workload("matmul", M=4, N=4, K=4, dtype=dtype)
        assert task == Task.from_workload("matmul", M=4, N=4, K=4, dtype=kind)
        assert task.key == Task.from_workload("matmul", M=4, N=4, K=4, dtype=kind).key
