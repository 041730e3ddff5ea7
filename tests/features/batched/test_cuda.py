"""Rows and refusals of many CUDA candidates at once are those of each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import Rows
from autosched.search.evolution import mutated
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from autosched.state.steps import Step, steps_from_json
from autosched.target import cuda_target
from autosched.task import Task

CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 500, "N": 96, "K": 64}),
    (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 14, "W": 10, "K": 3, "CI": 6, "CO": 8, "stride": 1, "padding": 1},
    ),
    ("softmax", {"M": 48, "N": 50}),
    # A window beside axes that threads share, with conditions and a sum of its own.
    ("max_pool2d_nchw", {"N": 1, "C": 5, "H": 14, "W": 14, "K": 3, "stride": 1, "padding": 1}),
    (
        "conv2d_transpose_nhwc",
        {"N": 1, "H": 4, "W": 4, "K": 4, "CI": 8, "CO": 28, "stride": 2, "padding": 1},
    ),
]
COUNT = 12


def _drawn(task: Task) -> list[tuple[Step, ...]]:
    """Random candidates, and mutations, whose vectors and virtual threads are often too many."""
    rng = np.random.default_rng(5)
    space = SearchSpace(task)
    found = space.sample(rng, COUNT)[:COUNT]
    structures = Structures()
    rows = structures.rows(found)
    for _ in range(3):
        rows = mutated(space.context, structures, rows, rng)
    return [*found, *structures.candidates(rows)]


def _one(task: Task, steps: tuple[Step, ...], ansor_limits: bool) -> Rows | None:
    try:
        return rows_of_steps(task.dag, steps, task.target, "ansor-0.19", ansor_limits)
    except ScheduleError:
        return None


def _bits(rows: Rows | None) -> object:
    return None if rows is None else (rows.values.shape, rows.values.tobytes(), rows.buffers)


@pytest.mark.parametrize(("name", "args"), CASES, ids=[name for name, _ in CASES])
def test_rows_and_refusals(name: str, args: dict[str, Any]) -> None:
    task = Task.from_workload(name, target=cuda_target(), **args)
    found = _drawn(task)
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched.rows_of(found)
    assert not batched.share.one_by_one, batched.share.reasons
    assert [_bits(r) for r in rows] == [_bits(_one(task, steps, True)) for steps in found]


@pytest.mark.parametrize(("lanes", "fits"), [(4, True), (8, True), (16, False)])
def test_vectors_that_a_border_makes_loops_are_not_too_wide(lanes: int, fits: bool) -> None:
    """The border asks for the lane: 1 <= (t * 8 + lane) // 16, whose axis is t // 2 alone."""
    sizes: dict[str, Any] = {"N": 2, "L": 13, "CI": 32, "CO": 48, "K": 3, "stride": 1, "padding": 1}
    task = Task.from_workload("conv1d_nlc", target=cuda_target(), **sizes)
    tiles = [[1, 2, 1, 1], [1, 13, 1, 1], [1, 6, 8, 1], [1, 3], [2, 8]]
    splits = zip((0, 5, 10, 15, 18), (2, 13, 48, 3, 32), tiles, strict=True)
    space = [0, 5, 10, 1, 6, 11, 2, 7, 12]
    steps: list[Any] = [["CHW", 3, "local"]]
    steps += [["SP", 3, at, extent, tile, 1] for at, extent, tile in splits]
    steps += [["RE", 3, [*space, 15, 18, 16, 19, 3, 8, 13, 17, 20, 4, 9, 14]]]
    steps += [["FSP", 4, at, n, 3] for at, n in ((0, 1), (4, 2), (8, 3))]
    steps += [["RE", 4, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]], ["CA", 3, 4, 8]]
    steps += [["CHR", 2, "shared", [3]], ["CA", 3, 4, 10], ["CHR", 1, "shared", [4]]]
    steps += [["CA", 2, 5, 10], ["CI", 1]]
    for k, kind in enumerate((5, 4, 6)):
        steps += [["FU", 6, [k, k + 1, k + 2]], ["AN", 6, k, kind]]
    for stage, extent, vector in ((4, 128, 1), (2, 16, lanes)):
        steps += [["FU", stage, [0, 1, 2]], ["SP", stage, 0, extent, [vector], 1]]
        steps += [["AN", stage, 1, 2], ["FFSP", stage, 0, [3, 2, 1], 1, 1], ["AN", stage, 1, 6]]
    candidate = steps_from_json(steps)
    (rows,) = BatchedFeatures(task.dag, task.target).rows_of([candidate])
    assert (rows is not None) == fits
    assert _bits(rows) == _bits(_one(task, candidate, True))


@pytest.mark.parametrize("limit", [1024, 8192])
def test_what_is_refused_is_illegal(limit: int) -> None:
    """Shared memory by Ansor's count and by what merging it leaves, and too many threads."""
    target = cuda_target(max_shared_memory_per_block=limit, max_threads_per_block=64)
    task = Task.from_workload("matmul", target=target, M=64, N=64, K=64)
    found = _drawn(task)
    for ansor_limits in (True, False):
        batched = BatchedFeatures(task.dag, target, ansor_limits)
        refused = batched.refused(found)
        wanted = [_one(task, steps, ansor_limits) for steps in found]
        assert any(refused)
        assert all(own is None for own, no in zip(wanted, refused, strict=True) if no)
        assert [_bits(r) for r in batched.rows_of(found)] == [_bits(own) for own in wanted]
