"""Building in several processes: results in order, one slow candidate harms no other."""

from multiprocessing import Pipe

import pytest

from autosched.errors import MeasureError
from autosched.measure.build import Builder, _Slot
from autosched.state.steps import SplitStep, steps_to_json
from autosched.task import Task

BATCH = [(SplitStep(2, 0, 16, (k,)),) for k in (1, 2, 4, 8, 16)]


@pytest.fixture(scope="module")
def task():
    return Task.from_workload("matmul", M=16, N=8, K=8)


class Script:
    """Which process got which candidates, and those whose answers wait for others to be done."""

    def __init__(self, waits=None) -> None:
        self.waits = waits or {}
        self.given = []
        self.done = []
        self.held = []

    def release(self) -> None:
        for job, answer in list(self.held):
            if self.waits.get(job, 0) <= len(self.done):
                self.held.remove((job, answer))
                answer()


class Process:
    """Stands for a build process: its artifact is the steps' text."""

    def __init__(self, script) -> None:
        self.script = script
        self.connection, self.other = Pipe()
        self.job = -1

    def send(self, request) -> None:
        _, steps = request
        self.job = [steps_to_json(s) for s in BATCH].index(steps)
        self.script.given.append(self.job)
        job = self.job
        answer = self.script.held.append
        answer((job, lambda: self.other.send((str(job).encode(), 0.5))))
        self.script.release()

    def receive(self, timeout, stage):
        assert timeout == 0.0
        if not self.connection.poll(0):
            raise MeasureError("no answer", stage=stage, kind="timeout")
        reply = self.connection.recv()
        self.script.done.append(self.job)
        self.script.release()
        if reply[0] in (b"1",) and self.script.waits.get("fails"):
            raise MeasureError("no such loop", stage="lower", kind="illegal")
        return reply

    def stop(self) -> None:
        pass


def build(task, script, workers=2, timeout=60.0):
    builder = Builder(workers, timeout, [_Slot(Process(script)) for _ in range(workers)])
    return builder.build(task, BATCH)


def test_results_are_in_the_order_of_the_batch(task) -> None:
    """The first candidate is the last to be done."""
    script = Script({0: 4})
    results = build(task, script)
    assert script.given == [0, 1, 2, 3, 4]
    assert script.done == [1, 2, 3, 4, 0]
    assert [r.artifact for r in results] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(r.failure is None and r.seconds == 0.5 for r in results)


def test_only_the_candidate_that_hangs_fails(task) -> None:
    script = Script({2: 99})
    results = build(task, script, timeout=0.05)
    assert [r.artifact for r in results] == [b"0", b"1", None, b"3", b"4"]
    failure = results[2].failure
    assert (failure.stage, failure.kind) == ("compile", "timeout")
    why = "not built within 0.05 s (measure.build_timeout_s)"
    assert failure.message == f"{why}; the process was ended"


def test_a_refusal_keeps_its_words(task) -> None:
    results = build(task, Script({"fails": True}), workers=1)
    assert [r.artifact is None for r in results] == [False, True, False, False, False]
    failure = results[1].failure
    assert (failure.stage, failure.kind, failure.message) == ("lower", "illegal", "no such loop")
