"""A session whose candidates are built and measured on the nodes of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.candidate import build_candidate
from autosched.errors import ConfigError
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.runtime.artifact import CpuArtifact
from autosched.search.options import SearchOptions
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.session import Job, MeasureOptions, Messages, Session
from autosched.session.tuned import TunedKernel
from autosched.state.steps import Step
from autosched.target import Target, cpu_target
from autosched.task import Task
from kit.fake_cluster import FakeLink, FakeNode, node_facts

ELSEWHERE = replace(cpu_target(64), cpu="another-cpu", features="+sse2")
CODE = {name: getattr(ELSEWHERE, name) for name in ("triple", "cpu", "features")}
FACTS = node_facts(threads=64, code=CODE)
FACTS = replace(FACTS, environment={**FACTS.environment, "cpu": "EPYC"})
BIG = replace(FACTS, environment={**FACTS.environment, "memory_bytes": 1 << 40})
TASK = Task.from_workload("matmul", M=64, N=64, K=64, target=ELSEWHERE)


def session(path: Path, said: list[str], search: SearchOptions, *tasks: Task) -> Session:
    options = TuneOptions(trials=8, batch=4, search=search, seed=1)
    return Session(
        [Job(task, options) for task in tasks or (TASK,)],
        records=path,
        model=ModelOptions("random", False),
        measure=MeasureOptions(check="none", hosts="auto"),
        messages=Messages(said.append, said.append),
    )


def test_records_name_their_node_and_its_environment(
    monkeypatch: pytest.MonkeyPatch, search: SearchOptions, tmp_path: Path
) -> None:
    """The nodes are of another kind than this machine; one is lost on the way."""
    a, b = FakeNode("a", FACTS), FakeNode("b", BIG)
    link = FakeLink(a, b)
    monkeypatch.setattr("autosched.measure.measurer.connect", lambda _: link)
    path, said = tmp_path / "r.jsonl", list[str]()
    with session(path, said, search) as first:
        result = first.run(lambda p, _: setattr(a, "dies", "run" if p.done == 4 else a.dies))
    assert link.closed
    assert [r.result.host for r in result.tasks[0].records] == ["a", "b", "a", "b"] + 4 * ["b"]
    assert said == [
        "measuring on a, b",
        "a was lost: its node died; what it had under way is done again",
    ]
    contents = read_log(path)
    assert not contents.problems
    found = Counter(
        (r.result.host, contents.environments[r.environment]["memory_bytes"])
        for r in contents.records
    )
    memory = FACTS.environment["memory_bytes"]
    assert found == {("a", memory): 2, ("b", 1 << 40): 6}
    assert len({r.steps for r in contents.records}) == 8

    other = replace(b.facts, environment={**b.facts.environment, "cpu": "Another model"})
    for facts, known in ((b.facts, 8), (other, 0)):
        monkeypatch.setattr(link, "fakes", [FakeNode("c", facts)])
        with session(path, said, search) as second:
            assert second.known == known
    assert "8 records of another CPU (EPYC) train the model only" in said


def test_a_kernel_for_nodes_of_another_kind_is_built_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets: list[Target] = []

    def build(task: Task, steps: Iterable[Step]) -> CpuArtifact:
        targets.append(task.target)
        return build_candidate(task, steps)

    monkeypatch.setattr("autosched.session.tuned.build_candidate", build)
    TunedKernel(TASK, Record(TASK.to_json(), (), MeasureResult((1.0,)))).build()
    (found,) = targets
    assert (found.cpu, found.features) == (cpu_target().cpu, cpu_target().features)
    assert found.hardware == ELSEWHERE.hardware


def test_several_tasks_share_the_nodes(
    monkeypatch: pytest.MonkeyPatch, search: SearchOptions, tmp_path: Path
) -> None:
    a, b = FakeNode("a", FACTS), FakeNode("b", FACTS)
    link = FakeLink(a, b)
    monkeypatch.setattr("autosched.measure.measurer.connect", lambda _: link)
    dense = Task.from_workload("matmul", M=32, N=64, K=64, target=ELSEWHERE)
    with session(tmp_path / "r.jsonl", [], search, TASK, dense) as both:
        result = both.run()
    for task in result.tasks:
        assert {r.result.host for r in task.records} == {"a", "b"}


def test_no_node_fits(
    monkeypatch: pytest.MonkeyPatch, search: SearchOptions, tmp_path: Path
) -> None:
    link = FakeLink(FakeNode("a", node_facts()))
    monkeypatch.setattr("autosched.measure.measurer.connect", lambda _: link)
    with (
        pytest.raises(ConfigError, match=r"no node of the cluster fits cpu .another-cpu, 64 thr"),
        session(tmp_path / "r.jsonl", [], search),
    ):
        pass
    assert link.closed
