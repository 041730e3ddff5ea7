"""Records of other tasks train the model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import ANSOR
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.cost_model import RandomModel, XGBoostModel
from autosched.search.featurize import task_featurizer
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.search.warm_start import warm_start
from autosched.target import cuda_target
from autosched.task import Task
from kit.types import MakeSpace


def records_of(task: Task, make_space: Callable[..., SearchSpace], count: int = 8) -> list[Record]:
    space = make_space(task)
    steps = space.sample(np.random.default_rng(0), count)
    return [
        Record(task.to_json(), s, MeasureResult((1e-3 * (k + 1),))) for k, s in enumerate(steps)
    ]


def test_other_tasks_train_the_model(make_space: MakeSpace) -> None:
    other = Task.from_workload("matmul", M=8, N=8, K=8)
    cuda = Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target())
    records = records_of(other, make_space)
    foreign = [Record(cuda.to_json(), (), MeasureResult((1.0,)))]
    broken = [Record({"key": "x", "workload": {"op": "gone", "args": {}}}, (), records[0].result)]
    learner = Learner(XGBoostModel(0, rounds=5))
    found = warm_start(learner, [*records, *foreign, *broken], "cpu")
    assert (found.records, found.tasks) == (len(records), 1)
    assert len(found.problems) == 2
    assert any("for cuda, not cpu" in problem for problem in found.problems)
    learner.refresh()
    assert learner.trained
    scores = learner.scores(task_featurizer(other)([records[0].steps, records[-1].steps]))
    assert scores[0] > scores[1]


def test_training_goes_on_from_a_loaded_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.random((1, 6), dtype=np.float32) for _ in range(60)]
    first = XGBoostModel(0, rounds=40)
    first.fit(rows, [float(r[0, 0]) for r in rows])
    first.save(tmp_path / "model")
    second = XGBoostModel(0, rounds=40)
    second.load(tmp_path / "model", 6)
    before = second.predict(rows)
    second.fit(rows[:4], [float(r[0, 0]) for r in rows[:4]])
    after = second.predict(rows)
    assert not np.array_equal(before, after)
    truth = np.array([r[0, 0] for r in rows])
    assert np.corrcoef(after, truth)[0, 1] > 0.9


@pytest.mark.parametrize("differs", ["target", "environment", "cache_flush"])
def test_times_are_compared_among_those_of_one_machine(differs: str) -> None:
    """The same candidate, a thousand times as fast elsewhere, is the best of both."""
    task = Task.from_workload("matmul", M=16, N=16, K=16)
    other = replace(task, target=replace(task.target, cpu="another-cpu"))
    environments = {"here": {"cpu": "slow"}, "there": {"cpu": "fast"}, "again": {"cpu": "slow"}}

    def record(seconds: float, elsewhere: bool, environment: str) -> Record:
        flush = 2**20 if elsewhere and differs == "cache_flush" else 0
        return Record(
            (other if elsewhere and differs == "target" else task).to_json(),
            (),
            MeasureResult((seconds,), cache_flush=flush),
            environment="there" if elsewhere and differs == "environment" else environment,
        )

    class Remembers(RandomModel):
        throughputs: Sequence[float] = ()

        def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
            self.throughputs = throughputs

    model = Remembers()
    learner = Learner(model)
    records = [
        *(record(1e-3 * k, False, where) for k, where in ((1, "here"), (2, "again"))),
        *(record(1e-6 * k, True, "here") for k in (1, 2)),
    ]
    found = warm_start(learner, records, "cpu", environments=environments)
    learner.refresh()
    assert sorted(model.throughputs) == [0.5, 0.5, 1.0, 1.0]
    assert (found.records, found.tasks) == (4, 1)


def test_records_of_ansor_s_space_are_within_its_limits() -> None:
    """Arrays that no registers hold are refused in the space `autosched` alone."""
    task = Task.from_workload("matmul", M=512, N=512, K=512, target=cuda_target())
    space = SearchSpace(task, SearchOptions(space="ansor"))
    drawn = space.sample(np.random.default_rng(0), 12)

    def used(space: str) -> int:
        result = MeasureResult((1e-3,))
        records = [Record(task.to_json(), steps, result, {"space": space}) for steps in drawn]
        learner = Learner(XGBoostModel(0, rounds=5))
        return warm_start(learner, records, "cuda", features=ANSOR).records

    assert used("ansor") > used("autosched")
