"""Rows at once come in the order of the program, that of the rows one by one."""

from __future__ import annotations

import pytest

from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.lowering import rows_of_steps
from autosched.state.steps import JsonStep, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.task import Task
from kit.one_by_one import bits

TARGET = Target(
    "cpu",
    HardwareParams.default("cpu", threads=2),
    2,
    "haswell",
    "+avx,+avx2,+fma",
    "x86_64-unknown-linux-gnu",
    32,
    caches=(32 << 10, 512 << 10, 32 << 20),
)
SETS = {"ansor-0.19": BatchedFeatures, "autosched-1": BatchedTuningFeatures}

# for i: P[i, ...] = ...; Q[i] = 0; for k: Q[i] += ...; Y[i] = ...
FIRST_LOOP = (
    "P[i, k] = A[i, k] + 1; Q[i] = sum(k, P[i, k]); Y[i] = Q[i] * 2",
    [["RE", 2, [1, 0]], ["CA", 2, 3, 0], ["CA", 1, 3, 0]],
)
# Q[i] = 0; P[...] = ...; for i: for k: Q[i] += ...             the start moves past P
AFTER = (
    "P[i, k] = A[i, k] + 1; Q[i] = sum(k, P[i, k])",
    [["SP", 2, 1, 16, [16], 1], ["RE", 2, [1, 0, 2]], ["CA", 1, 2, 0]],
)
# for k: P[...] = ...; for i: Q[i] = 0 if k == 0; ...
INSIDE = (
    "P[i, k] = A[i, k] + 1; Q[i] = sum(k, P[i, k])",
    [["SP", 2, 1, 16, [4], 1], ["RE", 2, [1, 0, 2]], ["CA", 1, 2, 0]],
)
CASES: dict[str, tuple[str, list[JsonStep]]] = {
    "a start before the first loop": FIRST_LOOP,
    "a stage right after a start": AFTER,
    "a stage in a loop after the start": INSIDE,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SETS)
def test_rows_are_in_the_order_of_the_program(
    case: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    expression, written = CASES[case]
    task = Task.from_expression(expression, {"A": (8, 16)}, target=TARGET)
    steps = steps_from_json(written)
    batched = SETS[name](task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert bits(rows) == bits(rows_of_steps(task.dag, steps, task.target, name))
    assert batched.share.one_by_one == 0


def test_a_start_that_stays_behind_what_left_its_loop_goes_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H leaves the second loop, and P's storage is then around the start, which does not move."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    task = Task.from_expression(
        "H[k] = B[k] + 1; P[i, k] = A[i, k] + 1; Q[i] = sum(k, P[i, k] * H[k])",
        {"A": (8, 16), "B": (16,)},
        target=TARGET,
    )
    written: list[JsonStep] = [
        *(["SP", 4, 0, 8, [2, 2], 1], ["SP", 4, 3, 16, [16], 1], ["RE", 4, [0, 1, 3, 2, 4]]),
        *(["CA", 3, 4, 1], ["CA", 1, 4, 2], ["AN", 4, 0, 3]),
    ]
    steps = steps_from_json(written)
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert bits(rows) == bits(rows_of_steps(task.dag, steps, task.target, "autosched-1"))
    assert batched.share.reasons["a reduction whose start may move"] == 1


@pytest.mark.parametrize("name", SETS)
def test_candidates_of_one_program_have_their_own_order(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P[...] = ...; Q[...] = ...; Y[...] = ... or Q first, and P in a loop of Y."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    expression = "P[i, k] = A[i, k] + 1; Q[k, i] = B[i, k] * 2; Y[i, k] = P[i, k] * Q[k, i]"
    shapes = {"A": (8, 16), "B": (8, 16)}
    task = Task.from_expression(expression, shapes, target=TARGET)
    written: list[list[JsonStep]] = [[], [["CA", 1, 4, 0]], [["CA", 3, 4, 0]], []]
    every = [steps_from_json(steps) for steps in written]
    batched = SETS[name](task.dag, task.target)
    for steps, rows in zip(every, batched.rows_of(every), strict=True):
        assert bits(rows) == bits(rows_of_steps(task.dag, steps, task.target, name))
    assert (batched.share.one_by_one, batched.share.programs) == (0, 1)


def test_of_accesses_of_as_many_lines_those_of_larger_elements_come_first() -> None:
    """All three access one line, `a` one byte of it at a time."""
    task = Task.from_expression(
        "Y[i] = b[i] + a[i]; Z[i] = a[i] - b[i]",
        {"a": (8,), "b": (8,)},
        dtype={"a": "int8", "b": "int32"},
        target=TARGET,
    )
    batched = BatchedTuningFeatures(task.dag, task.target)
    want = bits(rows_of_steps(task.dag, (), task.target, "autosched-1"))
    assert [bits(rows) for rows in batched.rows_of([()] * 4)] == [want] * 4
    assert batched.share.one_by_one == 0
