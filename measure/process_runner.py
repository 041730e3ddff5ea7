"""Measure a batch of artifacts, round-robin, in one process that runs kernels."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import ConfigError, DeviceError, MeasureError
from autosched.measure.halving import fastest, kept
from autosched.measure.interrupt import RunInterrupted, RunLostError
from autosched.measure.memory_needed import require_memory
from autosched.measure.result import Failure, RunResult, lower_quartile
from autosched.measure.run_options import RunOptions, race_options
from autosched.process.worker import NoProcessError, Worker
from autosched.task import Task

_WAKE_SECONDS = 5e-3  # a first call also wakes the worker threads
_STALL_SECONDS = 50e-3  # the longest that others keep a shared core: longer calls are no stall
START_SECONDS = 60.0  # least time for imports and inputs of the task, and for loading a kernel

_ONE_CALL = 1e-9  # seconds; shorter than any call, so that a visit is one call

_REPLACED = ("timeout", "crash", "memory")
_MOST_STOPS = 3  # of this process during one request; then the reply counts
_MOST_STARTS = 3  # processes in a row that may die while they are prepared


@dataclass(slots=True)
class ProcessRunner(ABC):
    """Owns the one process that runs kernels: measurements must not share the cores.

    What that process is asked differs for a CPU and a GPU; the order of a batch and the replacement
    of processes do not.

    `on_result` is called with a candidate's index and its results so far.
    """

    options: RunOptions = field(default_factory=RunOptions)
    _worker: Worker | None = None
    _task: dict[str, Any] | None = None
    _asked: bool = False  # the process was told to prepare the task and has not answered yet
    on_result: Callable[[int, RunResult], None] | None = None

    def start(self, task: Task) -> None:
        """Start the process and let it prepare the task's arrays.

        Raises ConfigError when this machine's memory cannot hold them.
        """
        task_json = task.to_json()
        if self._task is None or self._task["key"] != task_json["key"]:
            require_memory(task, self.options.flush_bytes)
        if self._worker is None:
            self._worker, self._asked = self._started(), False
            self._task = None
        if self._asked or self._task is None or self._task["key"] != task_json["key"]:
            if self._asked and self._task != task_json:
                self._worker.start()
                self._asked = False
            self._task = task_json
            self._make_ready()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _started(self) -> Worker:
        try:
            return self._new_worker()
        except NoProcessError as error:
            raise RunLostError(str(error)) from None

    @abstractmethod
    def _new_worker(self) -> Worker:
        """Start a process. Raises NoProcessError."""

    @abstractmethod
    def _prepare(self) -> None:
        """Let a process get ready for the task. Raises MeasureError."""

    @abstractmethod
    def _call(self, request: tuple[Any, ...], stage: str, timeout: float | None = None) -> Any:
        """Send one request; a process that ended is replaced by a ready one.

        Raises MeasureError, and RunLostError when no process can be made ready.
        """

    @abstractmethod
    def _reference(self) -> None:
        """Let the process compute the reference. Raises MeasureError."""

    def _replaced(self, error: MeasureError) -> bool:
        """Whether the process must be prepared again after this failure."""
        return error.kind in _REPLACED

    def _in_turn(self, batch: Batch, indices: list[int]) -> list[int]:
        """The order in which candidates are visited."""
        return indices

    def _visit(self, batch: Batch, index: int, request: tuple[Any, ...]) -> list[float] | None:
        """Time a candidate: its repeats in seconds per call, or None when it failed."""
        times: list[float] | None = batch.ask(index, request, self.options.timeout)
        return times

    @abstractmethod
    def _begin(self, task: Task) -> None:
        """Called before a batch: forget what was noted of the last one."""

    @abstractmethod
    def _after_first(self, batch: Batch, index: int) -> None:
        """Called after the first call of a candidate that did not fail."""

    @abstractmethod
    def _after_last(self, batch: Batch) -> None:
        """Called after the last visit."""

    def _make_ready(self) -> None:
        """Prepare a fresh process; RunLostError when several in a row die of it."""
        for left in reversed(range(_MOST_STARTS)):
            try:
                self._prepare()
                return
            except RunLostError:
                raise
            except MeasureError as error:
                if not self._replaced(error):  # the task itself is wrong
                    self.close()  # the process holds no task
                    raise
                if not left:
                    self.close()
                    remedy = "see what ends them (memory, an operator?)"
                    if error.kind == "timeout":
                        remedy = (
                            "if imports and the inputs of the task take longer, raise "
                            "measure.reference_timeout_s"
                        )
                    raise RunLostError(
                        f"{_MOST_STARTS} processes in a row did not get ready to run candidates "
                        f"({error}); {remedy}, then continue"
                    ) from None

    @property
    def _ready_seconds(self) -> float:
        """Time limit of imports and the task's inputs, which a user's function may make slowly."""
        return max(START_SECONDS, self.options.reference_limit)

    def _timed(self, request: tuple[Any, ...], limit: float) -> Any:
        """Send a timing request; repeat it if this process was stopped meanwhile (SIGSTOP).

        The calls stood still for that time, too.
        """
        for _ in range(_MOST_STOPS):
            reply = self._call(request, "run", limit)
            if self._worker is None or not self._worker.stood_still:
                break
        return reply

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        """See `Runner.run`."""
        self._begin(task)
        batch = Batch(self, artifacts, best)
        try:
            self.start(task)
            self._round_robin(batch, on_done)
        except KeyboardInterrupt:
            raise RunInterrupted(batch.results()) from None
        except RunLostError as lost:
            raise RunLostError(str(lost), batch.results(), lost.index) from None
        except MeasureError as error:  # from `start`; a candidate's error is its failure
            raise RunLostError(str(error), batch.results()) from None
        return batch.results()

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[RunResult]:
        """See `Runner.together`.

        A call longer than `seconds` is a repeat of its own. With empty caches a visit is a single
        call.
        """
        before = self.options
        if before.flush_bytes:
            seconds = _ONE_CALL
        self.options = race_options(before, visits, seconds)
        try:
            return self.run(task, artifacts)
        finally:
            self.options = before

    def _round_robin(self, batch: Batch, on_done: Callable[[int], None] | None) -> None:
        with unless_lost():  # a fresh process has nothing to drop
            self._call(("drop",), "load")
        total, rounds = len(batch.artifacts), 1 + self.options.visits
        for index in range(total):
            batch.first_run(index)
            if on_done:
                on_done((index + 1) // rounds)
        budget = self.options.min_repeat_ms / 1e3 / self.options.visits
        for visit in range(1, rounds):
            alive = self._in_turn(batch, batch.left(visit - 1))
            for position, index in enumerate(alive, 1):
                batch.visit(index, budget)
                if on_done:
                    on_done(total * (visit * len(alive) + position) // (rounds * len(alive)))
        self._after_last(batch)
        if on_done:
            on_done(total)

    def reference(self, task: Task) -> None:
        """Compute the NumPy reference, which the process keeps for later checks.

        Raises ConfigError, which names the reference, when it fails, does not end in time, ends its
        process, or returns other shapes than the task's.
        """
        self.start(task)
        try:
            self._reference()
        except MeasureError as error:
            name = task.workload.reference_name
            why = f"failed: {error}"
            remedy = "correct it"
            if error.kind == "timeout":
                why = f"took longer than {self.options.reference_limit:g} s"
                remedy = "give it more time (measure.reference_timeout_s), make it faster"
            raise ConfigError(
                f"{name} {why}; {remedy}, or check no results (measure.check: none)"
            ) from None


@contextlib.contextmanager
def unless_lost() -> Iterator[None]:
    """Ignore a failure inside, unless nothing can be run any more (RunLostError)."""
    try:
        yield
    except RunLostError:
        raise
    except MeasureError:
        pass


class Batch:
    """The state of one round-robin: the repeats and the failure of each candidate so far.

    `seconds` and `failures` have one entry per artifact.
    """

    def __init__(
        self, runner: ProcessRunner, artifacts: Sequence[bytes | None], best: float
    ) -> None:
        self.runner = runner
        self.artifacts = artifacts
        self.seconds: list[list[float]] = [[] for _ in artifacts]
        self.failures: list[Failure | None] = [None] * len(artifacts)
        self._best = best
        self._first: dict[int, float] = {}
        self._left: list[int] = []  # candidates still in the race
        self._started = 0  # how many candidates entered the race

    def results(self) -> list[RunResult]:
        """The results so far of each candidate."""
        return list(zip(self.seconds, self.failures, strict=True))

    def first_run(self, index: int) -> None:
        """Load the candidate and call it once."""
        artifact = self.artifacts[index]
        if artifact is None:
            return
        options = self.runner.options
        limit = options.limit(self._best)
        if self.ask(index, ("load", index, artifact), options.timeout) is None:
            return
        first = self.ask(index, ("first", index), limit)
        if first is not None:
            self._first[index] = first  # from now on a new process must load it, too
            self.runner._after_first(self, index)
        if first is not None and not self.failures[index]:
            self._best = min(self._best, first)

    @property
    def valid(self) -> list[int]:
        """The candidates that were called and did not fail."""
        return [i for i in self._first if not self.failures[i]]

    def left(self, visits: int) -> list[int]:
        """The candidates worth another visit after so many `visits`.

        Before the first visit, a candidate whose first call is hopeless keeps that call as its only
        repeat.
        """
        options = self.runner.options
        if not visits:
            slow = options.hopeless * self._best + _WAKE_SECONDS
            for index in self.valid:
                if slow < self._first[index] < _STALL_SECONDS:
                    self._call_again(index)
            self._left = self.valid
            for index in self._left:
                if self._first[index] > slow:
                    self.seconds[index] = [self._first[index]]
                    self._tell(index)
            self._left = [i for i in self._left if self._first[i] <= slow]
            self._started = len(self._left)
            return self._left
        costs = {i: lower_quartile(self.seconds[i]) for i in self._left if not self.failures[i]}
        most = kept(self._started, visits) if options.halving else self._started
        self._left = fastest(costs, most, options.give_up)
        return self._left

    def _call_again(self, index: int) -> None:
        """Call once more, as the first call may have lost its core; the faster call counts."""
        again = self.ask(index, ("first", index), self.runner.options.limit(self._best))
        if again is not None:
            self._first[index] = min(self._first[index], again)

    def visit(self, index: int, budget: float) -> None:
        """Time a candidate (a warm-up, a few repeats), unless a reload made it fail meanwhile."""
        if self.failures[index] is not None:
            return
        options = self.runner.options
        times = self.runner._visit(self, index, ("time", index, budget, options.repeats))
        if times is not None:
            self.seconds[index] += times
            self._tell(index)

    def ask(self, index: int, request: tuple[Any, ...], limit: float) -> Any:
        """Send a request about a candidate. Returns the reply, or None after noting a failure.

        Raises RunLostError.
        """
        try:
            return self.runner._timed(request, limit)
        except RunLostError as lost:
            lost.index = index
            if isinstance(lost.__cause__, MeasureError):  # this candidate cost the device
                cause = lost.__cause__
                self.failures[index] = Failure(cause.stage, cause.kind, str(cause))
            raise
        except MeasureError as error:
            message = str(error)
            if error.kind == "timeout" and not isinstance(error, DeviceError):
                why = "measure.timeout_s"
                if limit < self.runner.options.timeout:
                    why = f"{self.runner.options.patience:g} times the best known time"
                ending = message.rpartition("; ")[2]
                message = f"one call took longer than {limit:.3g} s ({why}); {ending}"
            self.failures[index] = Failure(error.stage, error.kind, message)
            self._tell(index)
            if self.runner._replaced(error):
                self._reload()
            return None

    def _tell(self, index: int) -> None:
        if self.runner.on_result is not None:
            self.runner.on_result(index, (self.seconds[index], self.failures[index]))

    def _reload(self) -> None:
        """Load the candidates that had not failed into a fresh process."""
        for index in list(self._first):
            if self.failures[index] is None:
                self.ask(index, ("load", index, self.artifacts[index]), self.runner.options.timeout)
