"""Contests on made-up pools whose best candidates are known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched.arena import Estimator, Pool, Results, Settings, contest, contestant, pools_of
from autosched.arena.results import Interval
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.space import SearchSpace
from autosched.state.steps import SplitStep
from autosched.task import Task

Numbers = npt.NDArray[np.float64]


def pool(task: str, operator: str, candidates: int = 64) -> Pool:
    """Programs of one store whose second feature is their time."""
    seconds = 1 + np.random.default_rng(len(task)).permutation(candidates).astype(np.float64)
    programs = [np.array([[k, s]], np.float32) for k, s in enumerate(seconds)]
    return Pool(task, operator, programs, seconds)


class Knowing:
    """Reads the time off the features; notes what it was taught."""

    name = "knowing"

    def __init__(self) -> None:
        self.taught: list[int] = []

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        assert len(programs) == len(throughputs) and 0 < max(throughputs) <= 1
        self.taught.append(len(programs))

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        return np.array([-float(program[0, 1]) for program in programs])


class Contrary(Knowing):
    name = "contrary"

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        return -super().predict(programs)


POOLS = [pool("matmul", "matmul"), pool("a matmul", "matmul"), pool("softmax", "softmax")]
SMALL = Settings(trials=32, batch=8, seeds=2)


def of(results: Results, model: str, task: str = "matmul") -> list[Numbers]:
    return [run.regret for run in results.runs if run.model == model and run.task == task]


@pytest.mark.parametrize("search", ["autosched", "greedy", "epsilon-greedy"])
def test_who_knows_the_times_has_no_regret_and_who_takes_them_the_other_way_has_much(
    search: str,
) -> None:
    results = contest(POOLS, [Knowing(), Contrary(), "random"], [search], SMALL)
    assert all(regret[7] == 0 for regret in of(results, "knowing"))
    assert all(regret[7] > 10 for regret in of(results, "contrary") if search == "greedy")
    first = results.table()[0]
    assert (first.rank_accuracy, first.top8_recall) == (1.0, 1.0)
    assert results.table()[1].rank_accuracy == 0.0
    for regret in of(results, "random"):
        assert len(regret) == 32 and np.all(np.diff(regret) <= 0) and regret[-1] >= 0


@pytest.mark.parametrize(
    ("held_out", "learned_first"), [("operator", 64), ("task", 128), ("all", None)]
)
def test_what_models_learn_from_before_a_search(held_out: str, learned_first: int | None) -> None:
    model = Knowing()
    settings = Settings(trials=16, batch=8, seeds=1, held_out=held_out)
    results = contest(POOLS, [model], ["greedy"], settings)
    if learned_first is None:
        assert model.taught == [8, 8, 8]
        assert np.isnan(results.runs[0].rank_accuracy) and "|               |" in results.text()
    else:
        assert model.taught[:2] == [learned_first, learned_first + 8]
    few = Knowing()
    contest(POOLS, [few], ["greedy"], Settings(16, 8, 1, "task", others=10))
    assert few.taught == [10, 18] * 3


def test_a_model_learns_nothing_of_another_kind_of_target() -> None:
    model = Knowing()
    pools = [replace(POOLS[0], kind="cuda"), *POOLS[1:]]
    contest(pools, [model], ["greedy"], Settings(8, 8, 1, "task"))
    assert model.taught == [64, 64]  # the second and the third learn from one another


def test_the_same_numbers_each_time_and_no_candidate_twice() -> None:
    one, two = (contest(POOLS, ["random"], ["random", "greedy"], SMALL) for _ in range(2))
    assert one.text() == two.text()
    whole = contest([pool("t", "t", 20)], ["random"], ["random"], Settings(trials=128, seeds=3))
    assert all(len(run.regret) == 20 for run in whole.runs)
    assert whole.trials == [16]


def test_a_regressor_of_scikit_learns_form_is_taken_as_it_is() -> None:
    class Regressor:
        def __init__(self) -> None:
            self.random_state = -1

        def get_params(self) -> dict[str, int]:
            return {"random_state": self.random_state}

        def set_params(self, random_state: int) -> None:
            self.random_state = random_state

        def fit(self, vectors: Numbers, targets: Numbers) -> None:
            assert vectors.shape == (len(targets), 5) and max(targets) == 0

        def predict(self, vectors: Numbers) -> Numbers:
            return -vectors[:, 1]

    regressor = Regressor()
    results = contest(POOLS, [regressor], ["greedy"], SMALL)
    assert regressor.random_state == 1
    assert results.runs[0].model == "Regressor" and results.runs[0].rank_accuracy == 1.0
    own = Estimator(regressor, "own", lambda rows: rows[0].astype(float))
    with pytest.raises(AssertionError):
        own.fit(POOLS[0].programs, POOLS[0].throughputs)


def test_the_parts_of_a_regressor_get_the_seed_too() -> None:
    """A pipeline has no random_state of its own; its steps drew other numbers each time."""

    class Pipeline:
        def __init__(self) -> None:
            self.params: dict[str, object] = {"scale__mean": True, "forest__random_state": None}

        def get_params(self) -> dict[str, object]:
            return self.params

        def set_params(self, **params: object) -> None:
            self.params = {**self.params, **params}

    pipeline = Pipeline()
    Estimator(pipeline).seed(3)
    assert pipeline.params == {"scale__mean": True, "forest__random_state": 3}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("xgbost", "model: expected xgboost, random or file.py:name, found 'xgbost'"),
        (Knowing, r"model: Knowing is a class, not an object of it; give Knowing\(\)"),
        (object(), r"fit\(\), predict\(\), name \(text\) is missing"),
        (type("Nameless", (Knowing,), {"name": None})(), r"name \(text\) is missing"),
        ("gone.py:Mine", "model: there is no file gone.py"),
    ],
)
def test_what_cannot_compete(model: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        contestant(model)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.zeros(3), "expected 64 scores, found an array of shape"),
        (np.full(64, np.nan), "nan"),
        (np.zeros((64, 2)), r"expected 64 scores, found an array of shape \(64, 2\)"),
        (np.zeros((64, 0)), r"expected 64 scores, found an array of shape \(64, 0\)"),
        (None, "expected 64 scores"),
        (["fast"] * 64, r"expected 64 scores, found \['fast', .* could not convert string"),
        ([[1.0]] * 63 + [[1.0, 2.0]], "expected 64 scores, found"),
        ([10**400] * 64, "expected 64 scores, found .* too large"),
    ],
)
def test_wrong_scores_are_refused(found: Any, message: str) -> None:
    class Wrong(Knowing):
        def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
            scores: Numbers = found
            return scores

    with pytest.raises(ConfigError, match=message):
        contest(POOLS, [Wrong()], ["autosched"], SMALL)
    with pytest.raises(ConfigError, match="models of different names"):
        contest(POOLS, ["random", "random"], ["greedy"], SMALL)
    with pytest.raises(ConfigError, match="different searches, found greedy, greedy"):
        contest(POOLS, ["random"], ["greedy", "greedy"], SMALL)
    with pytest.raises(ConfigError, match="search: expected"):
        contest(POOLS, ["random"], ["gready"], SMALL)


@pytest.mark.filterwarnings("error")
def test_scores_beyond_any_float_are_the_highest() -> None:
    class Huge(Knowing):
        def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
            return np.array([1e308 if program[0, 1] == 1 else -1e308 for program in programs])

    assert of(contest(POOLS, [Huge()], ["greedy"], SMALL), "knowing")[0][0] == 0


def broken(method: str, error: BaseException) -> Knowing:
    """A model one method of which raises."""

    def fails(*_: object) -> None:
        raise error

    made: Knowing = type("Broken", (Knowing,), {method: fails, "name": "broken"})()
    return made


@pytest.mark.parametrize("method", ["fit", "predict", "opinions", "seed"])
@pytest.mark.parametrize("error", [KeyError("n"), SystemExit(0)])
def test_a_model_that_fails_is_named(method: str, error: BaseException) -> None:
    kind = type(error).__name__
    message = rf"model broken: {method} failed at .*test_contest\.py:\d+: {kind}: "
    with pytest.raises(ConfigError, match=message):
        contest(POOLS, [broken(method, error)], ["greedy"], SMALL)


def test_a_model_whose_method_takes_something_else_is_told_so() -> None:
    model = type("Broken", (Knowing,), {"fit": lambda self: None})()
    with pytest.raises(ConfigError, match="model knowing: fit failed at the call: TypeError"):
        contest(POOLS, [model], ["greedy"], SMALL)


def test_a_contest_needs_pools() -> None:
    with pytest.raises(ConfigError, match=r"^expected at least one pool, found none; pools_of"):
        contest([], ["random"])


def test_a_class_that_cannot_be_made_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def __init__(self):\n        1 / 0\n")
    with pytest.raises(ConfigError, match=r"mine\.py:3: Mine\(\) failed: ZeroDivisionError"):
        contestant(f"{tmp_path / 'mine.py'}:Mine")


def test_a_model_does_not_change_what_others_see() -> None:
    class Scaling(Knowing):
        def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
            assert isinstance(programs, list)
            programs.clear()
            throughputs[:] = 0

    class Writing(Knowing):
        def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
            programs[0][:] = 0
            return np.zeros(len(programs))

    before = [program.copy() for program in POOLS[0].programs]
    alone = contest(POOLS, [Contrary()], ["greedy"], SMALL)
    beside = contest(POOLS, [Scaling(), Contrary()], ["greedy"], SMALL)
    assert np.array_equal(of(alone, "contrary"), of(beside, "contrary"))
    with pytest.raises(ConfigError, match=r"predict failed .*read-only"):
        contest(POOLS, [Writing()], ["greedy"], SMALL)
    assert all(map(np.array_equal, before, POOLS[0].programs))


def test_names_do_not_break_the_table_or_the_chart() -> None:
    task = "C[i] = A[i] | B[i]\nD[i] = C[i] < 3"
    model = type("Mine", (Knowing,), {"name": "a<b>\nc|d"})()
    results = contest([pool(task, "op")], [model], ["greedy"], SMALL)
    lines = results.text().splitlines()
    assert len(lines) == 3 and "| C[i] = A[i] \\| B[i] D[i] = C[i] < 3 |" in lines[2]
    assert lines[2].replace("\\|", "").count("|") == lines[0].count("|")
    figure = results.plot()
    assert figure.layout.annotations[0].text == "C[i] = A[i] | B[i]\nD[i] = C[i] &lt; 3"
    assert figure.data[1].name == "a&lt;b&gt;\nc|d, greedy"


def test_intervals() -> None:
    assert Interval.of([1.0, 1.0]) == Interval(1.0, 1.0, 1.0)
    wide = Interval.of(list(map(float, range(11))))
    assert wide.median == 5 and 0 <= wide.low < 4 and 6 < wide.high <= 10


def test_frame_and_chart() -> None:
    results = contest(POOLS, ["random"], ["random", "greedy"], SMALL)
    frame = results.to_pandas()
    assert len(frame) == 3 * 2 * 2 * 32 and frame["regret"].min() >= 0
    figure = results.plot()
    lines = [trace for trace in figure.data if trace.name]
    assert len(lines) == 3 * 2 and all(len(line.y) == 32 for line in lines)


def test_times_of_two_machines_are_two_pools() -> None:
    """The same target on another machine; the last record of a candidate counts."""
    task = Task.from_workload("matmul", M=16, N=16, K=16)
    steps = SearchSpace(task).sample(np.random.default_rng(0), 2)[:2]
    places = {"here": {"cpu": "a", "cores": 2}, "there": {"cpu": "b", "cores": 8}}
    records = [
        Record(task.to_json(), each, MeasureResult((seconds,)), environment=place)
        for place, times in (("here", (3.0, 1.0)), ("there", (0.5, 0.2)), ("here", (2.0, 1.0)))
        for each, seconds in zip(steps, times, strict=True)
    ]
    pools = pools_of(records, pytest.fail, environments=places)
    assert [pool.seconds.tolist() for pool in pools] == [[2.0, 1.0], [0.5, 0.2]]
    assert [pool.operator for pool in pools] == ["matmul", "matmul"]
    names = [f"matmul(M=16, N=16, K=16) on {cpu}" for cpu in "ab"]
    assert [pool.name for pool in pools] == names
    model = Knowing()
    results = contest(pools, [model], ["greedy"], Settings(2, 1, 1, held_out="task"))
    assert [line.task for line in results.table()] == [*names, "all"]
    assert max(model.taught) == 1  # nothing of the other machine's pool


def test_candidates_that_cannot_be_lowered_are_left_out_and_told() -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16)
    steps = SearchSpace(task).sample(np.random.default_rng(0), 2)[:2]
    illegal = (SplitStep(99, 0, 16, (2,)),)
    records = [Record(task.to_json(), each, MeasureResult((1.0,))) for each in (*steps, illegal)]
    told: list[str] = []
    (pool,) = pools_of(records, told.append)
    assert len(pool.programs) == len(pool.seconds) == 2
    assert told == [f"{task.name}: 1 of 3 candidates left out: they cannot be lowered"]


def test_pools_of_one_machine_are_told_apart() -> None:
    """By how they were timed, or by numbers; one alone needs nothing."""
    task = Task.from_workload("matmul", M=16, N=16, K=16)
    steps = SearchSpace(task).sample(np.random.default_rng(0), 2)[:2]
    cpu = {**task.to_json()["target"], "cpu": "a"}
    entries = [(cpu, 0), (cpu, 4096), ({**cpu, "features": "+other"}, 0)]
    records = [
        Record({**task.to_json(), "target": target}, each, MeasureResult((1.0,), cache_flush=flush))
        for target, flush in entries
        for each in steps
    ]
    pools = pools_of(records, pytest.fail)
    assert {pool.kind for pool in pools} == {"cpu"}
    assert [pool.machine for pool in pools] == ["a", "a, empty caches", "a (2)"]
    assert [pool.machine for pool in pools_of(records[:2], pytest.fail)] == [""]


def test_an_expression_of_another_size_is_another_task_of_one_operator() -> None:
    text = "C[i, j] = A[i, j] + 1.0"
    tasks = [Task.from_expression(text, shapes={"A": [n, 8]}) for n in (8, 16)]
    records = [
        Record(task.to_json(), steps, MeasureResult((1.0,)))
        for task in tasks
        for steps in SearchSpace(task).sample(np.random.default_rng(0), 2)[:2]
    ]
    pools = pools_of(records, pytest.fail)
    assert [pool.name for pool in pools] == [f"{text} with A {n}x8, float32" for n in (8, 16)]
    assert [pool.operator for pool in pools] == [text, text]
