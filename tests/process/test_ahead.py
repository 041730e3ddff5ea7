"""Processes started ahead are handed out once, wait for their turn to import, and end unused."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from autosched.process import ahead
from autosched.process.ahead import end_ahead, start_ahead, worker_of
from autosched.process.worker import NoProcessError, Worker

LONG = 300.0  # for what must succeed, however busy the machine is
HANDLER = "kit.handlers:make_handler"


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    end_ahead()


def test_each_is_taken_once() -> None:
    start_ahead([(HANDLER, 0)])
    found = [worker_of(HANDLER) for _ in range(2)]
    try:
        pids = [worker.call(("pid",), LONG, "run") for worker in found]
        assert len(set(pids)) == 2
        end_ahead()  # neither is among those that nobody took
        assert [worker.call(("pid",), LONG, "run") for worker in found] == pids
    finally:
        for worker in found:
            worker.stop()


def test_one_with_another_limit_of_memory_is_left() -> None:
    start_ahead([(HANDLER, 1 << 40)])
    found = worker_of(HANDLER)
    found.stop()
    taken = worker_of(HANDLER, 1 << 40)
    end_ahead()
    assert taken.call(("echo", 1), LONG, "run") == 1
    taken.stop()


def no_room(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_no_folder_need_be_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    start_ahead([(HANDLER, 0)])
    assert len(ahead._waiting) == 1


def test_without_a_file_to_lock_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "memfd_create", no_room)
    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    start_ahead([(HANDLER, 0)])
    assert not ahead._waiting


def test_there_are_as_many_as_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_one(*_: object, **settings: Any) -> Worker:
        if ahead._waiting:
            raise NoProcessError(OSError(11, "Resource temporarily unavailable"))
        return Worker(HANDLER, **settings)

    monkeypatch.setattr(ahead, "Worker", only_one)
    start_ahead([(HANDLER, 0)] * 3)
    assert len(ahead._waiting) == 1


def test_it_imports_when_the_one_before_is_ready() -> None:
    with tempfile.TemporaryFile() as queue:
        fcntl.lockf(queue, fcntl.LOCK_EX, 1, 1)
        waiting = Worker(HANDLER, queue=(queue.fileno(), 1))
        other = Worker(HANDLER, queue=(queue.fileno(), 0))  # in the other lane
        waiting.send(("echo", 1))
        assert other.call(("echo", 2), LONG, "run") == 2
        assert not waiting.answers(0.2)
        fcntl.lockf(queue, fcntl.LOCK_UN, 1, 1)
        assert waiting.receive(LONG, "run") == 1
        other.stop()
        waiting.stop()


def test_one_whose_turn_comes_when_nobody_waits_imports_nothing() -> None:
    with tempfile.TemporaryFile() as queue:
        fcntl.lockf(queue, fcntl.LOCK_EX, 1, 0)
        worker = Worker("kit.handlers:missing", queue=(queue.fileno(), 0))
        assert worker._process is not None
        worker.connection.close()  # as when this process had ended
        fcntl.lockf(queue, fcntl.LOCK_UN, 1, 0)
        assert worker._process.wait(LONG) == 0
        worker.stop()
