"""The node's side: the builder and runner of one machine, behind requests and answers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError, MeasureError
from autosched.measure.check import Seen
from autosched.measure.cluster import node as module
from autosched.measure.cluster.calls import value_of
from autosched.measure.cluster.link import Node
from autosched.measure.cluster.members import Member
from autosched.measure.cluster.node import NodeWorker, results_of, run_options, seen_of
from autosched.measure.interrupt import RunLostError
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions
from autosched.target import cpu_target
from autosched.task import Task
from kit.fake_cluster import node_facts
from kit.passes import ONE

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cpu_target(1))
ENTRY = TASK.to_json()
HERE = Member(Node("1", "here"), None, node_facts())


@pytest.fixture
def worker() -> Iterator[NodeWorker]:
    found = NodeWorker(1, 60.0)
    yield found
    found.close()


def test_a_node_builds_runs_and_checks(worker: NodeWorker) -> None:
    def ask(*request: Any) -> Any:
        return value_of(HERE, worker.do(request))

    assert worker.facts()["pid"] == os.getpid()
    ((artifact, _, failure),) = ask("build", ENTRY, [[]])
    assert failure is None
    ask("start", ENTRY, run_options(RunOptions(timeout=60.0, visits=2, min_repeat_ms=2.0)))
    results, disturbed = ask("run", ENTRY, [artifact, b"no artifact"], float("inf"))
    assert [type(visits) for visits in disturbed] == [int, int]
    good, bad = results_of(results)
    assert good[0] and not good[1]
    assert bad[1] is not None and bad[1].stage == "load"
    done, news = worker.news(0)
    assert done == 2
    assert [index for index, _, _ in news].count(0) == 2  # one for each visit
    assert worker.news(len(news))[1] == []
    assert isinstance(seen_of(ask("check", ENTRY, artifact)), Seen)
    assert isinstance(seen_of(ask("check", ENTRY, b"?")), Failure)


class Failing:
    """In place of a runner: raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def peak(self, task: Task) -> float:
        raise self.error

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ConfigError("no file"), ConfigError, "node here: no file"),
        (RunLostError("gone", [([1.0], None)], 0), RunLostError, "node here: gone"),
        (MeasureError("late", stage="check", kind="timeout"), MeasureError, "late"),
        (OSError("disk full"), MeasureError, "disk full"),
        (KeyError("a bug"), MeasureError, "KeyError: 'a bug'"),
    ],
)
def test_errors_are_answers(
    worker: NodeWorker, error: Exception, kind: type[Exception], text: str
) -> None:
    vars(worker)["_runner"] = Failing(error)
    with pytest.raises(kind, match=text) as raised:
        value_of(HERE, worker.do(("peak", ENTRY)))
    if isinstance(error, MeasureError) and isinstance(raised.value, MeasureError):
        assert (raised.value.stage, raised.value.kind) == (error.stage, error.kind)
    if isinstance(error, RunLostError) and isinstance(raised.value, RunLostError):
        assert (raised.value.results, raised.value.index) == (error.results, error.index)


def test_an_unknown_request_is_refused(worker: NodeWorker) -> None:
    assert worker.do(("dance",)) == (
        "config",
        "a node was asked for 'dance', which it does not know",
    )


@pytest.mark.parametrize(("what", "shared"), [("build", True), ("run", False), ("peak", False)])
def test_who_measures_has_the_cores_alone(
    worker: NodeWorker, what: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(kind: int) -> bool:
        with module.lock_file().open("rb") as file:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    seen: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        NodeWorker, "_reply", lambda *_: seen.append((free(fcntl.LOCK_SH), free(fcntl.LOCK_EX)))
    )
    worker.do((what,))
    assert seen == [(shared, False)]


def test_results_come_back_from_answers() -> None:
    results: Sequence[RunResult] = [([1.0, 2.0], None), ([], Failure("run", "crash", "11"))]
    assert results_of(module._plain(results)) == results


def test_a_node_without_the_file_of_a_pass_says_so_at_once(
    worker: NodeWorker, passes: Path
) -> None:
    entry = TASK.with_lowering([ONE]).to_json()
    passes.unlink()
    kind, text = worker.do(("start", entry, run_options(RunOptions())))
    assert kind == "config" and text.startswith("lowering: passes: there is no file my_passes.py")
