"""Round-robin over a batch: slow candidates get less time, hanging ones are ended."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.control_groups import GroupMemory
from autosched.errors import ConfigError, MeasureError
from autosched.measure import memory_needed
from autosched.measure.build import Builder
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.interrupt import RunLostError
from autosched.measure.measurer import Measurer
from autosched.measure.memory_needed import require_memory
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.process.worker import NoProcessError, Worker
from autosched.target import cpu_target
from autosched.task import Task
from kit.measurer import PATIENT

FAST = RunOptions(timeout=PATIENT, min_repeat_ms=4.0, repeats=2, visits=3)


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=64, N=64, K=64)


@pytest.fixture(scope="module")
def artifact(task: Task) -> bytes:
    builder = Builder(workers=1, timeout=PATIENT)
    try:
        (built,) = builder.build(task, [()])
    finally:
        builder.close()
    assert built.artifact is not None
    return built.artifact


@pytest.fixture
def runner() -> Iterator[CpuRunner]:
    found = CpuRunner(FAST)
    yield found
    found.close()


def test_every_candidate_is_visited(runner: CpuRunner, task: Task, artifact: bytes) -> None:
    # On a disturbed machine one of two alike may look slow: nobody leaves here.
    runner.options = replace(FAST, give_up=1e9, hopeless=1e9, halving=False)
    (one, none, two) = runner.run(task, [artifact, None, artifact])
    assert len(one[0]) == len(two[0]) == FAST.repeats * FAST.visits
    assert one[1] is None and two[1] is None
    assert none == ([], None)


def test_a_hopeless_candidate_keeps_its_first_call(
    runner: CpuRunner, task: Task, artifact: bytes
) -> None:
    # A best time no kernel can have, and no allowance for waking up: everything is hopeless.
    runner.options = replace(FAST, hopeless=-1e9)
    ((seconds, failure),) = runner.run(task, [artifact])
    assert failure is None
    assert len(seconds) == 1


def test_the_limit_of_a_call_is_said(runner: CpuRunner, task: Task, artifact: bytes) -> None:
    runner.start(task)
    runner.options = RunOptions(timeout=1e-9)
    ((seconds, failure),) = runner.run(task, [artifact])
    assert seconds == []
    assert failure is not None
    assert (failure.stage, failure.kind) == ("run", "timeout")
    assert failure.message.startswith("one call took longer than 1e-09 s (measure.timeout_s)")
    runner.options = FAST
    ((seconds, failure),) = runner.run(task, [artifact])
    assert failure is None and seconds


def test_the_comparison_with_numpy_ends_in_time(
    runner: CpuRunner, task: Task, artifact: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = runner.compare_with_numpy(task, artifact)
    assert 1 <= len(theirs) == len(ours) <= 15
    monkeypatch.setattr("autosched.measure.cpu_runner._COMPARE_SECONDS", 0.0)
    theirs, ours = runner.compare_with_numpy(task, artifact)
    assert len(theirs) == len(ours) == 1
    assert theirs[0] > 0 and ours[0] > 0


class Process(Worker):
    """Stands for the process that runs kernels: `calls` of each candidate, in seconds."""

    def __init__(
        self, first: list[float], later: list[float] | None = None, dies: Sequence[int] = ()
    ) -> None:
        self.first, self.later, self.dies = first, later or first, set(dies)
        self.requests: list[tuple[Any, ...]] = []
        self.loaded: set[int] = set()

    def stop(self) -> None:
        pass

    def call(self, request: tuple[Any, ...], timeout: float, stage: str) -> Any:
        self.requests.append(request)
        match request:
            case ("load", index, _):
                self.loaded.add(index)
                return True
            case ("first", index):
                if index in self.dies:
                    self.loaded.clear()
                    raise MeasureError("signal 11", stage="run", kind="crash")
                return self.first[index]
            case ("time", index, _, blocks):
                assert index in self.loaded, f"candidate {index} was not loaded again"
                return [self.later[index]] * blocks
            case ("disturbed",):
                return {1: 3}
        return None


def run_with(
    process: Process, task: Task, **options: Any
) -> tuple[list[tuple[list[float], Failure | None]], list[int]]:
    runner = CpuRunner(RunOptions(**options), process, task.to_json())
    results = runner.run(task, [b""] * len(process.first))
    visits = [r[1] for r in process.requests if r[0] == "time"]
    return results, [visits.count(index) for index in range(len(process.first))]


def test_results_say_how_many_visits_were_disturbed(task: Task) -> None:
    runner = CpuRunner(RunOptions(), Process(first=[1.0, 1.0]), task.to_json())
    measurer = Measurer(runner=runner)
    for _ in range(2):
        results = measurer.together(task, [b"", b""], visits=2, seconds=1.0)
        assert [result.disturbed for result in results] == [0, 3]
    runner.run(task, [])
    written = [result.to_json() for result in results]
    assert ["disturbed" in each for each in written] == [False, True]
    assert [MeasureResult.from_json(each) for each in written] == results


def test_slow_candidates_leave_the_race(task: Task) -> None:
    """At once where they are slow, the slower half after every second visit; none comes back."""
    later = [1.0, 1.3, 1.6, 1.1, 1.2, 1.4]
    results, visits = run_with(Process([1.0] * 6, later), task, give_up=1.5, visits=8)
    assert visits == [8, 2, 1, 8, 4, 2]
    assert [len(seconds) for seconds, _ in results] == [24, 6, 3, 24, 12, 6]
    process = Process([1.0] * 6, later)
    measured = Measurer(runner=CpuRunner(RunOptions(), process, task.to_json()))
    measured.together(task, [b""] * 6, visits=5, seconds=1.0)
    assert [r[0] for r in process.requests].count("time") == 30  # in a race of finalists all stay


def test_a_batch_has_four_visits(task: Task) -> None:
    """Who is left then is known well enough for the race at the end of the run."""
    later = [1.0 + k / 100 for k in range(16)]
    _, visits = run_with(Process([1.0] * 16, later), task)
    assert visits == [4] * 8 + [2] * 8


def test_a_hopeless_candidate_is_not_visited(task: Task) -> None:
    process = Process(first=[1.0, 2.9, 3.2])
    results, visits = run_with(process, task, visits=4, hopeless=3.0, give_up=9.0)
    assert visits == [4, 4, 0]
    assert results[2] == ([3.2], None)


class Stalled(Process):
    """Loses its core during the first call of the second and third candidate."""

    def call(self, request: tuple[Any, ...], timeout: float, stage: str) -> Any:
        again = self.requests.count(request)
        reply = super().call(request, timeout, stage)
        stalled = request in (("first", 1), ("first", 2)) and not again
        return 9e-3 if stalled else reply


def test_one_stall_makes_no_candidate_hopeless(task: Task) -> None:
    """A kernel of 4 us was recorded with 9.3 ms, and left out for good."""
    process = Stalled(first=[1e-6, 2e-6, 8e-3, 40e-3, 60e-3])
    results, visits = run_with(process, task, visits=4, hopeless=3.0, give_up=9.0, halving=False)
    assert visits == [4, 4, 0, 0, 0]
    assert [seconds for seconds, _ in results[2:]] == [[8e-3], [40e-3], [60e-3]]
    assert [process.requests.count(("first", k)) for k in range(5)] == [1, 2, 2, 2, 1]


def test_a_call_during_which_all_was_stopped_is_repeated(task: Task) -> None:
    """Three times at most; both the first call and later ones."""
    process = Stopped(first=[1.0, 1.0], later=[1.0, 2.0])
    results, visits = run_with(process, task, visits=1, repeats=2)
    assert results == [([1.0] * 2, None), ([2.0] * 2, None)]
    assert visits == [2, 2]
    results, visits = run_with(Stopped([1.0], until=99), task, visits=1, repeats=2)
    assert results == [([18.0] * 2, None)]
    assert visits == [3]


class Stopped(Process):
    """Stopped for 17 seconds `until` this many requests of a kind about a candidate were made."""

    def __init__(
        self, first: list[float], later: list[float] | None = None, until: int = 1
    ) -> None:
        super().__init__(first, later)
        self.until, self.stood_still = until, False

    def call(self, request: tuple[Any, ...], timeout: float, stage: str) -> Any:
        reply = super().call(request, timeout, stage)
        times = sum(each[:2] == request[:2] for each in self.requests)
        self.stood_still = request[0] in ("first", "time") and times <= self.until
        if not self.stood_still:
            return reply
        return 17.0 + reply if request[0] == "first" else [17.0 + each for each in reply]


def test_after_a_crash_the_others_are_loaded_into_the_new_process(task: Task) -> None:
    process = Process(first=[1.0, 1.0, 1.0], dies=[1])
    results, visits = run_with(process, task, visits=3)
    assert visits == [3, 0, 3]
    assert results[1][0] == []
    failure = results[1][1]
    assert failure is not None
    assert (failure.stage, failure.kind) == ("run", "crash")
    assert process.requests.count(("task", task.to_json())) == 1  # prepared anew
    assert results[0][1] is results[2][1] is None


class Dying(Worker):
    """Answers; killed at the requests whose numbers are in `deaths`, counted from the first."""

    deaths: set[int]

    def __init__(self, deaths: set[int]) -> None:
        self.deaths, self.asked, self.ready, self.loaded = deaths, 0, False, set[int]()
        self.connection = None  # type: ignore[assignment]

    def stop(self) -> None:
        pass

    def call(self, request: Any, timeout: float, stage: str) -> Any:
        self.asked += 1
        if self.asked - 1 in self.deaths:
            self.ready, self.loaded = False, set()
            raise MeasureError("the process died with signal 9", stage=stage, kind="memory")
        if request[0] == "task":
            self.ready = True
            return None
        assert self.ready, "a process that does not know the task"
        if request[0] == "load":
            self.loaded.add(request[1])
        elif request[0] in ("first", "time"):
            assert request[1] in self.loaded
            return 1e-3 if request[0] == "first" else [1e-3] * FAST.repeats
        return True


@pytest.mark.parametrize("seed", range(40))
def test_deaths_at_any_moment_cost_one_candidate_each(
    task: Task, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a process is prepared after another death, but not three times in a row."""
    rng = np.random.default_rng(seed)
    deaths = set(rng.choice(60, 6, replace=False).tolist())
    while any({k, k + 1, k + 2} <= deaths for k in deaths):
        deaths.remove(max(deaths))
    worker, runner = Dying(deaths), CpuRunner(replace(FAST, halving=False))
    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: worker)
    results = runner.run(task, [b"code"] * 8)
    assert sum(failure is not None for _, failure in results) <= len(deaths)
    for seconds, failure in results:
        if failure is None:
            assert len(seconds) == FAST.repeats * FAST.visits
        else:
            assert (failure.kind, failure.message) == ("memory", "the process died with signal 9")


@pytest.mark.parametrize("deaths", [set[int](), {0}, {0, 1}])
def test_a_process_launched_ahead_is_prepared_once(
    task: Task, deaths: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`start` waits for the answer, and prepares another one when it died meanwhile."""
    worker, runner = Dying(deaths), CpuRunner(FAST)
    asked: list[Any] = []
    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: worker)
    monkeypatch.setattr(worker, "send", asked.append, raising=False)
    monkeypatch.setattr(
        worker, "receive", lambda limit, stage: worker.call(asked[-1], limit, stage), raising=False
    )
    runner.launch(task)
    runner.launch(task)
    assert [request[0] for request in asked] == ["task"]
    results = runner.run(task, [b"code"])
    assert results[0][1] is None
    assert len(asked) == 1


def no_process(before: MeasureError | None = None) -> NoProcessError:
    error = NoProcessError(OSError(11, "Resource temporarily unavailable"))
    error.__cause__ = before
    return error


@pytest.mark.parametrize("before", [MeasureError("late", stage="run", kind="crash"), None])
def test_where_no_process_can_be_started_what_is_known_is_kept(
    task: Task, monkeypatch: pytest.MonkeyPatch, before: MeasureError | None
) -> None:
    """Of the candidate that ended the last one, too."""

    class Last(Dying):
        def call(self, request: Any, timeout: float, stage: str) -> Any:
            if request == ("first", 1):
                raise no_process(before)
            return super().call(request, timeout, stage)

    worker, runner = Last({3}), CpuRunner(FAST)  # the first candidate has failed
    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: worker)
    with pytest.raises(RunLostError, match="Resource temporarily unavailable; see") as lost:
        runner.run(task, [b"code"] * 3)
    assert lost.value.index == 1
    first, second, third = [failure for _, failure in lost.value.results]
    assert first is not None and first.kind == "memory"
    assert second == (before and Failure("run", "crash", "late"))
    assert third is None


def test_a_check_without_a_process_ends_the_run(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: CpuRunner) -> Worker:
        raise no_process()

    monkeypatch.setattr(CpuRunner, "_new_worker", none)
    with pytest.raises(RunLostError, match="cannot start a process"):
        CpuRunner(FAST).check(task, b"code")
    with pytest.raises(RunLostError, match="cannot start a process"):
        CpuRunner(FAST).launch(task)


@pytest.mark.parametrize(("limit", "told"), [(None, "60 s"), (5.0, "60 s"), (200.0, "200 s")])
def test_inputs_have_as_long_as_the_reference(
    task: Task, monkeypatch: pytest.MonkeyPatch, limit: float | None, told: str
) -> None:
    class Slow(Dying):
        def call(self, request: Any, timeout: float, stage: str) -> Any:
            raise MeasureError(f"no answer within {timeout:g} s", stage=stage, kind="timeout")

    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: Slow(set()))
    runner = CpuRunner(RunOptions(reference_timeout=limit))
    with pytest.raises(RunLostError, match=f"no answer within {told}.*reference_timeout_s"):
        runner.run(task, [b"code"])


def test_processes_that_never_get_ready_end_the_run(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, runner = Dying({4, 5, 6, 7}), CpuRunner(FAST)
    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: worker)
    with pytest.raises(RunLostError, match="3 processes in a row did not get ready") as lost:
        runner.run(task, [b"code"] * 8)
    assert len(lost.value.results) == 8


def test_each_of_several_tasks_is_refused_before_one_is_measured(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = Task.from_workload("matmul", M=20_000, N=20_000, K=20_000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**9, 10**9))
    worker, runner = Dying(set()), CpuRunner(FAST)
    monkeypatch.setattr(worker, "send", lambda _: None, raising=False)
    monkeypatch.setattr(CpuRunner, "_new_worker", lambda self: worker)
    runner.launch(task)
    with pytest.raises(ConfigError, match="for its arrays"):
        runner.launch(big)


def test_intermediate_results_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    big = Task.from_expression("T[i, j] = A[i] * A[j]; C[i] = sum(j, T[i, j])", {"A": [40_000]})
    monkeypatch.setattr(resource, "getrlimit", lambda _: (6 * 10**9, 6 * 10**9))
    with pytest.raises(ConfigError, match=r"needs 6.4 GB for its arrays .* only 6 GB are"):
        require_memory(big, 0)


def test_no_more_memory_is_there_than_a_container_has(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.from_workload("add_relu", M=1000, N=1000, target=cpu_target(1))
    limits = [GroupMemory(10**12, 0), GroupMemory(30 * 10**6, 0)]
    monkeypatch.setattr(memory_needed, "group_memory", lambda: limits)
    with pytest.raises(ConfigError, match=r"needs 0.04 GB .* only 0.03 GB are"):
        require_memory(task, 0)
    limits[1] = GroupMemory(10**9, 10**9)  # what others use of it may be given back
    require_memory(task, 0)
