"""The same seed measures the same candidates, none twice, whatever runs beside the search."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.measure.build import Builder
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import RunResult
from autosched.process.worker import Worker
from autosched.search.evolution import mutated
from autosched.search.featurize import Helper, task_featurizer
from autosched.search.options import SearchOptions
from autosched.search.policy import SketchPolicy
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import Step, steps_to_json
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.helper import StubHelper, StubWorker, wait_for
from kit.measurer import StubMeasurer, seconds_from

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
SEARCH = SearchOptions(
    sample_init_min_population=8,
    evolutionary_search_population=12,
    evolutionary_search_num_iters=2,
)


SIZES: dict[str, Any] = {"M": 8, "N": 12, "K": 16}


class StubTimer(CpuRunner):
    """In place of `CpuRunner`: the time of a kernel is made of its object code."""

    def start(self, task: Task) -> None:
        pass

    def reference(self, task: Task) -> None:
        pass

    def close(self) -> None:
        pass

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        assert None not in artifacts
        return [([seconds_from(artifact)], None) for artifact in artifacts if artifact is not None]


class Unasked(StubWorker):
    def send(self, request: Any) -> None:
        raise AssertionError("no request is ever sent")


class NoHelper(StubHelper):
    """In place of `Helper`, for the tuner only: no request is ever sent."""

    @property
    def ready(self) -> Worker | None:
        return Unasked("")


def text_of(candidates: Sequence[tuple[Step, ...]]) -> str:
    return json.dumps([steps_to_json(steps) for steps in candidates])


def matmul(**sizes: Any) -> Task:
    return Task.from_workload("matmul", **{**SIZES, **sizes}, target=cpu_target())


def tuner_of(
    task: Task,
    measurer: Measurer | StubMeasurer,
    helper: Helper | None = None,
    earlier: Sequence[Record] = (),
    **options: int,
) -> Tuner:
    """A tuner whose features are worked out here, unless there is a `helper` process."""
    given: dict[str, Any] = {"trials": 15, "batch": 5, "seed": 3, "search": SEARCH, **options}
    settings = TuneOptions(**given)
    tuner = Tuner(task, settings, measurer, earlier=earlier, helper=helper or NoHelper())
    if helper is None:
        assert isinstance(tuner._policy, SketchPolicy)
        tuner._policy._featurize = task_featurizer(task)
    return tuner


def measured_by(tuner: Tuner) -> list[tuple[tuple[Step, ...], float | None]]:
    """What was measured, and the score that each was chosen for."""
    return [(r.steps, r.search["predicted"]) for r in tuner.run().records]


def program() -> str:
    """Everything that a seed decides, as text: a tuned task, and candidates of both targets."""
    found = [steps for steps, _ in measured_by(tuner_of(matmul(), StubMeasurer()))]
    small: list[tuple[str, dict[str, Any]]] = [
        ("matmul", {"M": 8, "N": 8, "K": 8}),
        ("softmax", {"M": 4, "N": 8}),
    ]
    for op, args in small:
        for target in (cpu_target(threads=2), cuda_target()):
            task = Task.from_workload(op, **args, target=target)
            space = SearchSpace(task, SEARCH)
            rng = np.random.default_rng(1)
            samples = space.sample(rng, 4)
            found += samples
            structures = Structures()
            rows = mutated(space.context, structures, structures.rows(samples), rng)
            found += structures.candidates(rows)
    return text_of(found)


@pytest.fixture
def builders() -> Iterator[Callable[[int], Measurer]]:
    """workers -> a Measurer that really builds, in so many processes, and times nothing."""
    made = []

    def make(workers: int) -> Measurer:
        made.append(Measurer(Builder(workers, 60.0), StubTimer(), "none"))
        return made[-1]

    yield make
    for measurer in made:
        measurer.close()


def test_build_workers_change_nothing(builders: Callable[[int], Measurer]) -> None:
    one, two = (measured_by(tuner_of(matmul(), builders(n), trials=8, batch=4)) for n in (1, 2))
    assert len(one) == 8
    assert any(predicted is not None for _, predicted in one)
    assert one == two


def test_the_helper_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Worker.send
    alone = measured_by(tuner_of(matmul(), StubMeasurer()))
    asked: list[Any] = []

    def noted(own: Worker, request: Any) -> None:
        asked.append(request)
        send(own, request)

    monkeypatch.setattr(Worker, "send", noted)
    monkeypatch.setattr("autosched.search.pace._MANY", 1 << 30)  # all go one by one
    monkeypatch.setattr("autosched.search.pace._FEW", 1 << 30)
    helper = Helper()
    try:
        wait_for(helper)
        together = measured_by(tuner_of(matmul(), StubMeasurer(), helper))
    finally:
        helper.close()
    assert len(asked) > 1
    assert alone == together


def test_the_hash_seed_changes_nothing() -> None:
    """String hashes, and with them the order of sets, differ between processes."""
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, __file__],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": PATH,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == program()


@pytest.mark.usefixtures("remembered_features", "brief_training")
@pytest.mark.parametrize("sizes", [{"M": 1, "N": 1, "K": 1}, {"M": 1, "N": 1, "K": 2}])
def test_a_tiny_space_is_measured_once_and_for_all(sizes: dict[str, int]) -> None:
    task, measurer = matmul(**sizes), StubMeasurer()
    result = tuner_of(task, measurer, trials=1000).run()
    assert result.reason == "the search space holds no more candidates"
    texts = [task.dag.infer_bound_of(steps).to_str() for steps in measurer.measured]
    assert 0 < len(texts) == len(set(texts)) == len(result.records) < 1000
    again = tuner_of(task, second := StubMeasurer(), earlier=result.records, seed=8).run()
    assert again.reason == "the search space holds no more candidates"
    assert {task.dag.infer_bound_of(s).to_str() for s in second.measured}.isdisjoint(texts)
    assert again.best is not None


@pytest.mark.usefixtures("remembered_features", "brief_training")
@pytest.mark.parametrize("op", ["softmax", "conv1d_nlc"])
def test_nothing_is_measured_twice(op: str) -> None:
    """Neither in later rounds nor by a later run with another seed that continues."""
    sizes: dict[str, Any] = {"M": 2, "N": 6}
    if op == "conv1d_nlc":
        sizes = {"N": 1, "L": 4, "CI": 2, "CO": 2, "K": 3, "stride": 1, "padding": 1}
    task = Task.from_workload(op, **sizes, target=cpu_target())
    measurer = StubMeasurer()
    first = tuner_of(task, measurer, trials=24, batch=8).run()
    tuner_of(task, measurer, earlier=first.records, trials=8, batch=8, seed=4).run()
    texts = [task.dag.infer_bound_of(steps).to_str() for steps in measurer.measured]
    assert len(texts) == len(set(texts)) == 32


if __name__ == "__main__":
    sys.stdout.write(program())
