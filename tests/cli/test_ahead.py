"""The processes that a tuning run starts ahead: which, when, and that none is left."""

from __future__ import annotations

import pytest

from autosched.cli import ahead
from autosched.measure import build, cpu_runner
from autosched.process import ahead as process_ahead
from autosched.process.ahead import start_ahead, worker_of

BUILDER = (build.FACTORY, build.MEMORY_LIMIT)
WANTED = [BUILDER, (cpu_runner.FACTORY, 0), BUILDER, BUILDER]


class NoProcess:
    """Notes what was started and what ended."""

    made: list[NoProcess] = []

    def __init__(
        self, factory: str, *, memory_limit: int, queue: tuple[int, int] = (-1, 0)
    ) -> None:
        self.kind = factory, memory_limit
        self.queued = queue[0] >= 0
        self.ended = False
        self.made.append(self)

    def stop(self) -> None:
        self.ended = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NoProcess]:
    found: list[NoProcess] = []
    monkeypatch.setattr(NoProcess, "made", found)
    monkeypatch.setattr(process_ahead, "Worker", NoProcess)
    monkeypatch.setattr(ahead, "start_ahead", start_ahead)
    monkeypatch.setattr(ahead, "default_workers", lambda kind: 3)
    return found


def test_those_of_a_run_are_named_as_their_owners_do(started: list[NoProcess]) -> None:
    """Else a run would start its own beside them."""
    with ahead.started_ahead(True):
        assert [worker.kind for worker in started] == WANTED
        assert all(worker.queued for worker in started)
        taken = [worker_of(factory, limit) for factory, limit in WANTED]
        assert len(started) == len(WANTED)
        assert set(map(id, taken)) == set(map(id, started))
    assert not any(worker.ended for worker in started)


def test_what_nobody_takes_ends(started: list[NoProcess]) -> None:
    with ahead.started_ahead(True):
        worker_of(*WANTED[0])
    assert [worker.ended for worker in started] == [False, True, True, True]


def test_none_are_started_where_none_are_wanted(started: list[NoProcess]) -> None:
    with ahead.started_ahead(False):
        assert started == []
