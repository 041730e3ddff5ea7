"""What a tuner asks of that which runs candidates: a CPU, GPUs, or the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from autosched.measure.check import Seen
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions
from autosched.task import Task


class Runner(Protocol):
    """Runs built candidates.

    `on_result` is called with a candidate's index and its results so far.
    """

    options: RunOptions
    on_result: Callable[[int, RunResult], None] | None

    def launch(self, task: Task) -> None:
        """Start the processes for a task ahead of the first batch; need not wait for them."""

    def start(self, task: Task) -> None:
        """Start the processes, unless they run, and let them prepare the task's arrays."""

    def reference(self, task: Task) -> None:
        """Compute the NumPy reference, which the processes keep for later checks.

        Raises ConfigError, which names the reference, when it fails, does not end in time, ends its
        process, or returns other shapes than the task's.
        """

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        """Time a batch: raw repeats (seconds per call) and failure of each artifact.

        Artifacts that are None are skipped. `best` is the best known time in seconds per call.
        `on_done` is called with the work done, counted in candidates. Raises RunInterrupted on
        Ctrl-C, and RunLostError when no process can be made ready.
        """
        ...

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[RunResult]:
        """The same as `run`, but in one place, and no candidate is dropped for being slow.

        Each visit takes about `seconds` for up to three repeats of an artifact.
        """
        ...

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        """Run once and compare the outputs with the reference: the failure, or what was seen."""
        ...

    @property
    def checks_in_run(self) -> bool:
        """Whether `run` compares every candidate with the reference."""
        ...

    def known_of(self, index: int) -> tuple[Seen | None, dict[str, Any] | None]:
        """What the check saw of a candidate of the last `run`, and its result's `device` entry."""
        ...

    def disturbed(self, index: int) -> int:
        """The number of disturbed visits of a candidate of the last `run`."""
        ...

    def host_of(self, index: int) -> str:
        """The cluster's node that measured a candidate of the last `run`; empty elsewhere."""
        ...

    def peak(self, task: Task) -> float | None:
        """The operations per second of the task's target on numbers in registers.

        None where there is no such rate, and when measuring fails.
        """
        ...

    def close(self) -> None:
        """End all processes."""
