"""Records of another CPU train the model, and are no times of this machine."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.environment import fingerprint
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.search.options import SearchOptions
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.reading import earlier_records
from autosched.session.session import Job, Session
from autosched.session.this_cpu import for_this_cpu, measured_here, require_runs_here
from autosched.state.steps import Step
from autosched.target import cpu_target
from autosched.task import Task

ELSEWHERE = replace(cpu_target(), cpu="another-cpu", features="+sse2")


def log_of(path: Path, task: Task, candidates: Sequence[tuple[Step, ...]], seconds: float) -> None:
    entry = task.to_json()
    RecordLog(path).append([Record(entry, c, MeasureResult((seconds,))) for c in candidates])


@pytest.fixture
def first(measurer: Any, task: Task, search: SearchOptions) -> Callable[..., Session]:
    """A session of eight trials of the task on this machine."""

    def make(path: Path, model: str = "random") -> Session:
        options = TuneOptions(trials=8, batch=4, search=search, seed=1)
        return Session([Job(task, options)], records=path, model=ModelOptions(model, False))

    return make


def test_they_are_neither_the_best_nor_measured_already(
    first: Callable[..., Session], task: Task, tmp_path: Path
) -> None:
    with first(tmp_path / "here.jsonl") as session:
        measured = session.run().tasks[0].records
    path = tmp_path / "r.jsonl"
    log_of(path, replace(task, target=ELSEWHERE), [r.steps for r in measured], 1e-7)
    with first(path) as session:
        assert session.known == 0
        assert session.others == "8 records of another CPU (another-cpu) train the model only"
        result = session.run().tasks[0]
    assert result.best is not None
    assert result.best.result.cost > 1e-7
    assert [r.steps for r in result.records] == [r.steps for r in measured]
    with first(path) as session:
        assert session.known == 8
        before = session.before().tasks[0].best
    assert before is not None
    assert before.result == result.best.result


def test_a_model_learns_from_them_before_the_first_round(
    first: Callable[..., Session], task: Task, tmp_path: Path
) -> None:
    with first(tmp_path / "here.jsonl") as session:
        measured = session.run().tasks[0].records
    path = tmp_path / "r.jsonl"
    for position, record in enumerate(measured):
        log_of(path, replace(task, target=ELSEWHERE), [record.steps], 1e-6 * (1 + position))
    with first(path, "xgboost") as session:
        assert session.run().tasks[0].records[0].search["predicted"] is not None


def test_the_environment_tells_cpus_apart_that_run_the_same_code(
    first: Callable[..., Session], task: Task, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    log_of(path, task, [()], 1e-7)
    assert first(path).known == 1
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["environment"]["cpu"] = "A faster one"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    session = first(path)
    assert session.known == 0
    assert session.others == "1 record of another CPU (A faster one) trains the model only"
    assert session.before().tasks[0].best is None


@pytest.mark.parametrize(
    ("target", "environment", "here"),
    [
        ({}, {}, True),
        ({}, {"cpu": fingerprint()["cpu"]}, True),
        ({}, {"cpu": "another"}, False),
        ({"cpu": "another"}, {}, False),
        ({"cpu": "", "features": "", "triple": ""}, {}, False),
        ({"features": "+sse2"}, {"cpu": fingerprint()["cpu"]}, False),
    ],
)
def test_what_counts_as_this_machine(
    task: Task, target: dict[str, Any], environment: dict[str, str], here: bool
) -> None:
    entry = replace(task, target=replace(task.target, **target)).to_json()
    record = Record(entry, (), MeasureResult((1.0,)), environment="hash")
    assert measured_here(record, {"hash": environment}) == here


@pytest.mark.parametrize(
    ("names", "here"),
    [(["A"], True), (["A", "A"], True), (["B"], False), (["A", "B"], False), ([], False)],
)
def test_records_of_another_gpu_are_set_apart(tmp_path: Path, names: list[str], here: bool) -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8, target="cuda")
    path = tmp_path / "r.jsonl"
    beside = {"gpus": [{"name": name} for name in names]} if names else {}
    RecordLog(path, beside=beside).append([Record(task.to_json(), (), MeasureResult((1e-3,)))])
    found = earlier_records(path, [task], print, "", gpu="A")
    assert (found.known, len(found.elsewhere)) == ((1, 0) if here else (0, 1))
    if names == ["B"]:
        assert found.others == "1 record of another GPU (B) trains the model only"
    assert earlier_records(path, [task], print, "").known == 1  # no GPU was met


def test_a_log_that_says_no_cpu_is_not_this_machine(tmp_path: Path) -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8)
    path = tmp_path / "ansor.json"
    entry = [
        ['["matmul", 8, 8, 8]', "llvm -keys=cpu", task.target.hardware.as_list(), "", 1, []],
        [[], []],
    ]
    path.write_text(json.dumps({"i": entry, "r": [[1e-6], 0, 1.0, 0], "v": "v0.6"}) + "\n")
    contents = read_log(path)
    (record,) = contents.records
    assert not measured_here(record, contents.environments)
    told: list[str] = []
    earlier_records(path, [task], told.append, "")
    RecordLog(path).append([Record(task.to_json(), (), MeasureResult((1e-3,)))])
    earlier_records(path, [task], told.append, "")
    (words,) = told  # of one that has others already it was said before
    assert "is a log of Ansor's: this run's records are added in autosched's own form" in words


CHOSEN = replace(cpu_target(), cpu="plain", features="", chosen_cpu=True)


def test_code_for_a_chosen_cpu_stays_as_it_is(
    first: Callable[..., Session], task: Task, tmp_path: Path
) -> None:
    """It is another task than this CPU's own, its times are this machine's."""
    chosen = replace(task, target=CHOSEN)
    assert for_this_cpu(chosen) is chosen
    path = tmp_path / "r.jsonl"
    with first(tmp_path / "here.jsonl") as session:
        measured = session.run().tasks[0].records
    log_of(path, chosen, [r.steps for r in measured], 1e-7)
    (record, *_) = read_log(path).records
    assert measured_here(record, {})
    found = earlier_records(path, [chosen], print, "")
    assert (found.known, found.elsewhere) == (8, [])
    with pytest.raises(ConfigError, match=r"holds records of another task .*, code for plain on"):
        earlier_records(path, [task], print, "")


def test_code_that_cannot_run_here_is_rebuilt_and_not_tuned(task: Task) -> None:
    elsewhere = replace(task, target=replace(CHOSEN, features="+xop,+amx-tile"))
    assert for_this_cpu(elsewhere).target == replace(cpu_target(), hardware=task.target.hardware)
    with pytest.raises(ConfigError, match=r"target.cpu: code for plain cannot run here"):
        Session([Job(elsewhere, TuneOptions(trials=1))])


def test_features_that_no_compiler_uses_by_itself_may_lack() -> None:
    """Virtual machines lack pku: nothing for their own CPU, by name, would run there."""
    x86 = replace(cpu_target(), cpu="future", triple="x86_64-unknown-linux-gnu", chosen_cpu=True)
    require_runs_here(replace(x86, features="+pku,+mwaitx,+none_such"))
    for feature in ("xop", "amx-tile"):
        target = replace(x86, features=f"+pku,+{feature}")
        if f"+{feature}" not in cpu_target().features.split(","):
            with pytest.raises(ConfigError, match=rf"for future cannot run here: .* {feature};"):
                require_runs_here(target)
        require_runs_here(replace(target, chosen_cpu=False))  # one that was recorded is rebuilt
