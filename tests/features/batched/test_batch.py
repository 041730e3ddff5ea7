"""Rows of many candidates at once are those of each by itself, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.lowering import features_of_steps
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import SplitStep, Step
from autosched.target import cpu_target
from autosched.task import Task

_IMAGE: dict[str, Any] = {"N": 1, "H": 12, "W": 10, "K": 3, "stride": 1, "padding": 1}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 60, "N": 24, "K": 36}),
    ("dense_bias_relu", {"M": 16, "N": 100, "K": 32}),
    ("conv2d_nchw_bn_relu", {**_IMAGE, "CI": 6, "CO": 8}),
    ("depthwise_conv2d_nhwc", {**_IMAGE, "C": 9, "stride": 2}),
    ("conv2d_transpose_nhwc", {**_IMAGE, "H": 6, "W": 4, "K": 4, "CI": 4, "CO": 6, "stride": 2}),
    ("max_pool2d_nchw", {**_IMAGE, "C": 4}),
    ("norm_bmn", {"B": 2, "M": 16, "N": 32}),
    ("softmax", {"M": 12, "N": 50}),
    ("layer_norm", {"M": 16, "N": 48}),
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 16, "H": 4, "D": 8}),
]
COUNT = 24


def _one(task: Task, steps: tuple[Step, ...]) -> FeatureRows | None:
    try:
        return features_of_steps(task.dag, steps, task.target, "ansor-0.19")
    except ScheduleError:
        return None


def _bits(rows: FeatureRows | None) -> object:
    return None if rows is None else (rows.shape, rows.tobytes())


@pytest.mark.parametrize(("name", "args"), CASES, ids=[name for name, _ in CASES])
def test_rows_are_those_of_one_by_one(name: str, args: dict[str, Any]) -> None:
    task = Task.from_workload(name, target=cpu_target(threads=2), **args)
    # Ansor's space: the one of autosched also has splits that do not divide, which go one by one
    found = SearchSpace(task, SearchOptions(space="ansor")).sample(np.random.default_rng(3), COUNT)
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched(found)
    assert batched.share.candidates == len(found)
    assert batched.share.one_by_one <= 0.1 * len(found)
    assert [_bits(r) for r in rows] == [_bits(_one(task, steps)) for steps in found]


def test_a_split_that_does_not_divide_is_worked_out_one_by_one() -> None:
    """What the arrays have no rule for is never guessed."""
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=16, N=16, K=16)
    found = SearchSpace(task).sample(np.random.default_rng(3), 8)
    odd = [
        tuple(
            SplitStep(s.stage_id, s.iter_id, s.extent, (*s.lengths[:-1], 7))
            if isinstance(s, SplitStep)
            else s
            for s in steps
        )
        for steps in found
    ]
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched([*found, *odd])
    assert batched.share.one_by_one == len(odd)
    assert [_bits(r) for r in rows] == [_bits(_one(task, s)) for s in [*found, *odd]]


def test_no_steps_and_illegal_steps() -> None:
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=4, N=4, K=4)
    illegal = (SplitStep(99, 0, 4, (2,)),)
    rows = BatchedFeatures(task.dag, task.target)([(), illegal, ()])
    assert rows[1] is None
    assert _bits(rows[0]) == _bits(rows[2]) == _bits(_one(task, ()))
