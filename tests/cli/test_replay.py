"""`autosched replay`: real kernels, built from the record file alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.cli import console, replay
from autosched.measure import gpu_runner
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.cli import Cli, MakeRecord
from kit.fake_gpu import BROKEN
from kit.measurer import StubMeasurer


def test_the_best_record_is_rebuilt_checked_and_timed(cli: Cli, log: Path) -> None:
    done = cli("replay", log)
    assert done.status == 0
    assert done.out.startswith("matmul(M=16, N=16, K=16): ")
    assert ", recorded 1 ms, ratio " in done.out
    assert "checked against NumPy (100% of the outputs finite and not zero, largest" in done.out


def test_what_is_said_fits_a_narrow_terminal(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(cli("replay", log, "--no-check").out.splitlines()) == 1
    monkeypatch.setattr(console, "text_width", lambda: 40)
    lines = cli("replay", log, "--no-check").out.splitlines()
    assert len(lines) > 1 and all(len(line) <= 40 for line in lines)


def test_json_is_one_object_with_every_valid_record(cli: Cli, log: Path) -> None:
    done = cli("replay", log, "--all", "--json", "--no-check")
    assert done.status == 0
    data = json.loads(done.out)
    assert [row["recorded_seconds"] for row in data["replayed"]] == [2e-3, 1e-3]
    assert all(row["seconds"] > 0 and not row["checked"] for row in data["replayed"])
    assert all(row["error"] is None for row in data["replayed"])


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((5e-5, 2e-4), "inside the recorded interval (50 us to 200 us)"),
        ((1e-6, 2e-6, 5e-5), "outside the recorded interval (1 us to 50 us)"),
        ((1e-3,), "outside the recorded interval (1 ms to 1 ms)"),
    ],
)
def test_whether_the_time_lies_inside_the_recorded_interval(
    cli: Cli,
    log: Path,
    record: MakeRecord,
    monkeypatch: pytest.MonkeyPatch,
    seconds: tuple[float, ...],
    said: str,
) -> None:
    """Where every call takes 100 us."""
    monkeypatch.setattr(replay, "Measurer", StubMeasurer(seconds=lambda _: 1e-4))
    log.unlink()
    RecordLog(log).append([replace(record(), result=MeasureResult(seconds))])
    assert f", {said}" in cli("replay", log).out
    (row,) = json.loads(cli("replay", log, "--json").out)["replayed"]
    assert row["inside"] == said.startswith("inside")
    assert row["recorded_interval"] == [min(seconds), max(seconds)]


def test_an_illegal_candidate_is_status_3(cli: Cli, log: Path, record: MakeRecord) -> None:
    RecordLog(log).append([record(steps=steps_from_json([["SP", 9, 0, 16, [4], 1]]))])
    done = cli("replay", log, "--index", -1)
    assert done.status == 3
    assert "failed in lower (illegal)" in done.out


@pytest.mark.parametrize("cpu", ['"cpu":"another-cpu"', '"cpu":""'])
def test_a_record_of_another_machine_is_rebuilt_for_this_one(
    cli: Cli, log: Path, task: Task, cpu: str
) -> None:
    log.write_text(log.read_text().replace(f'"cpu":"{task.target.cpu}"', cpu))
    done = cli("replay", log)
    assert done.status == 0
    assert "checked against NumPy" in done.out
    assert ("recorded for cpu (another-cpu" in done.err) == ("another" in cpu)


@pytest.fixture
def gpu_log(tmp_path: Path) -> Path:
    """One candidate for sm_80."""
    task = Task.from_workload("matmul", M=16, N=16, K=16, target="cuda")
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1)
    path = tmp_path / "gpu.jsonl"
    RecordLog(path).append([Record(task.to_json(), steps, MeasureResult((1e-3,)))])
    return path


def test_a_candidate_for_cuda_is_rebuilt_for_the_gpu_that_is_here(
    cli: Cli, gpu_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_good_handler")
    done = cli("replay", gpu_log)
    assert done.status == 0
    assert "note: recorded for cuda (sm_80), rebuilt for fake GPU (sm_90)" in done.err
    assert ": 100 us, recorded 1 ms, ratio 0.10, " in done.out
    assert "checked against NumPy (100% of the outputs finite and not zero, largest" in done.out


def test_without_a_gpu_a_candidate_for_cuda_is_not_replayed(
    cli: Cli, gpu_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_handler")
    monkeypatch.setenv(BROKEN, str(gpu_log))  # a file that is there
    done = cli("replay", gpu_log)
    assert (done.status, done.out) == (2, "")
    assert "device unavailable" in done.err


def test_a_file_of_failures_is_refused(cli: Cli, tmp_path: Path, record: MakeRecord) -> None:
    RecordLog(tmp_path / "f.jsonl").append([record(failure=Failure("run", "crash", "it died"))])
    done = cli("replay", "f.jsonl")
    assert done.status == 2
    assert "for example: it died" in done.err


def test_the_python_interface_tunes_and_builds(tmp_path: Path) -> None:
    task = autosched.Task.from_workload("matmul", M=16, N=16, K=16, target="cpu")
    result = autosched.tune(
        task,
        trials=3,
        records=tmp_path / "mm.jsonl",
        measure=RunOptions(min_repeat_ms=5),
        search=SearchOptions(sample_init_min_population=8, evolutionary_search_population=8),
        workers=1,
    )
    assert len(result.records) == 3
    kernel = result.best.build()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    c = np.empty((16, 16), np.float32)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
