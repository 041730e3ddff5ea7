"""Records with impossible times: said, left out, the next best taken."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import tune, user_file
from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import TUNING
from autosched.measure.plausible import least_of, least_operations, least_seconds
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.cost_model import Scores
from autosched.search.options import SearchOptions
from autosched.session import tuned
from autosched.session.believed import believed, below_peak
from autosched.session.model import Known, ModelOptions, make_learner
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.workloads.chosen_inputs import parse_inputs
from kit.helper import StubHelper
from kit.measurer import CRASH, StubMeasurer
from kit.passes import ONE
from kit.types import UseMeasurer

MATMUL = Task.from_workload("matmul", M=64, N=64, K=64)
STEPS = [steps_from_json([["SP", 2, 0, 64, [k], 1]]) for k in (1, 2, 4, 8)]


def record(k: int, seconds: float, task: Task = MATMUL) -> Record:
    return Record(task.to_json(), STEPS[k], MeasureResult((seconds,), checked=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three records: forged, the best, slower."""
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(0, 1e-9), record(1, 1e-3), record(2, 2e-3)])
    return path


def test_the_least_time_of_a_task() -> None:
    def on(threads: int, n: int) -> float:
        target = replace(cpu_target(), threads=threads)
        return least_seconds(Task.from_workload("matmul", M=n, N=n, K=n, target=target))

    assert on(1, 64) == pytest.approx(2 * 64**3 / 512e9)
    assert on(2, 64) == pytest.approx(64**3 / 512e9)
    assert on(1, 2) == 2e-9
    gpu = Task.from_workload("matmul", M=64, N=64, K=64, target="cuda")
    assert least_seconds(gpu) == 1e-7
    half = Task.from_workload("matmul", M=64, N=64, K=64, dtype="float16")
    assert least_seconds(half) == 2e-9
    assert least_of({"key": "k", "workload": {"op": "nothing"}}) == 0.0


def test_the_least_time_needs_no_trust_in_what_does_not_declare_the_task(
    passes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes.write_text(f"{passes.read_text()}\ndef ones(rng, shape, dtype):\n    return 1\n")
    filled = replace(MATMUL, chosen_inputs=parse_inputs({"A": {"function": "my_passes.py:ones"}}))
    tasks = MATMUL.with_lowering([ONE]), filled
    monkeypatch.setattr(user_file, "_RAN", set())
    assert [least_of(task.to_json()) for task in tasks] == [least_seconds(MATMUL)] * 2
    assert not user_file._RAN


@pytest.mark.parametrize(("stride", "share"), [(1, 1), (2, 4), (3, 9)])
def test_products_with_inserted_zeros_are_not_needed(stride: int, share: int) -> None:
    """Kernels leave them out: their times are as short as what is left of the operations."""
    task = Task.from_workload(
        "conv2d_transpose_nhwc", N=1, H=8, W=8, CI=16, CO=16, K=4, stride=stride, padding=1
    )
    assert least_operations(task) == task.dag.flop_count / share
    assert least_operations(MATMUL) == MATMUL.dag.flop_count


def test_what_a_condition_leaves_out_is_not_needed() -> None:
    """Of a window of 15 columns kernels compute little more."""
    shapes = {"A": (512, 512), "B": (512, 64)}
    text = "C[i, k] = sum(j, A[i, j] * B[j, k] if {} else 0)"
    whole = Task.from_expression(text.format("j >= 0"), shapes)
    lower = Task.from_expression(text.format("j <= i"), shapes)
    window = Task.from_expression(text.format("abs(i - j) < 8"), shapes)
    assert least_operations(whole) == whole.dag.flop_count
    assert 0.4 < least_operations(lower) / lower.dag.flop_count < 0.6
    assert least_operations(window) / window.dag.flop_count < 0.1


def test_what_is_impossible_is_left_out_and_said() -> None:
    said: list[str] = []
    failed = Record(MATMUL.to_json(), STEPS[3], MeasureResult((), CRASH))
    known = [record(0, 1e-9), failed, record(1, 2e-9), record(2, 1e-3)]
    assert believed(Path("r.jsonl"), known, said.append) == [failed, known[3]]
    (text,) = said
    assert text.startswith(f"r.jsonl: 2 records of task {MATMUL.key} not believed and left out: ")
    assert "1e-09 s a call, and no kernel of it takes less than " in text
    assert believed(Path("r.jsonl"), known[3:], said.append) == known[3:]
    assert len(said) == 1


def test_twice_the_measured_peak_is_not_believed() -> None:
    """The stand-in's peak is 1 GFLOP/s."""
    said: list[str] = []
    measurer: Any = StubMeasurer()
    seconds = MATMUL.dag.flop_count / 1e9
    known = [record(0, 0.4 * seconds), record(1, 0.6 * seconds), record(2, 2 * seconds)]
    assert below_peak(MATMUL, known, measurer, said.append) == known[1:]
    assert said[0].startswith("matmul(M=64, N=64, K=64): 1 record not believed and left out: 2.5 ")
    assert below_peak(MATMUL, known[1:], measurer, said.append) == known[1:]
    assert below_peak(MATMUL, [], measurer, said.append) == []
    assert len(said) == 1


def test_load_best_takes_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(tuned.TunedKernel, "build", lambda kernel: built.append(kernel.steps))
    with pytest.warns(UserWarning, match="1 record of task .* not believed"):
        autosched.load_best(path)
    assert built == [STEPS[1]]


def test_a_run_does_not_continue_from_it(
    measurer: UseMeasurer, search: SearchOptions, path: Path
) -> None:
    measurer(seconds=lambda steps: 5e-3)
    with pytest.warns(UserWarning, match="1 record of task .* not believed"):
        found = tune(MATMUL, trials=2, batch=2, search=search, cost_model="random", records=path)
    assert found.best.seconds == 1e-3


class Told:
    """A model that remembers what it was given."""

    trained = False
    known: Sequence[float] = ()

    def prepare(self) -> None:
        pass

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        self.known = throughputs

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        return np.ones((len(programs), 1), np.float32)


def test_no_model_learns_from_it(path: Path) -> None:
    """Throughputs would all be relative to it."""
    said: list[str] = []
    model = Told()
    options = ModelOptions(model=model, warm_start=[path])
    learner = make_learner(options, TUNING, 0, "cpu", StubHelper(), said.append, said.append)
    learner.refresh()
    assert model.known == [1.0, 0.5]
    assert "1 record of task" in said[0] and "not believed and left out" in said[0]
    assert said[1] == f"warm start from {path}: 2 records of 1 task"


def test_a_model_learns_from_a_file_once(path: Path, tmp_path: Path) -> None:
    """Nor from the records that its run continues from."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    other = Task.from_workload("matmul", M=32, N=32, K=32)
    RecordLog(path).append([record(2, 4e-3, other), record(3, 4e-3, other)])
    said: list[str] = []
    for known, throughputs, told in (
        (Known(), [1.0, 0.5, 1.0, 1.0], f"warm start from {path}: 4 records of 2 tasks"),
        (
            Known(link, {MATMUL.key}),
            [1.0, 1.0],
            f"warm start from {path}: 2 records of 1 task, beside 3 records that the run "
            "continues from",
        ),
        (Known(path.with_name("else"), {MATMUL.key}), [1.0, 0.5, 1.0, 1.0], "4 records of 2 tasks"),
    ):
        said.clear()
        model = Told()
        options = ModelOptions(model=model, warm_start=[path, link])
        helper = StubHelper()
        learner = make_learner(options, TUNING, 0, "cpu", helper, said.append, said.append, known)
        learner.refresh(at_last=True)
        assert sorted(model.known) == sorted(throughputs)
        assert f"{link} is the same file as {path}; it is read once" in said
        assert said[-1].endswith(told)
    RecordLog(tmp_path / "own.jsonl").append([record(1, 1e-3)])
    options = ModelOptions(model=Told(), warm_start=[tmp_path / "own.jsonl"])
    own = Known(tmp_path / "own.jsonl", {MATMUL.key})
    make_learner(options, TUNING, 0, "cpu", StubHelper(), said.append, said.append, own)
    assert "0 records of 0 tasks, beside 1 record that the run continues from" in said[-1]
