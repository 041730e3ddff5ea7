"""Running the command line in this process, and a record file to look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import typer.main

from autosched.cli import ahead, app, replay
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.state.steps import Step, steps_from_json
from autosched.task import Task
from kit.cli import Cli, MakeRecord, Outcome

TILED = steps_from_json(
    [
        ["SP", 2, 0, 16, [4], 1],
        ["SP", 2, 2, 16, [8], 1],
        ["RE", 2, [0, 2, 4, 1, 3]],
        ["AN", 2, 0, 3],
        ["AN", 2, 4, 2],
    ]
)


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """typer makes all commands anew for each call of the program, in 12 ms."""
    with mock.patch.object(typer.main, "get_command", cache(typer.main.get_command)):
        yield


@pytest.fixture(scope="session", autouse=True)
def processes_when_needed() -> Iterator[None]:
    """A run that starts four processes ahead costs 1 s: most tests need one of them, or none.

    Those of `test_ahead.py`, and all that start the program itself, have them.
    """
    with mock.patch.object(ahead, "start_ahead", lambda wanted: None):
        yield


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """cli("show", "file", ...) in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(replay, "_THOROUGH", RunOptions(min_repeat_ms=4.0, visits=4))

    def run(*args: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["autosched", *map(str, args)])
        capsys.readouterr()
        status = 0
        try:
            app.run()
        except SystemExit as done:
            assert done.code is None or isinstance(done.code, int)
            status = done.code or 0
        return Outcome(status, *capsys.readouterr())

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file of the 16x16x16 matmul."""
    path = tmp_path / "mm.yaml"
    path.write_text("workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n")
    return path


@pytest.fixture
def task() -> Task:
    return Task.from_workload("matmul", M=16, N=16, K=16)


@pytest.fixture
def record(task: Task) -> MakeRecord:
    """record(seconds, steps=..., failure=...): one of the 16x16x16 matmul."""

    def make(
        seconds: float = 1e-3, steps: tuple[Step, ...] = TILED, failure: Failure | None = None
    ) -> Record:
        times = () if failure else (seconds,)
        return Record(task.to_json(), steps, MeasureResult(times, failure, checked=not failure))

    return make


@pytest.fixture
def log(tmp_path: Path, record: MakeRecord) -> Path:
    """A file of three records: 2 ms without steps, 1 ms tiled, one that failed."""
    path = tmp_path / "mm.jsonl"
    failed = record(failure=Failure("run", "timeout", "one call took longer than 10 s"))
    RecordLog(path).append([record(2e-3, ()), record(), failed])
    return path
