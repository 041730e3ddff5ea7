"""`autosched doctor`: each stage broken on purpose is the one that is named, with its remedy."""

import fcntl
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Never

import pytest

from autosched import driver
from autosched.cli import (
    doctor_cpu,
    doctor_machine,
    doctor_process,
    doctor_software,
    doctor_stages,
)
from autosched.cli.diagnosis import Finding, Level
from autosched.errors import ScheduleError
from autosched.measure import cpu_runner, gpu_runner
from autosched.measure.measurer import Measurer
from autosched.search import space
from autosched.target import cpu_target, cuda_target
from kit.cli import Cli
from kit.doctor_faults import BREAK

STAGES = ["sketch", "lower", "LLVM", "worker", "measure", "check", "record", "model"]


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes that break as BREAK says, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor_software, "FACTORY", "kit.doctor_faults:make_process")
    monkeypatch.setattr(cpu_runner, "FACTORY", "kit.doctor_faults:make_runner")
    monkeypatch.delenv(BREAK, raising=False)


@pytest.fixture
def no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured: the processes for that are not started."""
    monkeypatch.setattr(Measurer, "start", lambda *_: None)


def tried() -> dict[str, Finding]:
    """The findings by their stages, one for each."""
    found = doctor_stages.tried(cpu_target(1))
    assert [finding.part for finding in found] == STAGES
    assert all(f.remedy for f in found if f.level is Level.BROKEN)
    return {finding.part: finding for finding in found}


def levels(found: dict[str, Finding]) -> dict[Level, list[str]]:
    """Which stages are of each level but OK."""
    kinds = (Level.BROKEN, Level.SKIPPED)
    return {kind: [f.part for f in found.values() if f.level is kind] for kind in kinds}


def raising(error: Exception) -> Never:
    raise error


def test_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "generate_sketches", lambda *_: raising(KeyError("rule")))
    found = tried()
    assert levels(found) == {Level.BROKEN: ["sketch"], Level.SKIPPED: [*STAGES[1:]]}
    assert found["sketch"].text == "KeyError: 'rule'"
    assert found["sketch"].remedy.startswith("this is a bug in autosched")
    assert found["lower"].text == "not tried without sketch"


@pytest.mark.usefixtures("no_runner")
def test_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ScheduleError("no such loop")
    monkeypatch.setattr(driver, "schedule_to_prim_func", lambda *_: raising(error))
    found = tried()
    assert levels(found) == {Level.BROKEN: ["lower"], Level.SKIPPED: ["LLVM", "measure", "check"]}
    assert found["lower"].text == "no such loop"


@pytest.mark.usefixtures("no_runner")
def test_llvm_that_kills_its_process_and_all_that_does_not_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(BREAK, "compile:abort,model:import")
    monkeypatch.setattr(fcntl, "flock", lambda *_: raising(OSError(37, "No locks available")))
    found = tried()
    assert levels(found) == {
        Level.BROKEN: ["LLVM", "record", "model"],
        Level.SKIPPED: ["measure", "check"],
    }
    assert found["LLVM"].text.startswith("the process died with signal 6")
    assert "install llvmlite again" in found["LLVM"].remedy
    assert "No locks available" in found["record"].text
    assert "libgomp.so.1: cannot open" in found["model"].text
    assert "pip install xgboost-cpu" in found["model"].remedy
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("no_runner")
def test_llvm_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BREAK, "compile:hang")
    monkeypatch.setitem(doctor_stages.SECONDS, "compile", 0.05)
    assert tried()["LLVM"].text == "no answer within 0.05 s; the process was ended"


def test_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found = tried()
    assert levels(found) == {
        Level.BROKEN: ["worker"],
        Level.SKIPPED: ["LLVM", "measure", "check", "model"],
    }
    assert "process of '/nowhere/python' (sys.executable): No such file" in found["worker"].text
    parts = [finding.part for finding in doctor_cpu.diagnose("").findings]
    assert parts[0] == "CPU" and "worker" in parts and "peak" not in parts
    (software,) = doctor_software.findings()
    assert software.level is Level.SKIPPED and "no process starts" in software.text


@pytest.mark.parametrize(
    ("fault", "stage", "text"),
    [
        ("first:abort", "measure", "run crash: the process died with signal 6"),
        ("check:wrong", "check", "C[0, 0]: found 1, expected 2"),
    ],
)
def test_measure_and_check(
    fault: str, stage: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BREAK, fault)
    found = tried()
    assert levels(found)[Level.BROKEN] == [stage]
    assert found[stage].text.startswith(text)


def test_a_machine_that_works_and_is_busy(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 0 and a note; what is broken is status 1."""
    monkeypatch.setattr(os, "getloadavg", lambda: (7.5, 0.0, 0.0))
    monkeypatch.setattr(doctor_process, "packages", lambda: ["numpy"])
    done = cli("doctor", "--json")
    found = json.loads(done.out)
    assert (done.status, found["ok"], done.err) == (0, True, "")
    parts = {each["part"]: each for each in found["findings"]}
    machine = ["versions", "CPU", "caches", "memory", "folders", "timer", "load", "clock", "peak"]
    assert [part for part in parts if part != "quota"] == machine + STAGES
    assert (parts["load"]["level"], parts["measure"]["level"]) == ("note", "ok")
    assert found["verdict"].startswith("can tune; look at ") and "load" in found["verdict"]
    monkeypatch.setenv(BREAK, "peak:abort")
    monkeypatch.setattr(doctor_stages, "tried", lambda *_: [])
    done = cli("doctor")
    assert done.status == 1
    assert "broken  peak           the process died with signal 6" in done.out


@pytest.mark.parametrize("package", ["numpy", "llvmlite"])
def test_a_package_that_cannot_be_imported(tmp_path: Path, package: str) -> None:
    """It is named in words, though nothing of autosched works without it."""
    (tmp_path / f"{package}.py").write_text("raise ImportError('libfoo.so: cannot open')\n")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"}
    words = [sys.executable, "-P", "-m", "autosched", "doctor", "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert not found["ok"] and package in found["verdict"]
    (finding,) = (each for each in found["findings"] if each["part"] == package)
    assert "libfoo.so: cannot open" in finding["text"]
    assert finding["remedy"] == f"pip install --force-reinstall {package}"


def test_on_a_gpu_the_same_stages_run_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_mixed_handler")
    found = doctor_stages.tried(cuda_target("sm_80"), on_gpu=True)
    assert [finding.part for finding in found] == ["CUDA C" if s == "LLVM" else s for s in STAGES]
    assert {finding.level for finding in found} == {Level.OK}, found


def test_a_cache_that_cannot_be_written_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "new"))
    assert doctor_machine._folders().level is Level.OK
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "file" / "below"))
    found = doctor_machine._folders()
    assert found.level is Level.NOTE and "below: Not a directory; set AUTOSCHED" in found.text
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    found = doctor_machine._folders()
    assert found.level is Level.NOTE and "set AUTOSCHED_CACHE" in found.remedy
    assert not (tmp_path / "new").exists()


def test_a_container_that_may_use_half_a_core_is_noted() -> None:
    (found,) = doctor_machine._quota(4, 0.5)
    assert (found.level, found.text) == (Level.NOTE, "this container may use 0.5 of 4 cores")
    (found,) = doctor_machine._quota(64, 2.5)
    text = "this container may use 2.5 of 64 cores: kernels have 2 threads"
    assert (found.level, found.text) == (Level.OK, text)
    assert doctor_machine._quota(4, 4.0) == []
    assert doctor_machine._quota(4, math.inf) == []
