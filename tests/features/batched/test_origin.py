"""Axes of factored reductions are what `rfactor` makes of them."""

from __future__ import annotations

import pytest

from autosched.features.batched.sets import batched_features
from autosched.features.lowering import features_of_steps
from autosched.features.sets import ANSOR, AUTOSCHED_1
from autosched.state.steps import JsonStep, steps_from_json
from autosched.target import cuda_target
from autosched.task import Task

# C.rf[t, 0] += A[0, k // 49, k % 49] for t in 4, if t < 1
ONE_PART: list[JsonStep] = [
    *(["FU", 1, [1, 2]], ["SP", 1, 1, 1470, [1], 0], ["RF", 1, 1, 0], ["AN", 3, 0, 6]),
    *(["AN", 2, 0, 6], ["FU", 1, [0, 1]], ["SP", 1, 0, 1, [4], 1]),
    *(["AN", 1, 0, 5], ["AN", 1, 1, 6]),
]


@pytest.mark.parametrize("name", [ANSOR, AUTOSCHED_1])
def test_a_factored_loop_of_one_iteration_moves_no_read(name: str) -> None:
    """Though the threads that it is shared out to reach beyond it."""
    task = Task.from_workload("norm_bmn", target=cuda_target(), B=1, M=30, N=49)
    steps = steps_from_json(ONE_PART)
    batched = batched_features(task.dag, task.target, name)
    want = features_of_steps(task.dag, steps, task.target, name)
    for rows in batched([steps] * 4):
        assert rows is not None and rows.shape == want.shape
        assert rows.tobytes() == want.tobytes()
    assert batched.share.one_by_one == 0
