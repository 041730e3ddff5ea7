"""Building in several processes: results in order, one slow candidate harms no other."""

from __future__ import annotations

import itertools
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError, MeasureError, ScheduleError
from autosched.measure import build as measure_build
from autosched.measure.build import Builder, BuildResult, _Slot, limit_of
from autosched.measure.interrupt import RunLostError
from autosched.measure.measurer import Measurer
from autosched.measure.workers import default_workers
from autosched.process import running_clock
from autosched.process.worker import NoProcessError, Worker
from autosched.state.steps import SplitStep, steps_to_json
from autosched.task import Task
from kit.passes import ONE, TASK

BATCH = [(SplitStep(2, 0, 16, (k,)),) for k in (1, 2, 4, 8, 16)]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=16, N=8, K=8)


@pytest.mark.parametrize(
    ("kind", "threads", "workers"),
    [
        *[("cpu", 1, 2), ("cpu", 6, 6), ("cpu", 64, 8)],
        *[("cuda", 1, 2), ("cuda", 2, 2), ("cuda", 12, 11), ("cuda", 200, 16)],
    ],
)
def test_more_cores_have_more_builders(
    monkeypatch: pytest.MonkeyPatch, kind: str, threads: int, workers: int
) -> None:
    for name in ("usable_cores", "usable_threads"):
        monkeypatch.setattr(f"autosched.measure.workers.{name}", lambda: threads)
    assert default_workers(kind) == workers
    for given in (None, 3):
        measurer = Measurer.create(target=kind, workers=given)
        assert measurer.builder.workers == (given or workers)
        measurer.close()


@pytest.mark.usefixtures("two_cores")
def test_no_more_processes_are_started_than_have_work(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are allowed: a thousand would take minutes to start, and most would idle."""
    made: list[str] = []

    class Started(Exception):
        pass

    class Dummy:
        def __init__(self, factory: str, *_: object) -> None:
            made.append(factory)
            self.connection = None

        def send(self, _: object) -> None:
            raise Started

        def stop(self) -> None:
            pass

    monkeypatch.setattr(measure_build, "worker_of", Dummy)
    builder = Builder(workers=1000)
    builder.start()
    assert len(made) == 2
    for ask in (builder.begin, builder.build):
        made.clear()
        with pytest.raises(Started):
            ask(task, BATCH)
        assert len(made) == (3 if ask == builder.begin else 5)  # the first has two already


def test_where_no_process_can_be_started_the_run_ends(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> Worker:
        raise NoProcessError(OSError(11, "Resource temporarily unavailable"))

    monkeypatch.setattr(measure_build, "worker_of", none)
    with pytest.raises(RunLostError, match="cannot start a process"):
        Builder().start()
    with pytest.raises(RunLostError, match="cannot start a process"):
        Builder().build(task, BATCH)


class Script:
    """Which process got which candidates, and those whose answers wait for others to be done."""

    def __init__(self, waits: dict[int | str, int] | None = None) -> None:
        self.waits = waits or {}
        self.given: list[int] = []
        self.done: list[int] = []
        self.held: list[tuple[int, Process]] = []

    def release(self) -> None:
        for job, process in list(self.held):
            if self.waits.get(job, 0) <= len(self.done) and process.jobs[0] == job:
                self.held.remove((job, process))
                process.other.send((str(job).encode(), 0.5))


class Process(Worker):
    """Stands for a build process: its artifact is the steps' text."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connection, self.other = Pipe()
        self.jobs: list[int] = []

    def send(self, request: Any) -> None:
        _, steps = request
        job = [steps_to_json(s) for s in BATCH].index(steps)
        self.jobs.append(job)
        self.script.given.append(job)
        self.script.held.append((job, self))
        self.script.release()

    @property
    def signs(self) -> list[Any]:
        return [self.connection]

    def answers(self, timeout: float) -> bool:
        return self.connection.poll(timeout)

    def receive(self, timeout: float, stage: str) -> tuple[bytes, float]:
        assert timeout == 0.0
        if not self.connection.poll(0):
            self.start()
            raise MeasureError("no answer", stage=stage, kind="timeout")
        reply = self.connection.recv()
        self.script.done.append(self.jobs.pop(0))
        self.script.release()
        if reply[0] in (b"1",) and self.script.waits.get("fails"):
            raise MeasureError("no such loop", stage="lower", kind="illegal")
        result: tuple[bytes, float] = reply
        return result

    def start(self) -> None:
        """Another process: what the first one was given is lost."""
        self.script.held = [(k, process) for k, process in self.script.held if process is not self]
        self.jobs = []
        self.connection, self.other = Pipe()

    def stop(self) -> None:
        pass


def builder_of(script: Script, workers: int = 2, timeout: float = 60.0) -> Builder:
    return Builder(workers, timeout, [_Slot(Process(script)) for _ in range(workers)])


def build(task: Task, script: Script, workers: int = 2, timeout: float = 60.0) -> list[BuildResult]:
    return builder_of(script, workers, timeout).build(task, BATCH)


def test_results_are_in_the_order_of_the_batch(task: Task) -> None:
    """The first candidate is the last to be done."""
    script = Script({0: 4})
    results = build(task, script)
    assert script.given == [0, 1, 2, 3, 4]
    assert script.done == [1, 2, 3, 4, 0]
    assert [r.artifact for r in results] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(r.failure is None and r.seconds == 0.5 for r in results)


def test_only_the_candidate_that_hangs_fails(task: Task) -> None:
    script = Script({2: 99})
    results = build(task, script, timeout=0.05)
    assert [r.artifact for r in results] == [b"0", b"1", None, b"3", b"4"]
    failure = results[2].failure
    assert failure is not None
    assert (failure.stage, failure.kind) == ("compile", "timeout")
    why = "not built within 0.05 s (measure.build_timeout_s)"
    assert failure.message == f"{why}; the process was ended"


def test_nothing_is_late_because_all_was_stopped(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count(0.0, 100.0)
    monkeypatch.setattr(running_clock, "monotonic", lambda: next(looks))
    results = build(task, Script({0: 4}), timeout=60.0)
    assert [r.artifact for r in results] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_refusal_keeps_its_words(task: Task) -> None:
    results = build(task, Script({"fails": True}), workers=1)
    assert [r.artifact is None for r in results] == [False, True, False, False, False]
    failure = results[1].failure
    assert failure is not None
    assert (failure.stage, failure.kind, failure.message) == ("lower", "illegal", "no such loop")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_cores")
def test_what_was_begun_is_not_built_again(task: Task) -> None:
    """One that hangs takes none along that its process was given; no answer is another's."""
    for script, timeout in ((Script(), 60.0), (Script({0: 99}), 0.05)):
        builder = builder_of(script, timeout=timeout)
        builder.begin(task, BATCH[:3])
        builder.begin(task)
        assert script.given[:3] == [0, 1, 2]
        results = builder.build(task, BATCH[::-1])
        hangs = None if script.waits else b"0"
        assert [r.artifact for r in results] == [b"4", b"3", b"2", b"1", hangs]
        assert sorted(script.done) == [k for k in range(5) if k or hangs]
        assert len(script.given) == (5 if hangs else 7)  # those behind it were given again


@pytest.mark.usefixtures("two_cores")
def test_what_was_begun_in_vain_is_over_when_building_ends(task: Task) -> None:
    """Nothing may run beside what is timed then, and no answer is taken for another's."""
    script = Script({0: 1})
    builder = builder_of(script)
    builder.begin(task, BATCH[:4])
    assert [r.artifact for r in builder.build(task, BATCH[4:])] == [b"4"]
    assert not script.held
    assert 3 not in script.given  # waited still
    assert [r.artifact for r in builder.build(task, BATCH[:2])] == [b"0", b"1"]


def test_nobody_waits_for_what_takes_far_longer() -> None:
    """Of a batch for a GPU: once half are built, eight medians, at least five seconds."""
    assert limit_of(15.0, [0.4] * 7, 16) == 15.0
    assert limit_of(15.0, [0.4] * 8, 16) == 5.0
    assert limit_of(15.0, [0.1, 1.0, 1.2, 9.0], 8) == pytest.approx(8.8)
    assert limit_of(15.0, [4.0] * 16, 16) == 15.0
    assert limit_of(3.0, [0.4] * 16, 16) == 3.0


def test_a_batch_for_a_gpu_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_build, "_LEAST_LIMIT", 0.05)
    monkeypatch.setattr(measure_build, "_MEDIANS", 0.1)
    task = Task.from_workload("matmul", M=16, N=16, K=16, target="cuda")
    results = build(task, Script({2: 99}), timeout=600.0)
    assert [r.artifact for r in results] == [b"0", b"1", None, b"3", b"4"]
    failure = results[2].failure
    assert failure is not None and (failure.stage, failure.kind) == ("compile", "timeout")
    assert "not built within 0.1 s, far longer than half of its batch took" in failure.message


def test_a_pass_that_is_another_one_now_is_told_before_anything_is_built(passes: Path) -> None:
    entry = TASK.with_lowering([ONE]).to_json()
    passes.write_text(passes.read_text().replace("ForKind.SERIAL", "ForKind.UNROLLED"))
    task = Task.from_json(entry, trust=True)
    builder = Builder(1)
    for build in (builder.build, builder.begin):
        with pytest.raises(ConfigError, match="OneThread is not the pass that was recorded"):
            build(task, [()])
    assert not builder._slots


def test_an_error_of_a_pass_is_one_of_lowering(passes: Path) -> None:
    handle = measure_build.make_handler()
    for name in ("Failing", "Broken"):
        task = TASK.with_lowering([f"my_passes.py:{name}"])
        with pytest.raises(ScheduleError, match=rf"^my_passes.py:\d+: {name} "):
            handle((task.to_json(), []))
