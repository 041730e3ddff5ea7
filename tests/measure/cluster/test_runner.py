"""A batch on several nodes: who measures what, and what a node that is lost leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from autosched.errors import ConfigError, MeasureError
from autosched.measure.cluster import runner as module
from autosched.measure.cluster.builder import ClusterBuilder
from autosched.measure.cluster.members import Cluster
from autosched.measure.cluster.node import Answer
from autosched.measure.cluster.runner import ClusterRunner
from autosched.measure.interrupt import MeasureLostError, RunInterrupted, RunLostError
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.fake_cluster import FakeLink, FakeNode, Request, node_facts

TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=cpu_target(1))
CRASH = {"stage": "run", "kind": "crash", "message": "signal 11"}
ARTIFACTS = [b"1", b"22", None, b"333", b"4444", b"55555"]


@pytest.fixture(autouse=True)
def news_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEWS_SECONDS", 0.0)


class Made:
    """A cluster of fakes, opened for TASK. `said` are its warnings."""

    def __init__(self, *nodes: FakeNode, interrupt: str = "") -> None:
        self.said: list[str] = []
        self.link = FakeLink(*nodes, interrupt=interrupt)
        self.cluster = Cluster(self.link, 2, 1.0, self.said.append)
        self.runner = ClusterRunner(RunOptions(), self.cluster)
        self.known: list[tuple[int, RunResult]] = []
        self.runner.on_result = lambda index, result: self.known.append((index, result))
        self.cluster.open([TASK.target])

    def hosts(self) -> list[str]:
        return [self.runner.host_of(index) for index in range(len(ARTIFACTS))]


def costs(results: Sequence[RunResult]) -> list[float]:
    return [round(1e3 * seconds[0]) if seconds else 0 for seconds, _ in results]


def test_a_batch_is_dealt_out_and_each_result_names_its_node() -> None:
    a, b = FakeNode("a"), FakeNode("b")
    made = Made(a, b)
    done: list[int] = []
    assert costs(made.runner.run(TASK, ARTIFACTS, on_done=done.append)) == [1, 2, 0, 3, 4, 5]
    assert made.hosts() == ["a", "b", "", "a", "b", "a"]
    assert [made.runner.disturbed(index) for index in range(6)] == [1, 2, 0, 3, 4, 5]
    assert done[-1] == len(ARTIFACTS)
    assert len(a.requests("start")) == len(b.requests("start")) == 1
    made.runner.run(TASK, ARTIFACTS)
    assert len(a.requests("start")) == 1  # it is prepared
    assert a.requests("start")[0][2]["cache_flush"] == 0
    assert made.said == []


@pytest.mark.parametrize("dies", ["start", "run"])
def test_what_a_lost_node_had_under_way_is_measured_elsewhere(dies: str) -> None:
    """Its candidate that had failed stays failed; repeats of the others are not kept."""
    told = [(0, [7.0], None), (2, [], CRASH)] if dies == "run" else []
    a, b = FakeNode("a", dies=dies, told=told), FakeNode("b")
    made = Made(a, b)
    results = made.runner.run(TASK, ARTIFACTS)
    crashed = dies == "run"
    assert costs(results) == [1, 2, 0, 3, 4, 0 if crashed else 5]
    assert results[5][1] == (Failure.from_json(CRASH) if crashed else None)
    assert made.hosts() == ["b", "b", "", "b", "b", "a" if crashed else "b"]
    assert made.known[: len(told)] == [(0, ([7.0], None)), (5, ([], results[5][1]))][: len(told)]
    assert made.said == ["a was lost: its node died; what it had under way is done again"]
    ran = [artifact for request in b.requests("run") for artifact in request[2]]
    assert sorted(ran) == sorted(set(ran))  # none twice


def test_when_all_are_lost_the_results_until_then_are_not() -> None:
    made = Made(FakeNode("a", dies="run", told=[(1, [], CRASH)]), FakeNode("b", dies="run"))
    with pytest.raises(RunLostError, match=r"no node of the cluster is left.*continues") as lost:
        made.runner.run(TASK, ARTIFACTS)
    assert [failure for _, failure in lost.value.results if failure] == [Failure.from_json(CRASH)]
    with pytest.raises(MeasureLostError) as nothing:
        ClusterBuilder(made.cluster).build(TASK, [(), ()])
    assert nothing.value.results == (None, None)


def test_an_interrupt_ends_what_runs_and_keeps_what_is_known() -> None:
    a, b = FakeNode("a", told=[(0, [3.0], None)]), FakeNode("b")
    made = Made(a, b, interrupt="run")
    with pytest.raises(RunInterrupted) as stop:
        made.runner.run(TASK, ARTIFACTS)
    assert stop.value.results[0] == ([3.0], None)
    assert all(process.ended for process in (*a.processes, *b.processes))
    assert made.runner.peak(TASK) is None  # waits for nobody
    assert costs(made.runner.run(TASK, ARTIFACTS)) == [1, 2, 0, 3, 4, 5]  # with new processes
    made.runner.close()
    assert made.link.closed
    assert all(process.ended for process in (*a.processes, *b.processes))


def test_a_node_that_comes_while_others_prepare_is_prepared_too() -> None:
    """It ran candidates with the options of a runner that was never told its own."""
    late = FakeNode("late")

    def answer(request: Request) -> Answer | None:
        if request[0] == "start" and late not in made.link.fakes:
            made.link.fakes.append(late)
        return None

    made = Made(FakeNode("a", answer=answer))
    assert costs(made.runner.run(TASK, ARTIFACTS)) == [1, 2, 0, 3, 4, 5]
    asked = [request[0] for process in late.processes for request in process.asked]
    assert asked[:2] == ["start", "run"]


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (("config", "its arrays need 9 GiB"), "node a: its arrays .*; it builds but does not"),
        (("failed", ("run", "error", "No space left")), "a was lost: No space left"),
    ],
)
def test_a_node_that_cannot_hold_a_task_leaves_it_to_the_others(refusal: Answer, says: str) -> None:
    """One of little memory, or with a full disk, ended the run for all."""
    a = FakeNode("a", answer=lambda request: refusal if request[0] == "start" else None)
    made = Made(a, FakeNode("b"))
    assert costs(made.runner.run(TASK, ARTIFACTS)) == [1, 2, 0, 3, 4, 5]
    assert set(made.hosts()) == {"b", ""}
    assert re.match(says, made.said[0])
    built = ClusterBuilder(made.cluster).build(TASK, [()] * 7)
    builds = {"a", "b"} if refusal[0] == "config" else {"b"}
    assert {result.host for result in built} == builds
    alone = FakeNode("a", answer=a.answer)
    with pytest.raises((ConfigError, MeasureError), match=r"its arrays need|No space left"):
        Made(alone).runner.run(TASK, ARTIFACTS)


def test_a_race_is_run_on_one_node() -> None:
    a, b = FakeNode("a"), FakeNode("b")
    made = Made(a, b)
    assert costs(made.runner.together(TASK, [b"1", b"22"], 3, 0.1)) == [1, 2]
    made.runner.run(TASK, [b"1"])
    assert made.runner.peak(TASK) == 1e9
    assert [made.runner.host_of(0), len(b.requests("run"))] == ["a", 0]
    a.dies = "together"
    with pytest.raises(RunLostError, match="a was lost during the race"):
        made.runner.together(TASK, [b"1", b"22"], 3, 0.1)
    b.dies, c = "check", FakeNode("c")
    made.link.fakes.append(c)
    assert isinstance(made.runner.check(TASK, b"1"), Failure)  # the next node's answer
    assert len(c.requests("check")) == 1


def test_nodes_that_come_are_used_and_others_are_not() -> None:
    a = FakeNode("a")
    made = Made(a)
    old = replace(node_facts(), versions={**node_facts().versions, "autosched": "0.0"})
    small = FakeNode("small", node_facts(threads=1))
    made.link.fakes += [FakeNode("b"), FakeNode("old", old), small]
    target = replace(TASK.target, threads=2)
    made.cluster.open([target])
    made.runner.run(TASK, ARTIFACTS)
    made.runner.run(TASK, ARTIFACTS)
    assert set(made.hosts()) == {"a", "b", ""}
    assert [text.partition(": ")[0] for text in made.said] == [
        "b joined",
        "a node that joined is not used",
        "small joined (to build only)",
    ]
    assert set(made.cluster.environments) == {"a", "b"}
    chunks = [()] * 6
    ClusterBuilder(made.cluster).build(TASK, chunks)
    assert [len(node.requests("build")) for node in (a, small)] == [1, 1]


def test_a_node_that_is_lost_again_and_again_is_not_asked_any_more() -> None:
    failed = "failed", ("run", "error", "?")
    bad = FakeNode("bad", answer=lambda request: failed if request[0] == "run" else None)
    made = Made(bad, FakeNode("good"))
    for _ in range(5):
        assert costs(made.runner.run(TASK, ARTIFACTS)) == [1, 2, 0, 3, 4, 5]
    assert len(bad.processes) == 3


@pytest.mark.parametrize("dies", ["build", ""])
def test_candidates_are_built_by_whoever_is_free(dies: str) -> None:
    a, b = FakeNode("a", dies=dies), FakeNode("b")
    made = Made(a, b)
    done: list[int] = []
    built = ClusterBuilder(made.cluster).build(TASK, [()] * 7, done.append)
    assert [result.artifact for result in built] == [b"[]"] * 7
    assert {result.host for result in built} == ({"b"} if dies else {"a", "b"})
    assert done[-1] == 7


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"autosched": "0.0"}, "a: autosched 0.0, here .*; b: autosched 0.0.*--num-cpus=0"),
        ({"source": "?"}, "a: autosched .* with other source files than here; b: "),
    ],
)
def test_other_versions_are_refused(change: dict[str, str], text: str) -> None:
    facts = replace(node_facts(), versions={**node_facts().versions, **change})
    with pytest.raises(ConfigError, match=f"^target.hosts: {text}"):
        Made(FakeNode("a", facts), FakeNode("b", facts), FakeNode("c"))


def test_a_node_without_autosched_is_named() -> None:
    bare = FakeNode("bare", broken="ModuleNotFoundError: No module named 'autosched'")
    with pytest.raises(ConfigError, match=r"bare: ModuleNotFoundError: .* install them there"):
        Made(bare, FakeNode("a"))


def test_errors_on_a_node_are_what_they_are_here() -> None:
    def answer(request: tuple[object, ...]) -> tuple[str, object] | None:
        if request[0] == "start":
            return "config", "there is no file my_ops.py"
        return ("failed", ("check", "timeout", "late")) if request[0] == "check" else None

    with pytest.raises(ConfigError, match=r"^node a: there is no file my_ops\.py"):
        Made(FakeNode("a", answer=answer)).runner.start(TASK)
    made = Made(FakeNode("a", answer=lambda r: answer(r) if r[0] == "check" else None))
    assert made.runner.check(TASK, b"1") == Failure("check", "timeout", "late")


def test_gpus_are_not_measured_on_a_cluster() -> None:
    with pytest.raises(ConfigError, match="only CPU tasks are measured on a cluster"):
        Cluster(FakeLink(FakeNode("a"))).open([cuda_target()])
