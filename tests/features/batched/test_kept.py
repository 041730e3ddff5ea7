"""Values that are kept in an output, with conditions around some stores of the program."""

from __future__ import annotations

import pytest

from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.lowering import rows_of_steps
from autosched.state.steps import JsonStep, steps_from_json
from autosched.task import Task
from kit.cpus import CPUS

# Tiles that do not divide an axis: of the exponentials, which stay in the output; of the output's
# rows, whose elements are then stored under a condition.
KEPT: list[JsonStep] = [["SP", 2, 1, 10, [4], 1], ["CA", 3, 4, 0], ["CA", 2, 4, 0]]
APART: list[JsonStep] = [["SP", 4, 0, 5, [2], 1], ["CA", 3, 4, 0], ["CA", 2, 4, 0]]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("written", "stored"), [(KEPT, False), (APART, True)])
def test_rows_are_those_of_one_by_one(
    written: list[JsonStep], stored: bool, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    task = Task.from_workload("softmax", target=CPUS[cpu], M=5, N=10)
    steps = steps_from_json(written)
    one = rows_of_steps(task.dag, steps, task.target, "autosched-1")
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert rows is not None
    assert rows.values.tobytes() == one.values.tobytes()
    assert rows.buffers == one.buffers
    assert ("exp" in one.buffers) is stored
    assert batched.share.one_by_one == 0, batched.share.reasons


@pytest.mark.parametrize("written", [[], [["SP", 3, 0, 6, [2], 1], ["AN", 3, 0, 3]]])
def test_another_output_may_read_the_values_later(
    written: list[JsonStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a KeyError: all candidates of such computations went one by one."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    task = Task.from_expression(
        "E[i, j] = exp(A[i, j]); P[i, j] = E[i, j] + 1; Q[i, j] = E[i, j] * 2", {"A": (6, 8)}
    )
    steps = steps_from_json(written)
    one = rows_of_steps(task.dag, steps, task.target, "autosched-1")
    (rows,) = BatchedTuningFeatures(task.dag, task.target).rows_of([steps])
    assert rows is not None
    assert rows.values.tobytes() == one.values.tobytes()
    assert rows.buffers == one.buffers
