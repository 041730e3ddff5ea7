"""A session by itself: what both front doors rely on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.measure.journal import SUFFIX
from autosched.measure.records import Record, read_log
from autosched.search.options import SearchOptions
from autosched.search.progress import Progress
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.session import Job, MeasureOptions, Messages, Session
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.passes import ONE
from kit.types import UseMeasurer


@pytest.fixture
def jobs(tasks: list[Task], search: SearchOptions) -> list[Job]:
    options = TuneOptions(trials=4, batch=4, search=search)
    return [Job(task, options, weight) for task, weight in zip(tasks, (1.0, 2.0), strict=True)]


def test_trials_are_the_sum_unless_they_are_given(measurer: UseMeasurer, jobs: list[Job]) -> None:
    assert Session(jobs).trials == 8
    assert Session(jobs, trials=30).trials == 30
    with Session(jobs[:1], trials=7) as session:
        assert len(session.run().tasks[0].records) == 7


def test_earlier_records_are_counted_and_continued_from(
    measurer: UseMeasurer, jobs: list[Job], tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    with Session(jobs, records=path) as session:
        assert session.known == 0
        first = session.run()
    again = Session(jobs, records=path)
    assert (again.known, again.others) == (8, "")
    one = Session(jobs[:1], records=path)
    assert (one.known, one.others) == (4, "4 records of other tasks left alone")
    with again:
        second = again.run()
    records = read_log(path).records
    assert len({(r.task["key"], r.steps) for r in records}) == len(records) == 16
    assert second.objective <= first.objective


def test_the_objective_of_one_task_is_weighted(measurer: UseMeasurer, jobs: list[Job]) -> None:
    with Session(jobs[1:]) as session:
        result = session.run()
    best = result.tasks[0].best
    assert best is not None
    assert result.objective == 2.0 * best.result.cost


def test_gpus_that_are_named_for_a_cpu_are_told(jobs: list[Job]) -> None:
    warning: list[str] = []
    Session(jobs, measure=MeasureOptions(devices="all"), messages=Messages(warning=warning.append))
    assert warning == [
        "measure.devices names GPUs, and the target is cpu: nothing is measured on them"
    ]


def test_what_is_told(measurer: UseMeasurer, jobs: list[Job], tmp_path: Path) -> None:
    info: list[str] = []
    warning: list[str] = []
    messages = Messages(info.append, warning.append, "Take another")
    model = ModelOptions(save=tmp_path / "m.json")
    path = tmp_path / "r.jsonl"
    with Session(jobs[:1], records=path, model=model, messages=messages) as session:
        session.run()
        session.save_model()
    assert info == [f"cost model saved to {tmp_path / 'm.json'}"]
    untrained = ModelOptions(pretrained=False, save=tmp_path / "n.json")
    measurer(bad=1)
    with Session(jobs[:1], model=untrained, messages=messages) as session:
        session.run()
        session.save_model()
    (text,) = warning
    assert "was not trained" in text
    assert not (tmp_path / "n.json").exists()
    with pytest.raises(ConfigError, match=r"records of another task .*Take another$"):
        Session(jobs[1:], records=path, messages=messages)


@pytest.mark.parametrize("several", [False, True])
def test_mistakes_of_ours_are_told_as_other_warnings(
    several: bool,
    measurer: UseMeasurer,
    jobs: list[Job],
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """They were warnings of Python, also on the command line: with a line of typer's."""

    class Fails:
        def at_once(self, _: object) -> None:
            raise IndexError("tuple index out of range")

    monkeypatch.setattr("autosched.search.featurize.batched_features", lambda *_: Fails())
    monkeypatch.setattr("autosched.search.pace.Pace.at_once", lambda *_: True)
    warning: list[str] = []
    messages = Messages(warning=warning.append)
    with Session(jobs if several else jobs[:1], messages=messages) as session:
        session.run()
    assert len(warning) == (2 if several else 1)
    assert all("could not be worked out (IndexError" in text for text in warning)
    assert not recwarn.list


def test_what_a_killed_run_left_is_continued_from(
    measurer: UseMeasurer, jobs: list[Job], tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    with Session(jobs[:1], records=path) as session:
        found = session.run().tasks[0].records
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:2]))  # environment and task: the batch was under way
    left = path.with_name(f"r.jsonl.999999-0{SUFFIX}")
    left.write_bytes(b'{"claims": []}\n' + b"".join(whole))
    info: list[str] = []
    again = Session(jobs[:1], records=path, messages=Messages(info.append))
    assert again.known == len(found) == 4
    assert info == [f"4 results of a run that was killed added to {path}"]
    with again:
        records = again.run().tasks[0].records
    assert {r.steps for r in records}.isdisjoint(r.steps for r in found)
    assert list(tmp_path.glob(f"*{SUFFIX}")) == []


def test_two_sessions_at_once_measure_different_candidates(
    measurer: UseMeasurer, jobs: list[Job], tmp_path: Path
) -> None:
    """With the same seed, each beginning while the other measures."""
    path = tmp_path / "r.jsonl"
    inner: list[Session] = []

    def begin(progress: Progress, records: Sequence[Record]) -> None:
        if progress.phase == "measure" and not inner:
            inner.append(Session(jobs[:1], records=path))
            with inner[0]:
                inner[0].run()

    with Session(jobs[:1], records=path) as session:
        session.run(begin)
    states = [r.search["state"] for r in read_log(path).records]
    assert len(set(states)) == len(states) == 8


def test_tasks_of_two_kinds_of_target_are_refused(jobs: list[Job]) -> None:
    cuda = Job(Task.from_workload("matmul", M=8, N=8, K=8, target=cuda_target()))
    with pytest.raises(ConfigError, match="target cuda differs from cpu of matmul"):
        Session([*jobs, cuda])


def test_processes_end_when_the_model_is_refused(
    measurer: UseMeasurer, jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr("autosched.session.session.Helper.close", lambda self: closed.append(self))
    session = Session(jobs[:1], model=ModelOptions(load=tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="cannot read the cost model"):
        session.__enter__()
    assert len(closed) == 1


def test_more_threads_than_the_machine_has_are_refused() -> None:
    target = cpu_target(threads=999)
    task = Task.from_workload("matmul", M=8, N=8, K=8, target=target)
    with pytest.raises(ConfigError, match=r"threads: expected at most \d+, .* found 999"):
        Session([Job(task)])


def test_a_pass_that_is_another_one_now_is_told_before_the_search(passes: Path) -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8).with_lowering([ONE])
    Session([Job(task)])
    passes.write_text(passes.read_text().replace("ForKind.SERIAL", "ForKind.UNROLLED"))
    for same in (task, Task.from_json(task.to_json())):  # one has loaded it already
        with pytest.raises(ConfigError, match="OneThread is not the pass that was recorded"):
            Session([Job(same)])
