"""Features are worked out once, here or in the helper, with the same result."""

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.errors import MeasureError, ScheduleError
from autosched.features.sets import FEATURE_SETS, TUNING
from autosched.process.worker import NoProcessError
from autosched.search import featurize
from autosched.search.featurize import Featurizer, Helper, _give_back, make_handler, task_featurizer
from autosched.state.steps import SplitStep, Step, steps_to_json
from kit.helper import StubHelper, StubWorker, wait_for
from kit.types import Array, MakeSpace, MakeTask

ILLEGAL = (SplitStep(2, 9, 4, (2,)),)


@pytest.fixture(scope="module")
def candidates(make_task: MakeTask, make_space: MakeSpace) -> list[tuple[Step, ...]]:
    space = make_space(make_task("matmul"))
    return space.sample(np.random.default_rng(0), 10)


def test_each_is_worked_out_once(make_task: MakeTask, candidates: list[tuple[Step, ...]]) -> None:
    calls = []

    def extract(steps: tuple[Step, ...]) -> Array:
        calls.append(steps)
        if steps == ILLEGAL:
            raise ScheduleError("no such loop")
        return np.full((1, 2), len(steps), np.float32)

    featurize = Featurizer(extract, make_task("matmul"))
    asked = [candidates[0], ILLEGAL, candidates[1], candidates[0]]
    rows = featurize(asked)
    assert rows[1] is None
    assert rows[0] is rows[3]
    featurize(asked)
    assert calls == [candidates[0], ILLEGAL, candidates[1]]


def test_the_second_process_tells_machines_of_one_key_apart(
    make_task: MakeTask, candidates: list[tuple[Step, ...]]
) -> None:
    """Sizes of caches belong to no task's key, and to its features."""
    task = make_task("matmul")
    handle = make_handler()
    for caches in ((64, 128, 256), (1 << 20, 1 << 22, 1 << 24)):
        own = replace(task, target=replace(task.target, caches=caches))
        steps = [steps_to_json(c) for c in candidates[:2]]
        answered = handle((own.to_json(), TUNING, False, steps))
        np.testing.assert_array_equal(answered[0], task_featurizer(own)(candidates[:2])[0])


def test_a_mistake_of_ours_costs_one_candidate(
    make_task: MakeTask, candidates: list[tuple[Step, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def extract(steps: tuple[Step, ...]) -> Array:
        if steps in candidates[:2]:
            raise IndexError("list index out of range")
        return np.ones((1, 2), np.float32)

    told: list[str] = []
    featurize = Featurizer(extract, make_task("matmul"), warning=told.append)
    rows = featurize(candidates)
    assert [row is None for row in rows] == [True, True, *[False] * 8]
    assert len(told) == 1
    assert "a candidate was left out" in told[0]
    assert "IndexError: list index out of range" in told[0]
    assert json.dumps(steps_to_json(candidates[0])) in told[0]
    with pytest.raises(MeasureError, match="list index"):  # the second process gives its share back
        Featurizer(extract, make_task("matmul"), warning=_give_back)(candidates)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_mistake_of_ours_about_many_costs_time(
    make_task: MakeTask, candidates: list[tuple[Step, ...]], at_once: bool
) -> None:
    """It would end the run."""

    def extract(steps: tuple[Step, ...]) -> Array:
        return np.full((1, 2), len(steps), np.float32)

    def fails(_: object) -> Any:
        raise IndexError("tuple index out of range")

    told: list[str] = []
    task = make_task("matmul")
    work: dict[str, Any] = {"at_once": fails} if at_once else {"refused": fails}
    featurize = Featurizer(extract, task, warning=told.append, **work)
    for asked in (candidates, [steps[:-1] for steps in candidates]):
        assert [row is not None and row[0, 0] for row in featurize(asked)] == [*map(len, asked)]
    (text,) = told
    assert "one by one, which takes longer, " in text
    assert "(IndexError: tuple index out of range). Please report it" in text
    with pytest.raises(MeasureError, match="tuple index"):  # by the first process
        Featurizer(extract, task, warning=_give_back, **work)(candidates)


@pytest.mark.parametrize("features", FEATURE_SETS)
def test_the_helper_changes_nothing(
    make_task: MakeTask,
    candidates: list[tuple[Step, ...]],
    features: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autosched.search.pace._FEW", 1 << 30)  # all go one by one
    monkeypatch.setattr("autosched.search.pace._MANY", 1 << 30)
    task = make_task("matmul")
    asked = [*candidates, ILLEGAL]
    alone = task_featurizer(task, None, features)(asked)
    helper = Helper()
    try:
        process = wait_for(helper)._process
        together = task_featurizer(task, helper, features)(asked)
        assert process is not None
        process.kill()
        after_death = task_featurizer(task, helper, features)(asked)
    finally:
        helper.close()
    assert alone[-1] is None
    for one, other, third in zip(alone, together, after_death, strict=True):
        np.testing.assert_equal(one, other)
        np.testing.assert_equal(one, third)


def test_a_helper_that_cannot_be_started_is_done_without(
    make_task: MakeTask, candidates: list[tuple[Step, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: str) -> None:
        raise NoProcessError(OSError(11, "Resource temporarily unavailable"))

    monkeypatch.setattr(featurize, "worker_of", none)
    monkeypatch.setattr("autosched.search.pace._FEW", 1 << 30)
    monkeypatch.setattr("autosched.search.pace._MANY", 1 << 30)
    found = task_featurizer(make_task("matmul"), Helper())(candidates)
    assert all(rows is not None for rows in found)


def test_a_long_list_starts_the_helper_and_does_not_wait_for_it(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    answers: list[bool] = [False]
    asked: list[Any] = []

    class Slow(StubWorker):
        def send(self, request: Any) -> None:
            asked.append(request)

        def answers(self, timeout: float) -> bool:
            return answers[0]

        def receive(self, timeout: float, stage: str) -> Any:
            return [None] * len(asked[-1][3])

    def slow(kind: str) -> Slow:
        started.append(kind)
        return Slow(kind)

    monkeypatch.setattr(featurize, "worker_of", slow)
    helper = Helper()
    rows = np.ones((1, 2), np.float32)
    work_out = Featurizer(lambda steps: rows, make_task("matmul"), helper)

    def worked_out_here(first: int, count: int) -> int:
        some = [(SplitStep(2, 0, 4096, (n,)),) for n in range(first, first + count)]
        return sum(row is rows for row in work_out(some))

    assert worked_out_here(0, 7) == 7
    assert not started
    assert worked_out_here(10, 8) == 8
    assert started == [featurize.FACTORY]
    assert worked_out_here(20, 8) == 8
    answers[0], asked[0] = True, (None, "", False, [])
    assert worked_out_here(30, 8) == 4
    assert len(started) == 1 and len(asked) == 2


def test_a_helper_that_hangs_is_waited_for_by_the_time_that_our_share_took(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def late(own: StubWorker, timeout: float, stage: str) -> Any:
        limits.append(timeout)
        raise MeasureError("no answer", stage=stage, kind="timeout")

    monkeypatch.setattr(StubWorker, "receive", late)
    monkeypatch.setattr(StubWorker, "send", lambda own, request: None)
    asked = [(SplitStep(2, 0, 4096, (n,)),) for n in range(1, 2049)]
    rows = np.ones((1, 2), np.float32)
    start = time.monotonic()
    found = Featurizer(lambda steps: rows, make_task("matmul"), StubHelper())(asked)
    ours = time.monotonic() - start
    assert all(each is rows for each in found)
    assert len(limits) == 1 and limits[0] < 21 + 5 * ours
