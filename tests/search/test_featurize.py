"""Features are worked out once, here or in the helper, with the same result."""

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.sets import FEATURE_SETS
from autosched.search.featurize import Featurizer, Helper, task_featurizer
from autosched.state.steps import SplitStep, Step
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


@pytest.mark.parametrize("features", FEATURE_SETS)
def test_the_helper_changes_nothing(
    make_task: MakeTask, candidates: list[tuple[Step, ...]], features: str
) -> None:
    task = make_task("matmul")
    asked = [*candidates, ILLEGAL]
    alone = task_featurizer(task, None, features)(asked)
    helper = Helper()
    try:
        together = task_featurizer(task, helper, features)(asked)
        process = helper.start()._process
        assert process is not None
        process.kill()
        after_death = task_featurizer(task, helper, features)(asked)
    finally:
        helper.close()
    assert alone[-1] is None
    for one, other, third in zip(alone, together, after_death, strict=True):
        np.testing.assert_equal(one, other)
        np.testing.assert_equal(one, third)
