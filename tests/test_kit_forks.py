"""Copies of a process with its imports done do what a process of its own does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import MeasureError
from autosched.process.worker import NoProcessError, Worker
from kit.forks import ForkedProcess, copies, fresh

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere none is a copy")
HANDLER = "kit.handlers:make_handler"


@pytest.fixture(params=[copies, fresh])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    with request.param():
        found = Worker(HANDLER, environment={"AUTOSCHED_TEST": "7"}, memory_limit=1 << 40)
        yield found
        found.stop()


def test_it_has_what_it_was_given(worker: Worker) -> None:
    def ask(*request: Any) -> Any:
        return worker.call(request, 60, "run")

    assert ask("variable", "AUTOSCHED_TEST") == "7"
    assert ask("variable", "PATH") == os.environ["PATH"]
    assert ask("address limit") == (1 << 40, 1 << 40)
    assert worker._process is not None
    pid = worker._process.pid
    assert ask("pid") == pid == os.getpgid(pid)
    assert Path(f"/proc/{pid}/cwd").resolve() == Path.cwd()
    assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    "request_, how",
    [
        (("says", b"last words", 3), "exit status 3: last words"),
        (("kill",), "signal 11"),
    ],
)
def test_its_end_is_told(worker: Worker, request_: tuple[Any, ...], how: str) -> None:
    first = worker._process
    assert first is not None and first.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0)
    with pytest.raises(MeasureError, match=f"the process died with {how}"):
        worker.call(request_, 60, "run")
    assert first.poll() == first.wait() == (3 if how.startswith("exit") else -11)
    assert worker.call(("echo", 1), 60, "run") == 1


def test_only_copies_are_copies() -> None:
    for make, kind in ((copies, ForkedProcess), (fresh, subprocess.Popen)):
        with make():
            found = Worker(HANDLER)
        assert type(found._process) is kind
        found.stop()


def test_an_interpreter_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with copies(), pytest.raises(NoProcessError):
        Worker(HANDLER)
