"""Measure a batch on the CPU: the round-robin of `process_runner.py`, with all the cores."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import MeasureError
from autosched.measure.check import Seen
from autosched.measure.interrupt import RunLostError
from autosched.measure.memory_needed import require_memory
from autosched.measure.process_runner import START_SECONDS, Batch, ProcessRunner, unless_lost
from autosched.measure.result import Failure
from autosched.process.ahead import worker_of
from autosched.process.worker import NoProcessError, Worker
from autosched.task import Task

FACTORY = "autosched.measure.run:make_handler"  # entry point of the runner process

_CHECK_SECONDS = 10.0  # of a comparison with the reference, added to the time of the call
# Time limit of the comparison with NumPy. Eight of them at once on two cores made a call of
# numpy.matmul take up to 1.8 s instead of 2 ms: 13 of 29 then took more than the minute that ends a
# process.
_COMPARE_SECONDS = 10.0

_TURNS_WITH_NUMPY = 4e-3, 15  # seconds of each turn, and turns


@dataclass(slots=True)
class CpuRunner(ProcessRunner):
    """Owns the one process that runs kernels on this machine's cores."""

    _disturbed: dict[int, int] = field(default_factory=dict)

    def launch(self, task: Task) -> None:
        """Start the process for a task as `start` does, but do not wait until it is ready.

        Raises ConfigError when this machine's memory cannot hold the task's arrays.
        """
        require_memory(task, self.options.flush_bytes)
        if self._worker is not None:
            return
        self._task = task.to_json()
        self._worker, self._asked = self._started(), True
        self._worker.send(("task", self._task))

    @property
    def checks_in_run(self) -> bool:
        """Whether `run` compares every candidate with the reference."""
        return False

    def known_of(self, index: int) -> tuple[Seen | None, dict[str, Any] | None]:
        """What the check saw of a candidate of the last `run`, and its result's `device` entry."""
        return None, None

    def host_of(self, index: int) -> str:
        """Empty: candidates are measured here."""
        return ""

    def disturbed(self, index: int) -> int:
        """The number of disturbed visits of a candidate of the last `run`."""
        return self._disturbed.get(index, 0)

    def _new_worker(self) -> Worker:
        return worker_of(FACTORY)

    def _prepare(self) -> None:
        assert self._worker is not None
        if self._asked:
            self._asked = False
            self._worker.receive(self._ready_seconds, "load")
        else:
            self._worker.call(("task", self._task), self._ready_seconds, "load")
        if self.options.flush_bytes:
            self._worker.call(("flush", self.options.flush_bytes), START_SECONDS, "load")

    def _call(self, request: tuple[Any, ...], stage: str, timeout: float | None = None) -> Any:
        """Send one request; a worker that had to be replaced is prepared again."""
        assert self._worker is not None
        try:
            return self._worker.call(request, timeout or self.options.timeout, stage)
        except NoProcessError as error:
            self.close()
            raise RunLostError(str(error)) from error.__cause__
        except MeasureError as error:
            if self._replaced(error):
                self._make_ready_again(error)
            raise
        except BaseException:  # Ctrl-C: a late answer must not be taken for another request's
            self.close()
            raise

    def _make_ready_again(self, error: MeasureError) -> None:
        """Prepare a new process after a failure that ended the last one.

        Raises RunLostError when that fails, for instance because a user's file was edited since.
        """
        try:
            self._make_ready()
        except RunLostError:
            raise
        except MeasureError as again:
            raise RunLostError(f"a new process cannot run candidates: {again}") from error

    def _begin(self, task: Task) -> None:
        self._disturbed = {}

    def _after_first(self, batch: Batch, index: int) -> None:
        """Nothing: candidates are compared with the reference after the batch."""

    def _after_last(self, batch: Batch) -> None:
        """Ask which visits were disturbed.

        A process that replaced another only knows of its own visits.
        """
        with unless_lost():
            self._disturbed = self._call(("disturbed",), "run") or {}

    def _reference(self) -> None:
        self._call(("reference",), "check", self.options.reference_limit)

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        """Run once and compare the outputs with the reference: the failure, or what was seen.

        Raises RunLostError when no process can be made ready.
        """
        self.start(task)
        try:
            self._reference()
            self._call(("load", 0, artifact), "run")
            limit = self.options.timeout + _CHECK_SECONDS
            return Seen.from_json(self._call(("check", 0), "check", limit))
        except RunLostError:
            raise
        except MeasureError as error:
            return Failure(error.stage, error.kind, str(error))

    def compare_with_numpy(
        self, task: Task, artifact: bytes, plain: bytes | None = None
    ) -> tuple[Sequence[float], Sequence[float]]:
        """Time NumPy's version of the task (or the artifact `plain`) and the artifact, in turns.

        Returns the seconds per call of both, 15 repeats of each, fewer where calls are long. Raises
        MeasureError when not even one repeat ends within a minute, or the process dies.
        """
        self.start(task)
        self._call(("load", 0, artifact), "run", START_SECONDS)
        if plain is not None:
            self._call(("load", 1, plain), "run", START_SECONDS)
        request = ("numpy", 0, plain and 1, *_TURNS_WITH_NUMPY, _COMPARE_SECONDS)
        theirs, ours = self._call(request, "run", START_SECONDS)
        return theirs, ours

    def peak(self, task: Task) -> float | None:
        """Measure the operations per second of the task's threads on numbers in registers.

        None for types that have no such rate, and when measuring fails.
        """
        with contextlib.suppress(MeasureError):
            self.start(task)
            found: float | None = self._call(("peak", output_type(task)), "run", START_SECONDS)
            return found
        return None


def output_type(task: Task) -> str:
    """The name of the element type of the task's last output."""
    return task.tensors[-1].dtype.numpy.name
