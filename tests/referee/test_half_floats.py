"""Built-in workloads in low precision: their kernels compile, and compute what NumPy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from autosched.driver import build_cuda, lower_for_features
from autosched.errors import ScheduleError
from autosched.referee.check import Verdict, check_candidate
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import cuda_target
from autosched.task import Task

IMAGE = {"N": 1, "H": 6, "W": 6, "K": 3, "stride": 1, "padding": 1}
CASES: dict[tuple[str, str], dict[str, Any]] = {
    ("batch_matmul", "bfloat16"): {"B": 2, "M": 16, "N": 24, "K": 20},
    ("conv2d_nchw_bn_relu", "float16"): {**IMAGE, "CI": 4, "CO": 6},
    ("norm_bmn", "bfloat16"): {"B": 2, "M": 20, "N": 24},
    ("softmax", "float16"): {"M": 8, "N": 48},
    ("transpose_batch_matmul_softmax", "bfloat16"): {"B": 1, "S": 12, "H": 2, "D": 8},
    ("max_pool2d_nchw", "bfloat16"): {**IMAGE, "C": 4, "stride": 2},
    ("layer_norm", "float16"): {"M": 8, "N": 48},
}
"""All built-in workloads in both types: benchmarks/referee.py --dtype TYPE."""

WIDENED: dict[str, tuple[str, dict[str, Any]]] = {
    "int8": ("matmul", {"M": 5, "N": 6, "K": 7, "in_dtype": "uint8", "weight_dtype": "int8"}),
    "float8": ("matmul", {"M": 5, "N": 6, "K": 7, "in_dtype": "float8_e4m3fn"}),
    "bfloat16": ("softmax", {"M": 8, "N": 48, "dtype": "bfloat16", "acc_dtype": "float32"}),
    "requantised": ("dense_requantised", {"M": 5, "N": 6, "K": 7, "y_zero": 3}),
}
"""All built-in workloads in all types: benchmarks/types_and_sizes.py --target cuda."""


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_workloads(name: str, dtype: str) -> None:
    size = CASES[name, dtype]
    assert_agrees(Task.from_workload(name, target=cuda_target("sm_80"), dtype=dtype, **size))


@pytest.mark.parametrize("case", WIDENED)
def test_sums_in_wider_types(case: str) -> None:
    name, args = WIDENED[case]
    assert_agrees(Task.from_workload(name, target=cuda_target("sm_80"), **args))


def assert_agrees(task: Task) -> None:
    def legal(each: Sequence[tuple[Step, ...]]) -> list[bool]:
        return [is_legal(task, steps) for steps in each]

    steps = SearchSpace(task).sample(np.random.default_rng(2), 1, legal)[0]
    (cubin,) = build_cuda(task.dag, steps, task.target).cubins
    assert cubin == "sm_80"
    report = check_candidate(task, steps, seconds=60)
    assert report.verdict is Verdict.AGREES, str(report)


def is_legal(task: Task, steps: tuple[Step, ...]) -> bool:
    try:
        lower_for_features(task.dag, steps, task.target, ansor_limits=False)
    except ScheduleError:
        return False
    return True
