"""`autosched.tune`: what it returns, what it refuses, and what Ctrl-C leaves."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Never

import numpy as np
import pytest

import autosched
from autosched.errors import ConfigError, MeasureError
from autosched.measure.records import Record, read_log
from autosched.measure.run_options import RunOptions
from autosched.search.cost_model import XGBoostModel
from autosched.search.options import SearchOptions
from autosched.search.own_policy import Tools
from autosched.search.progress import Progress, TuneResult
from autosched.search.rules.protocol import Decision, FunctionRule
from autosched.session.api import tune
from autosched.session.session import Session
from autosched.session.tuned import Tuned
from autosched.state.steps import Step
from autosched.task import Task
from kit.measurer import Steps, StubMeasurer
from kit.types import Array, UseMeasurer

SMALL = {"batch": 4, "trials": 8, "cost_model": "random"}


@pytest.fixture
def quick(measurer: UseMeasurer, search: SearchOptions) -> Callable[..., Tuned]:
    """tune with a small search and nothing measured."""
    return lambda task, **settings: tune(task, **{**SMALL, "search": search, **settings})


@pytest.fixture
def learning(quick: Callable[..., Tuned]) -> Callable[..., Tuned]:
    """The same with the usual cost model."""
    return lambda task, **settings: quick(task, **{"cost_model": "xgboost", **settings})


def test_one_task(quick: Callable[..., Tuned], task: Task, tmp_path: Path) -> None:
    path = tmp_path / "mm.jsonl"
    result = quick(task, records=path)
    assert not result.interrupted
    assert result.reason == "all trials were used"
    assert len(result.records) == len(read_log(path).records) == 8
    assert result.best.seconds == min(r.result.cost for r in result.records)
    assert result.objective == result.best.seconds
    (entry,) = result
    assert (entry.task, entry.found, entry.problem) == (task, True, "")
    assert "8 measured" in repr(result)
    again = quick(task, records=path, trials=4, seed=3)
    steps = [r.steps for r in (*result.records, *again.records)]
    assert len(set(steps)) == 12
    assert again.best.seconds == min(result.best.seconds, *(r.result.cost for r in again.records))


def test_files_stay_where_they_are_when_the_current_folder_changes(
    learning: Callable[..., Tuned], task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observer(progress: Progress, records: Sequence[Record]) -> None:
        if records:
            monkeypatch.chdir(other)

    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    result = learning(task, records="mm.jsonl", save_model="m.json", observer=observer)
    assert Path.cwd() == other and not list(other.iterdir())
    assert len(read_log(tmp_path / "mm.jsonl").records) == 8
    assert len(result.records) == 8
    assert (tmp_path / "m.json").is_file()


def test_several_tasks_share_the_trials_and_the_record_file(
    quick: Callable[..., Tuned], tasks: list[Task], tmp_path: Path
) -> None:
    path = tmp_path / "two.jsonl"
    result = quick(tasks, records=path, weights=[1, 3], strategy="round-robin")
    assert [entry.task for entry in result] == tasks
    assert [len(entry.records) for entry in result] == [4, 4]
    assert len(result.records) == len(read_log(path).records) == 8
    expected = result[0].best.seconds + 3 * result[1].best.seconds
    assert result.objective == pytest.approx(expected)
    with pytest.raises(ConfigError, match="2 tasks were tuned; take it from one of them"):
        _ = result.best
    again = quick(tasks, records=path, trials=4)
    assert len(read_log(path).records) == 12
    assert again[1].best.seconds <= result[1].best.seconds


def test_a_function_of_the_times_takes_the_place_of_their_sum(
    quick: Callable[..., Tuned], tasks: list[Task]
) -> None:
    result = quick(tasks, objective=max, trials=8)
    assert result.objective == max(entry.best.seconds for entry in result)
    alone = quick(tasks[0], objective=lambda seconds: 2 * seconds[0])
    assert alone.objective == 2 * alone.best.seconds


def test_an_objective_that_fails_is_known_before_anything_is_measured(
    quick: Callable[..., Tuned], tasks: list[Task], tmp_path: Path
) -> None:
    path = tmp_path / "none.jsonl"
    for objective, message in (
        (lambda seconds: seconds[2], "objective failed at .*IndexError"),
        (lambda seconds: -np.log(0), "objective: expected a finite number .*found"),
        ("none.py:f", "objective: there is no file none.py"),
        (7, "objective: expected a function"),
    ):
        with pytest.raises(ConfigError, match=message), np.errstate(divide="ignore"):
            quick(tasks, objective=objective, records=path)
    with pytest.raises(ConfigError, match="objective: a function of the times takes the place of"):
        quick(tasks, objective=max, weights=[1, 2])
    assert not path.exists()


def test_without_a_number_each_task_has_the_same_trials(
    measurer: UseMeasurer, search: SearchOptions, tasks: list[Task]
) -> None:
    def number(asked: Task | Sequence[Task]) -> int:
        return len(tune(asked, batch=32, search=search, cost_model="random").records)

    assert number(tasks[0]) == 64
    assert number([tasks[0]]) == 64
    assert number(tasks) == 128


def test_early_stopping_of_one_task_and_of_several(
    quick: Callable[..., Tuned], measurer: UseMeasurer, tasks: list[Task]
) -> None:
    measurer(seconds=lambda steps: 1e-3)  # the first is never beaten
    one = quick(tasks[0], trials=40, early_stopping=6)
    assert len(one.records) == 8
    assert one.reason == "no better candidate in 7 trials"
    several = quick(tasks, trials=80, early_stopping=6)
    assert 8 <= len(several.records) < 40


def test_a_time_budget_ends_the_run(quick: Callable[..., Tuned], task: Task) -> None:
    with pytest.raises(MeasureError, match="nothing was measured: the time budget of 1e-06 s"):
        quick(task, trials=400, time_budget_s=1e-6)


def test_an_interrupt_returns_what_there_is(
    quick: Callable[..., Tuned], measurer: UseMeasurer, tasks: list[Task], tmp_path: Path
) -> None:
    measurer(interrupt_after=1)
    for number, asked in enumerate((tasks[0], tasks)):
        path = tmp_path / f"{number}.jsonl"
        result = quick(asked, records=path)
        assert result.interrupted
        assert result.reason == "interrupted"
        assert len(result.records) == len(read_log(path).records) == 4
        assert result[0].best.seconds == min(r.result.cost for r in result.records)
    assert result.objective is None
    assert not result[1].found
    with pytest.raises(MeasureError, match="interrupted before a candidate was measured"):
        _ = result[1].best
    measurer(cut_short_after=0)
    result = quick(tasks[0])
    assert (result.interrupted, len(result.records)) == (True, 2)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_while_sketches_are_made_takes_effect_at_once(
    quick: Callable[..., Tuned], tasks: list[Task], tmp_path: Path, count: int
) -> None:
    best = quick(tasks[0], records=tmp_path / "mm.jsonl").best

    went_on: list[bool] = []

    def slow(*_: object) -> Decision:
        if not went_on:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            went_on.append(True)
        return Decision.SKIP

    rules = [FunctionRule("Slow", slow, lambda *_: [])]
    asked = tasks[:count] if count > 1 else tasks[0]
    result = quick(asked, records=tmp_path / "mm.jsonl", sketch_rules=rules)
    assert not went_on
    assert (result.interrupted, result.records) == (True, [])
    assert result[0].best.seconds == best.seconds


def test_an_interrupt_before_anything_was_measured_returns_too(
    quick: Callable[..., Tuned], measurer: UseMeasurer, task: Task
) -> None:
    measurer(interrupt_after=0)
    result = quick(task)
    assert result.interrupted
    with pytest.raises(MeasureError, match="interrupted before"):
        _ = result.best


def test_an_interrupt_while_the_model_is_loaded_returns_the_best_known(
    learning: Callable[..., Tuned],
    tasks: list[Task],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: XGBoostModel | str) -> Never:
        raise KeyboardInterrupt

    first = learning(tasks[0], records=tmp_path / "a.jsonl")
    monkeypatch.setattr("autosched.session.model.start_pretrained", interrupted)
    result = learning(tasks, records=tmp_path / "a.jsonl")
    assert (result.interrupted, result.records) == (True, [])
    assert result[0].best.seconds == first.best.seconds
    assert not result[1].found
    assert result.objective is None
    assert len(read_log(tmp_path / "a.jsonl").records) == 8


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_processes_end_loses_nothing(
    quick: Callable[..., Tuned], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second Ctrl-C of somebody impatient."""
    closed = []

    def close(self: StubMeasurer, *_: None) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        closed.append(self)

    monkeypatch.setattr("kit.measurer.StubMeasurer.__exit__", close)
    result = quick(task)
    assert closed
    assert result.interrupted
    assert len(result.records) == 8
    assert result.best.seconds > 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("moment", ["ended", "raced"])
def test_an_interrupt_between_the_parts_of_a_run_loses_nothing(
    quick: Callable[..., Tuned], tasks: list[Task], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Right after the last round it threw away what the run had found."""
    objective = Session._objective
    calls = []

    def interrupted(self: Session, results: Sequence[TuneResult]) -> float:
        calls.append(len(results))
        if len(calls) == (1 if moment == "ended" else 2):
            os.kill(os.getpid(), signal.SIGINT)
        return objective(self, results)

    monkeypatch.setattr(Session, "_objective", interrupted)
    result = quick(tasks[0])
    assert calls == [1, 1]
    assert result.interrupted == (moment == "raced")  # in a race it ends the race alone
    assert len(result.records) == 8 and result.best.seconds > 0


def test_an_interrupt_that_python_would_forget_comes_again(
    quick: Callable[..., Tuned], measurer: UseMeasurer, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a weak reference's callback is printed and lost, but not while tuning."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    seen = []

    def seconds(steps: tuple[Step, ...]) -> float:
        seen.append(sys.unraisablehook)
        return 1e-3

    measurer(seconds=seconds)
    quick(task)
    assert all(hook is not sys.__unraisablehook__ for hook in seen)
    assert sys.unraisablehook is sys.__unraisablehook__
    mine = lambda lost: None  # noqa: E731
    monkeypatch.setattr(sys, "unraisablehook", mine)
    seen.clear()
    quick(task)
    assert all(hook is mine for hook in seen)


def test_nothing_valid(
    quick: Callable[..., Tuned], measurer: UseMeasurer, tasks: list[Task]
) -> None:
    measurer(bad=1)
    message = r"K=8.*no candidate was valid: 8 x run crash; for example: signal 11"
    with pytest.raises(MeasureError, match=message):
        quick(tasks[0])
    with pytest.raises(MeasureError, match=r"K=8.*; .*K=16"):
        quick(tasks)


def test_a_record_file_of_another_task_is_refused(
    quick: Callable[..., Tuned], tasks: list[Task], tmp_path: Path
) -> None:
    quick(tasks[0], records=tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match=r"another task \(matmul.*Give another file for the rec"):
        quick(tasks[1], records=tmp_path / "a.jsonl")
    assert len(quick(tasks, records=tmp_path / "a.jsonl").records) == 8


def test_skipped_lines_are_python_warnings(
    quick: Callable[..., Tuned], task: Task, tmp_path: Path
) -> None:
    quick(task, records=tmp_path / "a.jsonl")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("{\n" * 5)
    with pytest.warns(UserWarning) as caught:
        quick(task, records=tmp_path / "a.jsonl")
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 4
    assert "not a whole JSON object; skipped" in texts[0]
    assert "2 more lines of" in texts[3]


class LongIsGood:
    """A cost model of somebody's own: the sum of the first column."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def trained(self) -> bool:
        return "fit" in self.calls

    def prepare(self) -> None:
        self.calls.append("prepare")

    def fit(self, programs: Sequence[Array], throughputs: list[float]) -> None:
        assert len(programs) == len(throughputs)
        self.calls.append("fit")

    def opinions(self, programs: Sequence[Array]) -> Array:
        return np.array([[1 + p[:, 0].sum()] for p in programs], np.float32)


def test_a_cost_model_of_the_users_own(
    quick: Callable[..., Tuned], task: Task, tasks: list[Task]
) -> None:
    model = LongIsGood()
    result = quick(task, cost_model=model)
    assert model.calls[0] == "prepare"
    assert "fit" in model.calls
    assert result.records[0].search["predicted"] is None
    assert result.records[-1].search["predicted"] is not None
    assert len(quick(tasks, cost_model=LongIsGood()).records) == 8


class Counting:
    """A model of three members: the number of stores; notes what it is taught."""

    name = "counting"

    def __init__(self) -> None:
        self.taught: list[int] = []

    def fit(self, programs: Sequence[Array], throughputs: Array) -> None:
        assert max(throughputs) == 1
        self.taught.append(len(programs))

    def predict(self, programs: Sequence[Array]) -> Array:
        return np.array([-len(program) for program in programs])


def test_a_model_of_the_arenas_form_searches_too(
    quick: Callable[..., Tuned], task: Task, tmp_path: Path
) -> None:
    model = Counting()
    result = quick(task, cost_model=model)
    assert model.taught[0] == 4
    assert result.records[0].search["predicted"] is None
    assert result.records[-1].search["predicted"] > 0
    (tmp_path / "mine.py").write_text(
        f"print('run', file=open({str(tmp_path / 'ran')!r}, 'a'))\n"
        "class Stores:\n"
        "    name = 'stores'\n"
        "    def fit(self, programs, throughputs):\n"
        "        pass\n"
        "    def predict(self, programs):\n"
        "        return [len(program) / 0 for program in programs]\n"
    )
    with pytest.raises(ConfigError, match=r"model stores: predict failed at .*mine\.py:7: ZeroDi"):
        quick(task, cost_model=f"{tmp_path / 'mine.py'}:Stores")
    assert (tmp_path / "ran").read_text() == "run\n"  # once
    with pytest.raises(ConfigError, match="cannot load or save the cost model counting"):
        quick(task, cost_model=model, save_model=tmp_path / "m.json")


def test_a_model_that_was_given_is_not_replaced_by_the_one_that_comes_along(
    learning: Callable[..., Tuned], task: Task
) -> None:
    assert learning(task, trials=4).records[0].search["predicted"] is not None  # comes along
    result = learning(task, trials=4, cost_model=XGBoostModel())
    assert result.records[0].search["predicted"] is None
    assert learning(task, trials=4, pretrained=False).records[0].search["predicted"] is None


def test_a_model_with_a_wrong_answer_is_told_so(
    quick: Callable[..., Tuned], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LongIsGood()
    monkeypatch.setattr(model, "opinions", lambda programs: np.ones(len(programs)))
    with pytest.raises(ConfigError, match=r"LongIsGood: opinions returned an array of shape \("):
        quick(task, cost_model=model)


class Drawn:
    """A policy: random search."""

    name = "drawn"
    tools: list[Tools] = []

    def __init__(self, tools: Tools) -> None:
        self.tools.append(tools)

    def propose(self, count: int) -> Sequence[Steps]:
        return self.tools[-1].space.sample(self.tools[-1].rng, count)

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        pass


def test_a_search_of_the_users_own(
    quick: Callable[..., Tuned],
    tasks: list[Task],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Drawn, "tools", [])
    path = tmp_path / "two.jsonl"
    result = quick(tasks, policy=Drawn, records=path)
    assert [each.task for each in Drawn.tools] == tasks
    records = read_log(path).records
    assert [r.steps for r in records] == [r.steps for r in result.records]
    assert {r.search["policy"] for r in records} == {"drawn"}
    later = quick(tasks, records=path, policy="autosched").records
    assert not any("policy" in record.search for record in later)
    nests = [(r.task["key"], r.search["state"]) for r in (*records, *later)]
    assert len(set(nests)) == len(nests) == 16


def test_a_model_that_a_search_does_not_ask_is_not_trained(
    quick: Callable[..., Tuned], task: Task
) -> None:
    class Asking(Drawn):
        def propose(self, count: int) -> Sequence[Steps]:
            found = super().propose(count)
            return [found[k] for k in np.argsort(-self.tools[-1].scores(found))]

    for policy, asked in ((Drawn, False), (Asking, True)):
        model = Counting()
        quick(task, policy=policy, cost_model=model)
        assert bool(model.taught) == asked


def test_a_file_of_the_users_own_search_is_run_once_before_anything_starts(
    quick: Callable[..., Tuned], measurer: UseMeasurer, tasks: list[Task], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        f"print('run', file=open({str(tmp_path / 'ran')!r}, 'a'))\n"
        "class Nothing:\n"
        "    name = 'nothing'\n"
        "    def __init__(self, tools):\n"
        "        pass\n"
        "    def propose(self, count):\n"
        "        return []\n"
        "    def tell(self, candidates, seconds):\n"
        "        pass\n"
    )
    made = measurer()
    with pytest.raises(ConfigError, match=r"^policy: .*mine\.py defines no policy Gone$"):
        quick(tasks, policy=f"{tmp_path / 'mine.py'}:Gone")
    assert not made
    (tmp_path / "ran").unlink()
    with pytest.raises(
        MeasureError, match=r"nothing was measured: .*nothing new of policy nothing"
    ):
        quick(tasks, policy=f"{tmp_path / 'mine.py'}:Nothing")
    assert (tmp_path / "ran").read_text() == "run\n"


def test_models_are_saved_loaded_and_warm_started(
    learning: Callable[..., Tuned], tasks: list[Task], tmp_path: Path
) -> None:
    first, second = tasks
    model, log = tmp_path / "m.json", tmp_path / "a.jsonl"
    learning(first, pretrained=False, save_model=model, records=log)
    cold = {"pretrained": False, "trials": 4}
    assert learning(second, **cold).records[0].search["predicted"] is None
    assert learning(second, **cold, load_model=model).records[0].search["predicted"] is not None
    for logs in (log, [log], str(log)):
        warm = learning(second, **cold, warm_start=logs)
        assert warm.records[0].search["predicted"] is not None
    with pytest.raises(ConfigError, match=r"cannot read the cost model .*none\.json"):
        learning(second, load_model=tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot load or save the cost model LongIsGood"):
        learning(second, cost_model=LongIsGood(), save_model=model)
    with pytest.raises(ConfigError, match=r"warm start: .* holds nothing to learn from"):
        (tmp_path / "empty.jsonl").write_text("")
        learning(second, warm_start=tmp_path / "empty.jsonl")


def test_a_model_that_cannot_be_written_does_not_cost_the_results(
    learning: Callable[..., Tuned], task: Task, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def observer(progress: Progress, records: Sequence[Record]) -> None:
        if folder.exists() and records:
            folder.rmdir()

    with pytest.warns(UserWarning, match="cannot write the cost model"):
        result = learning(task, save_model=folder / "m.json", observer=observer)
    assert len(result.records) == 8


def test_options_of_measuring_arrive(
    quick: Callable[..., Tuned], measurer: UseMeasurer, task: Task
) -> None:
    made = measurer()
    options = RunOptions(min_repeat_ms=7.0)
    quick(task, measure=options, workers=3, build_timeout_s=4.0, check="none")
    given = dict(made[0][1])
    given.pop("warning")  # a function
    assert given == {
        "workers": 3,
        "build_timeout": 4.0,
        "options": options,
        "check": "none",
        "target": "cpu",
        "devices": (),
        "share": False,
        "hosts": "",
    }


def test_an_observer_sees_every_batch(quick: Callable[..., Tuned], tasks: list[Task]) -> None:
    seen = []
    quick(tasks, observer=lambda progress, records: seen.append((progress.task.key, len(records))))
    assert [key for key, number in seen if number] == [task.key for task in tasks]


FINE = object()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "matmul"}, r"^task: expected a Task or a list of them, e\.g\. .*found 'matmul'"),
        ({"task": None}, "task: expected a Task or a list .*found None"),
        ({"task": []}, r"task: expected a Task or a list .*found \[\] \(list\)"),
        ({"task": [FINE, "matmul"]}, r"task\[1\]: expected a Task, found 'matmul' \(str\)"),
        ({"task": [FINE, FINE]}, "the same task is given twice"),
        ({"trials": "4"}, r"trials: expected an integer, found '4' \(str\)"),
        ({"trials": 4.5}, r"trials: expected an integer, found 4\.5 \(float\)"),
        ({"trials": True}, r"trials: expected an integer, found True \(bool\)"),
        ({"trials": 0}, "trials: expected at least 1, found 0"),
        ({"batch": 0}, "batch: expected at least 1, found 0"),
        ({"batch": None}, "batch: expected an integer, found None"),
        ({"seed": -1}, "seed: expected at least 0, found -1"),
        ({"seed": "x"}, "seed: expected an integer, found 'x'"),
        ({"time_budget_s": "1m"}, "time_budget_s: expected a number, found '1m'"),
        ({"time_budget_s": 0}, "time_budget_s: expected a number above 0, found 0"),
        ({"time_budget_s": float("nan")}, "time_budget_s: expected a finite number"),
        ({"early_stopping": 0}, "early_stopping: expected at least 1, found 0"),
        ({"search": {"eps_greedy": 0.1}}, r"search: expected a SearchOptions, e\.g\. .*\(dict\)"),
        ({"search": SearchOptions}, "found the class SearchOptions, not an object of it"),
        ({"measure": {"timeout": 1}}, "measure: expected a RunOptions, e"),
        ({"records": 5}, r"records: expected the path of a file, found 5 \(int\)"),
        ({"records": b"a"}, "records: expected the path of a file, found b'a'"),
        ({"records": "."}, r"records: expected a file, found the folder \."),
        ({"load_model": "."}, "load_model: expected a file, found the folder"),
        ({"save_model": 5}, "save_model: expected the path of a file"),
        ({"warm_start": "."}, "warm_start: expected a file, found the folder"),
        ({"warm_start": [5]}, r"warm_start\[0\]: expected the path of a file"),
        ({"warm_start": {"r.jsonl"}}, "warm_start: expected the path of a file, or a list of them"),
        (
            {"cost_model": "trees"},
            "cost_model: expected xgboost, random or file.py:name, found 'trees'",
        ),
        ({"cost_model": 7}, r"cost_model 7: expected fit\(.*; fit\(\), .*name \(text\) is missing"),
        ({"cost_model": LongIsGood}, "cost_model: LongIsGood is a class, not an object"),
        ({"features": "all"}, "features: expected one of ansor-0.19, autosched-1, found 'all'"),
        ({"features": ["autosched-1"]}, "features: expected one of"),
        ({"pretrained": "no"}, "pretrained: expected True or False, found 'no'"),
        ({"policy": "annealing"}, "policy: expected autosched or file.py:name, found 'annealing'"),
        (
            {"policy": 7},
            r"policy: expected autosched, file.py:name, or a class of policies, .* 7 \(",
        ),
        ({"sketch_rules": "my.py:rule"}, "sketch_rules: expected a list of rules, found 'my.py"),
        ({"sketch_rules": [7]}, "sketch_rules: number 0: expected a rule with a name"),
        ({"check": "some"}, "check: expected one of best, all, none, found 'some'"),
        ({"workers": 0}, "workers: expected at least 1, found 0"),
        ({"build_timeout_s": "5"}, "build_timeout_s: expected a number, found '5'"),
        ({"weights": [1, 2]}, "weights: expected a list of 1, one for each task"),
        ({"weights": 2}, "weights: expected a list of 1"),
        ({"weights": [-1]}, r"weights\[0\]: expected a number above 0, found -1"),
        ({"strategy": "best"}, "strategy: expected one of gradient, round-robin, found 'best'"),
        ({"observer": 5}, r"observer: expected a function \(progress, records\), found 5"),
    ],
)
def test_arguments_of_wrong_types_are_refused_in_words(
    settings: dict[str, Any],
    message: str,
    task: Task,
    measurer: UseMeasurer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    made = measurer()
    monkeypatch.chdir(tmp_path)
    asked = settings.pop("task", task)
    if isinstance(asked, list):
        asked = [task if each is FINE else each for each in asked]
    with pytest.raises(ConfigError, match=message):
        tune(asked, **settings)
    assert not made or not made[0][0].batches


def test_integers_of_numpy_are_integers(quick: Callable[..., Tuned], task: Task) -> None:
    assert len(quick(task, trials=np.int64(4), batch=np.int32(4)).records) == 4


def test_it_is_public() -> None:
    assert autosched.tune is tune


@pytest.mark.parametrize("argument", ["records", "save_model"])
def test_a_file_of_another_kind_is_not_written_to(
    quick: Callable[..., object], task: Task, tmp_path: Path, argument: str
) -> None:
    path = tmp_path / "mm.yaml"
    path.write_text("workload: {op: matmul}\n")
    with pytest.raises(ConfigError, match=r"mm\.yaml: it is a YAML file; give another file$"):
        quick(task, **{argument: path})
    assert path.read_text() == "workload: {op: matmul}\n"


def test_records_and_model_need_a_file_each(
    quick: Callable[..., object], task: Task, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"the saved cost model: .*x is the record file"):
        quick(task, records=tmp_path / "x", save_model=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_best_is_timed_again_at_the_end(
    measurer: UseMeasurer, tasks: list[Task], search: SearchOptions
) -> None:
    """By the same code as on the command line; what it says is in the result and its text."""
    measurer(later=3.0)
    result = tune(tasks, trials=8, batch=4, search=search, cost_model="random")
    for tuned in result:
        assert tuned.again is not None
        assert tuned.again.found == tuned.best.record.result
        assert tuned.again.ratio == pytest.approx(3.0)
        assert "(unreliable: it took 3.00 times as long at the end of the run; " in repr(tuned)
    measurer()
    steady = tune(tasks[0], trials=4, batch=4, search=search, cost_model="random")
    assert steady[0].again is not None
    assert steady[0].again.remark == ""
    assert "unreliable" not in repr(steady)


def test_an_interrupted_run_is_not_timed_again(
    measurer: UseMeasurer, task: Task, search: SearchOptions
) -> None:
    measurer(interrupt_after=1)
    result = tune(task, trials=8, batch=4, search=search, cost_model="random")
    assert result.interrupted
    assert result[0].again is None
