"""Build candidates in worker processes: steps in, serialised artifacts out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from statistics import median
from typing import Any

from autosched.candidate import build_candidate, build_cuda_candidate
from autosched.cpu_cores import usable_threads
from autosched.errors import ConfigError, MeasureError
from autosched.measure.interrupt import LOST, RunLostError
from autosched.measure.result import Failure
from autosched.process.ahead import worker_of
from autosched.process.running_clock import LOOK_SECONDS, RunningClock
from autosched.process.worker import Handler, NoProcessError, Worker
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task

FACTORY = "autosched.measure.build:make_handler"  # entry point of a worker process

MEMORY_LIMIT = 8 << 30  # bytes, of each worker process

_MEDIANS, _LEAST_LIMIT = 8, 5.0
"""Time limit of a build for a GPU, in medians of its batch; the least limit, in seconds.

On the host of an H200 the longest build of half of the batches took 0.9 s; two of 416 builds took
15 s, and all others waited for them.
"""

_GIVEN = 3  # jobs queued per worker by `begin`, so that it stays busy until the next call


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A serialised artifact, or the failure that explains why there is none.

    - `seconds`: the time that the build took.
    - `host`: the cluster's node that built it; empty on this machine.
    """

    artifact: bytes | None
    seconds: float
    failure: Failure | None = None
    host: str = ""


def make_handler() -> Handler:
    """The worker's handler: from (task, steps) as JSON to the artifact's bytes and the seconds."""
    # Imported here, before the first candidate comes.
    import autosched.runtime.cpu
    import autosched.transform.pipeline  # noqa: F401

    tasks: dict[str, Task] = {}

    def handle(request: tuple[dict[str, Any], list[Any]]) -> tuple[bytes, float]:
        start = time.perf_counter()
        task_json, steps_json = request
        task = tasks.get(task_json["key"])
        if task is None:
            task = tasks[task_json["key"]] = _task_of(task_json)
        steps = steps_from_json(steps_json)
        if task.target.is_gpu:
            data = build_cuda_candidate(task, steps).to_bytes()
        else:
            data = build_candidate(task, steps).to_bytes()
        return data, time.perf_counter() - start

    return handle


def _task_of(entry: dict[str, Any]) -> Task:
    """The task, its passes loaded. MeasureError (lost) where a user's file has changed since."""
    try:
        task = Task.from_json(entry, trust=True)
        task.lowering.require()
    except ConfigError as error:
        raise MeasureError(str(error), stage="lower", kind=LOST) from error
    return task


def limit_of(timeout: float, built: Sequence[float], number: int) -> float:
    """The time limit in seconds of a GPU build, in a batch of `number` of which some took `built`.

    The limit is `timeout` until half of the batch is built. Then it is lowered, because all other
    candidates wait for a build that takes far longer than those.
    """
    if 2 * len(built) < number:
        return timeout
    return min(timeout, max(_LEAST_LIMIT, _MEDIANS * median(built)))


@dataclass(slots=True, eq=False)
class _Job:
    task: dict[str, Any]
    steps: tuple[Step, ...]
    result: BuildResult | None = None


@dataclass(slots=True)
class _Slot:
    worker: Worker
    jobs: list[_Job] = field(default_factory=list)
    """The jobs that were sent to the worker; the first one is under way."""
    started: float = 0.0
    """When the first job began, by the builder's clock."""


@dataclass(slots=True)
class Builder:
    """Build batches in `workers` processes, with at most `timeout` seconds for each candidate.

    For a GPU the limit is lower for a build that takes far longer than others of its batch
    (`limit_of`). `begin` starts builds ahead of the `build` that asks for them, while this process
    does other work.
    """

    workers: int = 2
    timeout: float = 15.0
    _limit: float = field(init=False)
    _slots: list[_Slot] = field(default_factory=list)
    _waiting: list[_Job] = field(default_factory=list)
    _begun: dict[tuple[str, tuple[Step, ...]], _Job] = field(default_factory=dict)
    _clock: RunningClock = field(default_factory=RunningClock)

    def __post_init__(self) -> None:
        self._limit = self.timeout

    def start(self, jobs: int | None = None) -> None:
        """Start the workers that so many jobs need; None: ahead of the first batch.

        Ahead are started at most as many as there are hardware threads. Raises RunLostError where
        none can be started.
        """
        wanted = max(2, usable_threads()) if jobs is None else jobs
        while len(self._slots) < min(wanted, self.workers):
            try:
                self._slots.append(_Slot(worker_of(FACTORY, MEMORY_LIMIT)))
            except NoProcessError as error:
                raise RunLostError(str(error)) from None

    def close(self) -> None:
        """End the worker processes."""
        for slot in self._slots:
            slot.worker.stop()
        self._slots.clear()
        self._waiting.clear()
        self._begun.clear()

    def begin(self, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
        """Start to build candidates for the next `build`, which asks for them; returns at once.

        Leaves one core to this process. A later call, even with an empty batch, hands out more of
        the candidates that wait. Raises what `build` does.
        """
        task.lowering.require()
        self.start(len(batch))
        entry = task.to_json()
        for steps in batch:
            if (task.key, steps) not in self._begun:
                job = self._begun[task.key, steps] = _Job(entry, steps)
                self._waiting.append(job)
        try:
            self._collect(0.0)
            self._give(self._slots[: max(1, usable_threads() - 1)], _GIVEN)
        except BaseException:  # as in `build`
            self.close()
            raise

    def build(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        on_done: Callable[[int], None] | None = None,
    ) -> list[BuildResult]:
        """Build a batch: one result per candidate, in order. `on_done` is told how many are ready.

        Builds that `begin` started for candidates of other batches are finished or dropped, too.
        Raises ConfigError when a pass that the task asks for is missing, or is not the recorded
        one. Raises RunLostError when a worker cannot make the task, because a user's file was
        edited since this process read it.
        """
        task.lowering.require()
        self.start(len(batch))
        entry = task.to_json()
        begun = [self._begun.pop((task.key, steps), None) for steps in batch]
        jobs = [job or _Job(entry, s) for job, s in zip(begun, batch, strict=True)]
        under_way = [job for slot in self._slots for job in slot.jobs]
        self._waiting = [j for j in jobs if j.result is None and j not in under_way]
        self._begun.clear()
        try:
            while self._waiting or any(slot.jobs for slot in self._slots):
                self._give(self._slots, 1)
                done = [job.result for job in jobs if job.result is not None]
                built = [result.seconds for result in done if result.failure is None]
                if task.target.is_gpu:
                    self._limit = limit_of(self.timeout, built, len(jobs))
                self._collect(self._limit)
                if on_done is not None:
                    on_done(sum(job.result is not None for job in jobs))
        except BaseException:  # Ctrl-C: no answer under way may reach a later request
            self.close()
            raise
        finally:
            self._limit = self.timeout
        return [job.result for job in jobs if job.result is not None]

    def _give(self, slots: Sequence[_Slot], most: int) -> None:
        """Hand out waiting jobs until each of the slots has `most`."""
        for depth in range(most):
            for slot in slots:
                if len(slot.jobs) == depth and self._waiting:
                    job = self._waiting.pop(0)
                    slot.started = slot.started if slot.jobs else self._clock()
                    slot.jobs.append(job)
                    slot.worker.send((job.task, steps_to_json(job.steps)))

    def _collect(self, seconds: float) -> None:
        """Wait at most `seconds` until a worker answers or is late; then take all answers."""
        busy = [slot for slot in self._slots if slot.jobs]
        if not busy:
            return
        late = min(slot.started for slot in busy) + self._limit - self._clock()
        longest = max(0.0, min(seconds, late, LOOK_SECONDS))
        wait([sign for slot in busy for sign in slot.worker.signs], longest)
        for slot in busy:
            while slot.jobs and self._heard(slot):
                pass

    def _heard(self, slot: _Slot) -> bool:
        """Whether the job under way ended: the worker answered, died, or passed the limit."""
        now = self._clock()
        if not slot.worker.answers(0.0) and now - slot.started < self._limit:
            return False
        job, connection = slot.jobs.pop(0), slot.worker.connection
        try:
            job.result = BuildResult(*slot.worker.receive(0.0, "compile"))
        except MeasureError as error:
            message = str(error)
            if error.kind == LOST:
                raise RunLostError(message) from None
            if error.kind == "timeout":
                message = (
                    f"not built within {self.timeout:g} s (measure.build_timeout_s); the "
                    "process was ended"
                    if self._limit == self.timeout
                    else f"not built within {self._limit:.1f} s, far longer than half of its "
                    "batch took; the process was ended"
                )
            failure = Failure(error.stage, error.kind, message)
            job.result = BuildResult(None, now - slot.started, failure)
        if slot.worker.connection is not connection:  # a new process has no other jobs
            self._waiting[:0] = slot.jobs
            slot.jobs.clear()
        slot.started = self._clock()
        return True
