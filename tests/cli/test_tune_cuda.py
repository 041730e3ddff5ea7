"""`autosched tune --target cuda`: on a fake GPU, with faults, and where there is no GPU."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path

import pytest

from autosched.cli import app as application
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.measure import gpu_runner, gpu_worker
from autosched.measure.records import read_log
from autosched.measure.standing import is_race
from autosched.state.steps import steps_to_json
from kit.forks import fresh

CONFIG = """\
workload: {op: matmul, args: {M: 32, N: 32, K: 16}}
target: {kind: cuda, arch: sm_90}
cost_model: {kind: random}
search: {batch: 16, sample_init_min_population: 12, evolutionary_search_population: 32,
  evolutionary_search_num_iters: 1}
measure: {timeout_s: 1.5, workers: 1}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nvrtc() -> None:
    try:
        load_nvrtc("sm_90")
    except ConfigError as error:
        pytest.skip(str(error))


def tune(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["autosched", "tune", "a.yaml", *arguments])
    try:
        application.run()
    except SystemExit as end:
        assert end.code is None or isinstance(end.code, int)
        return end.code or 0
    return 0


def children() -> set[int]:
    """The processes that this one started and that are still there."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it ended meanwhile
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("trials", [16, pytest.param(800, marks=pytest.mark.slow)])
def test_a_run_with_faults_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, trials: int
) -> None:
    if trials > 100 and "AUTOSCHED_SLOW" not in os.environ:
        pytest.skip("minutes of some 300 injected faults: set AUTOSCHED_SLOW=1 to run it")
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_faulty_handler")
    monkeypatch.setattr(gpu_worker, "GRACE_SECONDS", 0.1)  # some kernels never end
    before = children()
    with fresh():  # children of this process, as users have them
        assert tune(monkeypatch, "--trials", str(trials), "--records", "r.jsonl", "--json") == 0
    assert children() <= before
    records = [r for r in read_log(folder / "r.jsonl").records if not is_race(r)]
    assert len(records) == trials
    assert len({json.dumps(steps_to_json(r.steps)) for r in records}) == trials
    valid = [r.result for r in records if r.result.valid]
    assert len(valid) > trials / 3
    assert all(r.checked and len(r.seconds) <= 8 for r in valid)
    assert all(r.device is not None and r.device["kernels"] for r in valid)
    kinds = {r.result.failure.kind for r in records if r.result.failure is not None}
    assert len(kinds) >= 3, kinds
    print(trials, len(valid), sorted(kinds))


@pytest.mark.usefixtures("folder")
def test_a_target_that_the_gpu_does_not_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("a.yaml").write_text(CONFIG.replace("sm_90", "sm_80"))
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_handler")
    assert tune(monkeypatch, "--records", "r.jsonl") == 2
    assert (
        "sm_80 does not run on fake GPU, which is sm_90; set target.arch" in capfd.readouterr().err
    )
    assert not Path("r.jsonl").exists()


def test_without_a_driver_the_run_ends_before_any_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a driver")
    assert tune(monkeypatch, "--records", "r.jsonl") == 2
    said = capfd.readouterr().err
    assert "no CUDA driver (libcuda.so.1 not found): kernels can be generated" in said
    assert not (folder / "r.jsonl").exists()
