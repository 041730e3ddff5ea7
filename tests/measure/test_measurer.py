"""Real builds and runs of tiny kernels: results, failures and checks."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.measure.build import Builder, BuildResult
from autosched.measure.check import Seen
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.interrupt import MeasureLostError
from autosched.measure.measurer import Measurer
from autosched.measure.result import Failure, MeasureResult, RunResult, lower_quartile
from autosched.measure.run import make_handler
from autosched.measure.run_options import RunOptions
from autosched.state.steps import SplitStep, Step, steps_from_json
from autosched.task import Task
from kit.measurer import PATIENT, failure_of
from kit.passes import ONE
from kit.tir import value_of

FAST = RunOptions(timeout=PATIENT, min_repeat_ms=4.0, repeats=2, visits=2)
OPS = """
from autosched import te

def double(n):
    A = te.placeholder((n,), "float32", "A")
    return [A, te.compute((n,), lambda i: A[i] * 2, "B")]
"""
TILED = steps_from_json([["SP", 2, 0, 17, [4], 1], ["SP", 2, 2, 5, [8], 1]])


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=17, N=5, K=9)


@pytest.fixture(scope="module")
def measurer(task: Task) -> Iterator[Measurer]:
    with Measurer.create(build_timeout=PATIENT, options=FAST, check="all") as found:
        yield found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "workers: expected at least 1, found 0"),
        ({"check": "sometimes"}, "check: expected one of best, all, none, found 'sometimes'"),
        ({"target": "gpu"}, "target: expected one of cpu, cuda, found 'gpu'"),
        ({"build_timeout": 0}, "build_timeout: expected a number above 0, found 0"),
    ],
)
def test_what_no_run_has_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Measurer.create(**given)


def test_a_batch_keeps_its_order_and_its_failures(measurer: Measurer, task: Task) -> None:
    illegal = (SplitStep(2, 9, 4, (2,)),)
    results = measurer.measure(task, [(), illegal, TILED])
    assert [r.valid for r in results] == [True, False, True]
    assert [r.checked for r in results] == [True, False, True]
    assert results[1].failure is not None
    assert (results[1].failure.stage, results[1].failure.kind) == ("lower", "illegal")
    assert all(s > 0 for r in results for s in r.seconds)
    assert len(results[0].seconds) >= 2


def test_only_a_new_best_is_checked(task: Task) -> None:
    with Measurer.create(workers=1, build_timeout=PATIENT, options=FAST, check="best") as measurer:
        beaten, second = measurer.measure(task, [(), TILED], best=0.0)
        assert not beaten.checked and not second.checked
        results = measurer.measure(task, [(), TILED])
        fastest = min(results, key=lambda r: r.cost)
        assert fastest.checked
        assert sum(r.checked for r in results) == 1


def test_what_was_measured_is_not_built_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    with Measurer.create(workers=1, build_timeout=PATIENT, options=FAST) as measurer:
        measurer.measure(task, [TILED])
        none = BuildResult(None, 0.0)
        monkeypatch.setattr(Builder, "build", lambda _, task, batch, *more: [none for _ in batch])
        kept, new = measurer.build(task, [TILED, ()])
        assert kept is not None and new is None
        assert measurer.again(task, TILED).valid
        monkeypatch.setattr("autosched.measure.measurer._MOST_KEPT", 0)
        measurer.measure(task, [])
        assert measurer.build(task, [TILED]) == [None]


def test_a_pass_that_is_edited_stays_what_it_was_until_a_process_must_load_it(
    passes: Path,
) -> None:
    """Then the run ends, and no candidate fails for that."""
    task = Task.from_workload("matmul", M=17, N=5, K=9).with_lowering([ONE])
    with Measurer.create(workers=1, build_timeout=PATIENT, options=FAST) as measurer:
        before = measurer.build(task, [TILED])
        text = passes.read_text()
        passes.write_text(text.replace("ForKind.SERIAL", "ForKind.UNROLLED"))
        assert measurer.measure(task, [TILED, ()])[0].valid
        assert measurer.build(task, [TILED]) == before
        (slot,) = measurer.builder._slots
        for ask in (measurer.measure, measurer.begin):
            slot.worker.start()
            with pytest.raises(MeasureLostError, match=f"{ONE} is not the pass that was rec") as e:
                for _ in range(500):
                    ask(task, [(), TILED])
                    time.sleep(0.02)
            assert e.value.results == ((None, None) if ask == measurer.measure else ())
            measurer.start(task)
            (slot,) = measurer.builder._slots
        passes.write_text(text)
        assert all(result.valid for result in measurer.measure(task, [(), TILED]))


@pytest.mark.parametrize("at", ["drop", "first", "disturbed", "check"])
def test_a_file_that_is_edited_ends_the_run_once_a_process_must_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Whatever the process was at when it died; what was measured until then counts."""
    file = tmp_path / "ops.py"
    file.write_text(OPS)
    task = Task.from_python(f"{file}:double", n=64)
    with Measurer.create(workers=1, build_timeout=PATIENT, options=FAST) as measurer:
        assert measurer.measure(task, [()])[0].checked
        file.write_text(OPS.replace("* 2", "* 3"))
        call = CpuRunner._call

        def dying(runner: CpuRunner, request: tuple[Any, ...], *more: Any) -> Any:
            if request[0] == at and runner._worker is not None:
                runner._worker.kill()
            return call(runner, request, *more)

        monkeypatch.setattr(CpuRunner, "_call", dying)
        unrolled = steps_from_json([["PR", 1, 0, "auto_unroll_max_step$16"]])
        gone = r"a new process cannot run candidates: .*ops\.py:double\(n=64\): its file no longer"
        with pytest.raises(MeasureLostError, match=gone) as e:
            measurer.measure(task, [(), unrolled])
        first, second = e.value.results
        assert second is None or second.valid
        assert first is None if at == "drop" else first is not None
        assert first is None or first.valid == (at != "first")
        monkeypatch.undo()
        for _ in range(2):
            with pytest.raises(MeasureLostError, match="its file no longer declares the computati"):
                measurer.measure(task, [()])
        assert measurer.runner.peak(task) is None
        file.write_text(OPS)
        assert measurer.measure(task, [()])[0].valid


def test_a_builder_that_dies_costs_one_failure(measurer: Measurer, task: Task) -> None:
    measurer.builder.start()
    for slot in measurer.builder._slots:
        assert slot.worker._process is not None
        os.kill(slot.worker._process.pid, 9)
    results = measurer.measure(task, [(), TILED, ()])
    assert sum(not r.valid for r in results) <= 2
    assert all(r.failure is None or failure_of(r).kind in ("crash", "memory") for r in results)
    assert all(r.valid for r in measurer.measure(task, [(), TILED]))


def test_a_runner_that_dies_is_replaced(measurer: Measurer, task: Task) -> None:
    measurer.runner.start(task)
    assert isinstance(measurer.runner, CpuRunner)
    worker = measurer.runner._worker
    assert worker is not None and worker._process is not None
    os.kill(worker._process.pid, 9)
    results = measurer.measure(task, [(), TILED])
    assert all(r.valid or failure_of(r).kind in ("crash", "memory") for r in results)
    assert all(r.valid for r in measurer.measure(task, [(), TILED]))


def test_a_build_that_takes_too_long_is_ended(task: Task) -> None:
    with Measurer.create(workers=1, build_timeout=0.001, options=FAST) as measurer:
        (result,) = measurer.measure(task, [()])
    assert result.failure is not None
    assert result.failure.kind == "timeout"
    assert "0.001 s" in result.failure.message


def test_a_wrong_kernel_is_a_failed_measurement(task: Task) -> None:
    """The runner compares with the reference: a kernel of another task of the same shapes fails."""
    text = "C[i, j] = sum(k, A[i, k] * B[k, j] * 2)"
    other = Task.from_expression(text, _shapes(task))
    with Measurer.create(workers=1, build_timeout=PATIENT, options=FAST) as measurer:
        built = measurer.builder.build(other, [()])[0]
        assert built.artifact is not None, built.failure
        failure = measurer.runner.check(task, built.artifact)
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.kind) == ("check", "wrong_answer")
    assert "expected" in failure.message and "found" in failure.message


def _shapes(task: Task) -> dict[str, list[int]]:
    return {t.name: [value_of(e) for e in t.shape] for t in task.tensors[:2]}


def test_the_handler_refuses_nothing_it_knows(task: Task) -> None:
    handle = make_handler()
    assert handle(("task", task.to_json())) is None
    assert handle(("drop",)) is None


def test_a_failure_survives_json() -> None:
    result = MeasureResult((1.0, 2.0), Failure("run", "crash", "boom"), 0.5, 1.5)
    assert MeasureResult.from_json(result.to_json()) == result
    assert result.cost == float("inf")
    assert replace(result, failure=None).cost == lower_quartile((1.0, 2.0)) == 1.25


def test_inputs_are_the_same_every_time(task: Task) -> None:
    for one, two in zip(task.inputs(0), task.inputs(0), strict=True):
        np.testing.assert_array_equal(one, two)


SEEN = Seen(1.0, 0.0, 2e-4)


class Built(Builder):
    """Stands for the builder: an artifact for every candidate."""

    def build(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        on_done: Callable[[int], None] | None = None,
    ) -> list[BuildResult]:
        return [BuildResult(bytes([k]), 0.1) for k in range(len(batch))]


class Ran(CpuRunner):
    """Stands for the runner: candidate k takes `seconds[k]` and is wrong if it is in `wrong`."""

    def __init__(self, seconds: list[float], wrong: set[int]) -> None:
        super().__init__()
        self.seconds, self.wrong = seconds, wrong
        self.checked: list[int] = []

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        return [([s], None) for s in self.seconds]

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        self.checked.append(artifact[0])
        bad = artifact[0] in self.wrong
        return Failure("check", "wrong_answer", "2 of 4 elements differ") if bad else SEEN


@pytest.mark.parametrize(
    ("check", "best", "checked", "valid"),
    [
        ("best", float("inf"), [2, 0, 1], [False, True, False, True]),
        ("best", 2.0, [2], [True, True, False, True]),
        ("all", 2.0, [2, 0, 1, 3], [False, True, False, True]),
        ("none", float("inf"), [], [True, True, True, True]),
    ],
)
def test_from_the_fastest_on_until_one_agrees(
    task: Task, check: str, best: float, checked: list[int], valid: list[bool]
) -> None:
    """Candidates 2 and 0 are the fastest, and wrong: neither may be called best."""
    ran = Ran([2.0, 3.0, 1.0, 4.0], wrong={0, 2})
    results = Measurer(Built(), ran, check).measure(task, [()] * 4, best)
    assert ran.checked == checked
    assert [r.valid for r in results] == valid
    assert [r.checked for r in results] == [k in checked and valid[k] for k in range(4)]
    assert all(failure_of(r).kind == "wrong_answer" for r in results if not r.valid)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_progress_moves_from_nothing_to_all(measurer: Measurer, task: Task, size: int) -> None:
    told: list[tuple[str, int, int]] = []
    batch = [(), (SplitStep(2, 9, 4, (2,)),), TILED, (), TILED][:size]
    measurer.measure(task, batch, progress=lambda *part: told.append(part))
    for name in ("build", "run"):
        done = [k for told_name, k, _ in told if told_name == name]
        assert done == sorted(done)
        assert done[-1] == size
    ran = {k for name, k, _ in told if name == "run"}
    assert len(ran) >= size  # one by one; several builds may end between two looks at them
    assert {total for _, _, total in told} == {size}
    assert [name for name, _, _ in told] == sorted(name for name, _, _ in told)
