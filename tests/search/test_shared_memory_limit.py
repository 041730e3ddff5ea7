"""Shared memory that a candidate may have: Ansor's count in its space, else the merged size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.driver import build_cuda, lower_for_features
from autosched.errors import ScheduleError
from autosched.referee.check import Verdict, check_candidate
from autosched.search.featurize import task_featurizer
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import cuda_target
from autosched.task import Task

Steps = tuple[Step, ...]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", target=cuda_target("sm_80"), M=512, N=512, K=64)


@pytest.fixture(scope="module")
def large(task: Task) -> Steps:
    """A candidate of more than 48 KiB."""

    def wanted(each: Sequence[Steps]) -> list[bool]:
        return ["bytes of shared" in refusal(task, steps, ansor_limits=True) for steps in each]

    return SearchSpace(task).sample(np.random.default_rng(3), 1, wanted)[0]


def refusal(task: Task, steps: Steps, ansor_limits: bool) -> str:
    try:
        lower_for_features(task.dag, steps, task.target, ansor_limits=ansor_limits)
    except ScheduleError as error:
        return str(error)
    return ""


def test_beyond_ansors_limit(task: Task, large: Steps) -> None:
    """Refused in Ansor's space; in ours code is made for it that computes what it should."""
    assert task_featurizer(task, ansor_limits=True)([large]) == [None]
    (rows,) = task_featurizer(task)([large])
    assert rows is not None
    artifact = build_cuda(task.dag, large, task.target)
    (kernel,) = artifact.kernels
    assert kernel.static_shared == 0
    assert 48 << 10 < kernel.dynamic_shared <= 163 << 10
    assert check_candidate(task, large).verdict is Verdict.AGREES


def test_limits_of_architectures_and_of_the_user(task: Task, large: Steps) -> None:
    assert cuda_target("sm_90").shared_memory_limit == 227 << 10
    assert cuda_target("sm_90a").shared_memory_limit == 227 << 10
    assert cuda_target("sm_61").shared_memory_limit == 48 << 10
    own = cuda_target("sm_80", max_shared_memory_per_block=1024)
    small = Task.from_workload("matmul", target=own, M=512, N=512, K=64)
    assert "even merged, at most 1024 are allowed" in refusal(small, large, ansor_limits=False)
