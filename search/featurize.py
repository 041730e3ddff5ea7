"""Features of many candidates at once, on all cores, each worked out once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import MeasureError, ScheduleError
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task
from features.extract import FeatureRows
from measure.worker import Handler, Worker

Steps = tuple[Step, ...]
_TIMEOUT = 300.0
_WORTH_SENDING = 8  # fewer candidates are worked out here


class Featurizer:
    """Callable on a list of candidates: the rows of each, or None when it is illegal.

    Half of a large list goes to a second process; results do not depend on that. The cache is
    bounded by the run: it holds every candidate once.
    """

    def __init__(self, extract: Callable[[Steps], FeatureRows], task: Task | None) -> None:
        self._extract = extract
        self._task = task
        self._cache: dict[Steps, FeatureRows | None] = {}
        self._worker: Worker | None = None

    def __call__(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        new = [c for c in dict.fromkeys(candidates) if c not in self._cache]
        remote = new[1::2] if self._task is not None and len(new) >= _WORTH_SENDING else []
        local = [c for c in new if c not in set(remote)] if remote else new
        if remote:
            self._send(remote)
        for steps in local:
            self._cache[steps] = self._one(steps)
        if remote:
            self._receive(remote)
        return [self._cache[c] for c in candidates]

    def _one(self, steps: Steps) -> FeatureRows | None:
        try:
            return self._extract(steps)
        except ScheduleError:
            return None

    def _send(self, candidates: Sequence[Steps]) -> None:
        assert self._task is not None
        if self._worker is None:
            self._worker = Worker("search.featurize:make_handler")
        self._worker.send((self._task.to_json(), [steps_to_json(c) for c in candidates]))

    def _receive(self, candidates: Sequence[Steps]) -> None:
        assert self._worker is not None
        try:
            rows = self._worker.receive(_TIMEOUT, "lower")
        except MeasureError:  # the process died: do its share here
            rows = [self._one(c) for c in candidates]
        except BaseException:
            self.close()
            raise
        self._cache.update(zip(candidates, rows, strict=True))

    def close(self) -> None:
        """End the second process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def make_handler() -> Handler:
    """The second process: (task, [steps]) as JSON values to a list of rows."""
    from features.lowering import features_of_steps

    tasks: dict[str, Task] = {}

    def handle(request: tuple[dict[str, Any], list[Any]]) -> list[FeatureRows | None]:
        task_json, batch = request
        task = tasks.setdefault(task_json["key"], Task.from_json(task_json))
        featurizer = Featurizer(lambda s: features_of_steps(task.dag, s, task.target), None)
        return featurizer([steps_from_json(steps) for steps in batch])

    return handle
