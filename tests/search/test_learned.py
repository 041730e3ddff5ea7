"""Files with many records: what a run learns from is bounded, what it knows is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.features.ansor.rows import FeatureRows
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search import learned
from autosched.search.featurize import task_featurizer
from autosched.search.learned import learned_from
from autosched.search.policy import SketchPolicy
from autosched.search.structure import Steps
from autosched.search.tuner import TuneOptions, Tuner
from autosched.target import cpu_target
from autosched.task import Task
from kit.helper import StubHelper
from kit.measurer import CRASH, StubMeasurer


def record(cost: float) -> Record:
    return Record({"key": "k"}, (), MeasureResult((cost,)))


def test_all_of_a_few() -> None:
    assert learned_from([1.0] * 512) == list(range(512))


def test_the_fastest_and_some_of_every_part_of_many() -> None:
    records = [record(1.0 + (7919 * k) % 10_000) for k in range(10_000)]
    records[4321] = replace(record(1.0), result=MeasureResult((), CRASH))
    chosen = learned_from([r.result.cost for r in records])
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 512
    fastest = sorted(range(10_000), key=lambda k: records[k].result.cost)[:256]
    assert set(fastest) <= set(chosen)
    for tenth in range(10):
        assert sum(k // 1000 == tenth for k in set(chosen) - set(fastest)) > 20


@pytest.mark.parametrize("known", [True, False])
def test_what_is_not_learned_from_is_not_measured_again_either(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Told by its loop nest where the record says it, as other steps may make the same one."""
    task = Task.from_workload("matmul", M=2, N=2, K=2, target=cpu_target())
    options = TuneOptions(trials=12, batch=6, seed=3, cost_model="random")
    first = Tuner(task, options, StubMeasurer(), helper=StubHelper())
    assert isinstance(first._policy, SketchPolicy)
    first._policy._featurize = task_featurizer(task)
    earlier = first.run().records
    if not known:  # an older program's records
        earlier = [replace(r, search={}) for r in earlier]
    monkeypatch.setattr(learned, "_BEST", 2)
    monkeypatch.setattr(learned, "_OTHERS", 3)
    asked: list[Steps] = []

    def featurize(candidates: list[Steps]) -> list[FeatureRows | None]:
        asked.extend(candidates)
        return task_featurizer(task)(candidates)

    again = Tuner(task, replace(options, seed=4), StubMeasurer(), earlier=earlier)
    assert isinstance(again._policy, SketchPolicy)
    again._policy._featurize = featurize  # type: ignore[assignment]
    again._learn_earlier()
    assert len(asked) == 5
    again._policy._learner.refresh()
    found = [candidate.steps for candidate in again._policy.next_batch(4)]
    assert found
    assert {r.steps for r in earlier}.isdisjoint(found)
    states = {r.search.get("state") for r in earlier}
    assert not known or states.isdisjoint(map(again._policy.state, found))
