"""Building candidates: steps in, artifacts out, in worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

import autosched.runtime.cpu  # noqa: F401 - LLVM is loaded before the first candidate comes
from autosched.driver import build_cuda, build_steps
from autosched.errors import MeasureError
from autosched.measure.result import Failure
from autosched.process.ahead import worker_of
from autosched.process.worker import Handler, Worker
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task

FACTORY = "autosched.measure.build:make_handler"  # of what its processes do

MEMORY_LIMIT = 8 << 30  # of each of its processes


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A serialised artifact, or why there is none; `host` is the cluster's node that built it."""

    artifact: bytes | None
    seconds: float
    failure: Failure | None = None
    host: str = ""


def make_handler() -> Handler:
    """The builder's side: (task, steps) as JSON values to the bytes of an artifact."""
    tasks: dict[str, Task] = {}

    def handle(request: tuple[dict[str, Any], list[Any]]) -> tuple[bytes, float]:
        start = time.perf_counter()
        task_json, steps_json = request
        task = tasks.get(task_json["key"])
        if task is None:
            task = tasks[task_json["key"]] = Task.from_json(task_json, trust=True)
        steps = steps_from_json(steps_json)
        if task.target.is_gpu:
            data = build_cuda(task.dag, steps, task.target, task.function_name).to_bytes()
        else:
            data = build_steps(task.dag, steps, task.target, layout=task.layout).to_bytes()
        return data, time.perf_counter() - start

    return handle


@dataclass(slots=True)
class _Slot:
    worker: Worker
    job: int = -1
    started: float = 0.0


@dataclass(slots=True)
class Builder:
    """Builds batches in `workers` processes with `timeout` seconds for each candidate."""

    workers: int = 2
    timeout: float = 15.0
    _slots: list[_Slot] = field(default_factory=list)

    def start(self) -> None:
        """Start the processes ahead of the first batch."""
        while len(self._slots) < self.workers:
            self._slots.append(_Slot(worker_of(FACTORY, MEMORY_LIMIT)))

    def close(self) -> None:
        """End the processes."""
        for slot in self._slots:
            slot.worker.stop()
        self._slots.clear()

    def build(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        on_done: Callable[[int], None] | None = None,
    ) -> list[BuildResult]:
        """One result per candidate, in order. `on_done` is told how many there are so far."""
        self.start()
        task_json = task.to_json()
        results: list[BuildResult | None] = [None] * len(batch)
        todo = list(range(len(batch)))[::-1]
        try:
            while todo or any(slot.job >= 0 for slot in self._slots):
                for slot in self._slots:
                    if slot.job < 0 and todo:
                        slot.job, slot.started = todo.pop(), time.perf_counter()
                        slot.worker.send((task_json, steps_to_json(batch[slot.job])))
                self._collect(results)
                if on_done is not None:
                    on_done(sum(r is not None for r in results))
        except BaseException:  # Ctrl-C: what is under way must not answer a later request
            self.close()
            raise
        return [r for r in results if r is not None]

    def _collect(self, results: list[BuildResult | None]) -> None:
        busy = [slot for slot in self._slots if slot.job >= 0]
        deadline = min(slot.started for slot in busy) + self.timeout
        signs = [sign for slot in busy for sign in slot.worker.signs]
        wait(signs, max(0.0, deadline - time.perf_counter()))
        for slot in busy:
            now = time.perf_counter()
            if not slot.worker.answers(0.0) and now - slot.started < self.timeout:
                continue
            try:
                artifact, seconds = slot.worker.receive(0.0, "compile")
                results[slot.job] = BuildResult(artifact, seconds)
            except MeasureError as error:
                message = str(error)
                if error.kind == "timeout":
                    message = (
                        f"not built within {self.timeout:g} s (measure.build_timeout_s); the "
                        "process was ended"
                    )
                failure = Failure(error.stage, error.kind, message)
                results[slot.job] = BuildResult(None, now - slot.started, failure)
            slot.job = -1
