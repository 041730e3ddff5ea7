"""Stages that leave loops they do not depend on have a rule: rows at once are those one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.features.batched.autosched_1 import rows as rows_file
from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.batched.autosched_1.hoists import hoist
from autosched.features.batched.nest import Nest, Population
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import JsonStep, steps_from_json
from autosched.task import Task
from kit.cpus import CPUS
from kit.one_by_one import bits, rows_of_one

CASES: list[tuple[str, dict[str, Any]]] = [
    ("softmax", {"M": 12, "N": 48}),
    ("layer_norm", {"M": 8, "N": 32}),
]
COUNT = 24
REFUSED = (
    "a stage that may leave all loops of another",
    "a stage that leaves a loop with a limit of unrolling",
)


class _Moved:
    """`hoist`, noting how many of the candidates it is asked about have a stage that moves."""

    def __init__(self) -> None:
        self.same, self.moved = 0, 0

    def __call__(self, nest: Nest, population: Population) -> Population:
        found = hoist(nest, population)
        if found is population:
            self.same += 1
        if found.left is not None:
            some = np.any([left >= 0 for left in found.left], axis=0)
            self.moved += int((some & ~nest.forms.bad).sum())
        return found


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> _Moved:
    found = _Moved()
    monkeypatch.setattr(rows_file, "hoist", found)
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    return found


@pytest.mark.parametrize(("name", "args"), CASES)
@pytest.mark.parametrize("cpu", CPUS)
def test_candidates_whose_stages_move_are_worked_out_at_once(
    name: str, args: dict[str, Any], cpu: str, moved: _Moved
) -> None:
    task = Task.from_workload(name, target=CPUS[cpu], **args)
    space = SearchSpace(task, SearchOptions(space="ansor"))
    found = space.sample(np.random.default_rng(7), COUNT)
    batched = BatchedTuningFeatures(task.dag, task.target)
    rows = batched.rows_of(found)
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, steps, "autosched-1")) for steps in found
    ]
    assert moved.moved >= COUNT // 10
    assert sum(batched.share.reasons[why] for why in REFUSED) <= COUNT // 10


def test_a_program_whose_stages_stay_is_as_it_was(moved: _Moved) -> None:
    task = Task.from_workload("softmax", target=CPUS["haswell"], M=4, N=12)
    (rows,) = BatchedTuningFeatures(task.dag, task.target).rows_of([()])
    assert bits(rows) == bits(rows_of_one(task, (), "autosched-1"))
    assert moved.same and not moved.moved


# The largest value and the sum of a row at each of its outputs, both in the loop over the outputs:
# they leave it in their order. With a limit of unrolling around that loop they would stand inside.
ROW: list[JsonStep] = [["CA", 3, 4, 1], ["CA", 2, 4, 1], ["CA", 1, 4, 1]]
LIMITED: list[JsonStep] = [*ROW, ["PR", 4, 1, "auto_unroll_max_step$16"]]


@pytest.mark.parametrize(
    ("written", "why"),
    [(ROW, ""), (LIMITED, "a stage that leaves a loop with a limit of unrolling")],
)
def test_stages_leave_a_loop_but_not_its_limit_of_unrolling(
    written: list[JsonStep], why: str, moved: _Moved
) -> None:
    task = Task.from_workload("softmax", target=CPUS["haswell"], M=4, N=12)
    steps = steps_from_json(written)
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert bits(rows) == bits(rows_of_one(task, steps, "autosched-1"))
    assert batched.share.reasons[why] == (1 if why else 0)
    assert batched.share.one_by_one == (1 if why else 0)
    assert (moved.moved > 0) is not bool(why)


# The transposed Q leaves a loop over tiles past the start of the product, which then stays there.
PAST: list[JsonStep] = [
    *(["SP", 8, 1, 128, [1], 1], ["CA", 7, 8, 1], ["CA", 6, 8, 1], ["CA", 5, 8, 1]),
    *(["CHW", 4, "local"], ["SP", 4, 0, 12, [4, 3, 1], 1], ["SP", 4, 4, 128, [4, 1, 32], 1]),
    *(["SP", 4, 8, 128, [32, 2, 2], 1], ["SP", 4, 12, 64, [64], 1]),
    ["RE", 4, [0, 4, 8, 1, 5, 9, 12, 2, 6, 10, 13, 3, 7, 11]],
    *(["FSP", 5, 0, 5, 1], ["FSP", 5, 2, 6, 1], ["FSP", 5, 4, 7, 1], ["RE", 5, [0, 2, 4, 1, 3, 5]]),
    *(["CA", 4, 5, 2], ["CA", 3, 4, 6], ["CA", 1, 4, 6], ["FU", 5, [0, 1]], ["AN", 5, 0, 3]),
    *(["FU", 9, [0, 1]], ["AN", 9, 0, 3], ["PR", 4, 0, "auto_unroll_max_step$512"]),
    *(["FU", 3, [1, 2]], ["AN", 3, 1, 2], ["AN", 4, 13, 2], ["AN", 5, 4, 2]),
]


def test_a_stage_that_moves_past_a_start_that_may_stay_goes_one_by_one(moved: _Moved) -> None:
    target = CPUS["haswell"]
    task = Task.from_workload(
        "transpose_batch_matmul_softmax", target=target, B=1, S=128, H=12, D=64
    )
    steps = steps_from_json(PAST)
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert bits(rows) == bits(rows_of_one(task, steps, "autosched-1"))
    assert batched.share.reasons["a reduction whose start may move"] == 1
    assert batched.share.one_by_one == 1


# The largest value at the elements of a row that is computed at the output: it comes to stand
# before them, in the output's loop.
NESTED: list[JsonStep] = [["CA", 3, 4, 0], ["CA", 2, 4, 0], ["CA", 1, 2, 1]]
# Columns outside of rows: sums of rows leave all loops of the output, and the program begins with
# them. The sum of squares is computed in the loop that the other sum leaves, too.
COLUMNS: list[JsonStep] = [["CI", 4], ["CI", 2], ["RE", 7, [1, 0]]]
ROOT: list[JsonStep] = [*COLUMNS, ["CA", 3, 7, 0], ["CA", 1, 7, 0]]
# Of these two the first leaves the output past the second, which is computed before all loops.
BETWEEN: list[JsonStep] = [*COLUMNS, ["CA", 1, 7, 0]]
ALL = "a stage that may leave all loops of another"


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("name", "sizes", "written", "why"),
    [
        ("softmax", {"M": 4, "N": 12}, NESTED, ""),
        ("layer_norm", {"M": 8, "N": 32}, ROOT, ""),
        ("layer_norm", {"M": 8, "N": 32}, BETWEEN, ALL),
    ],
)
def test_stages_leave_all_loops_of_another(
    name: str, sizes: dict[str, Any], written: list[JsonStep], why: str, cpu: str, moved: _Moved
) -> None:
    task = Task.from_workload(name, target=CPUS[cpu], **sizes)
    steps = steps_from_json(written)
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert bits(rows) == bits(rows_of_one(task, steps, "autosched-1"))
    assert batched.share.reasons[why] == (1 if why else 0)
    assert batched.share.one_by_one == (1 if why else 0)
