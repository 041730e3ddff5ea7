"""Compute the feature rows of many candidates, on two cores, each candidate once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from autosched.errors import MeasureError, ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.sets import batched_features
from autosched.features.lowering import features_of_steps
from autosched.features.sets import TUNING
from autosched.process.ahead import worker_of
from autosched.process.worker import Handler, NoProcessError, Worker
from autosched.search.pace import Pace
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task
from autosched.user_warning import warn
from autosched.words import told

FACTORY = "autosched.search.featurize:make_handler"  # makes the handler of the second process

Found = TypeVar("Found")
Steps = tuple[Step, ...]
Request = str | tuple[dict[str, Any], str, bool, list[Any]]
AtOnce = tuple[list[FeatureRows | None], list[int]]
"""The rows of each candidate, and the indices of those that must be computed one by one."""
_GREETING = "ready?"
_LEAST_SECONDS = 20.0
_TIMES_OURS = 5.0  # how much longer than this process the helper may take for its half of a list
_WORTH_SENDING = 8  # fewer candidates are computed in this process
_WORTH_REFUSING = 8  # from so many on, limits are checked first: a few microseconds a candidate
_MAX_CACHED = 50_000  # about 200 MB


class Helper:
    """A second process that computes features, for any number of tasks.

    Its imports take about a second. Until it has answered a greeting, this process computes all
    features.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._is_ready = False

    def start(self) -> None:
        """Start the process, unless it runs or no process can be started; returns at once."""
        if self._worker is None:
            with contextlib.suppress(NoProcessError):
                self._worker = worker_of(FACTORY)
                self._worker.send(_GREETING)

    @property
    def ready(self) -> Worker | None:
        """The process, once it has answered the greeting; None before."""
        worker = self._worker
        if worker is not None and not self._is_ready and worker.answers(0.0):
            try:
                worker.receive(0.0, "lower")
                self._is_ready = True
            except MeasureError:  # it could not import, or was killed
                self.close()
        return self._worker if self._is_ready else None

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.stop()
        self._worker, self._is_ready = None, False


def tell_python(text: str) -> None:
    """Issue a Python warning: the default `warning` of a search."""
    warn(text, RuntimeWarning)


class Featurizer:
    """Callable on a list of candidates: the rows of each, or None when it is illegal.

    Half of a large list goes to the helper, which the first such list starts; results do not
    depend on that. A candidate whose features cannot be computed because of a bug in autosched is
    left out like an illegal one; `warning` is called for the first.

    Two functions on lists are optional. `at_once` computes the rows of most candidates faster; it
    is called where it has taken less time so far (`pace.py`). `refused` says which candidates are
    certainly illegal; it is called for large lists. If one of them fails, `warning` is called, and
    from then on all candidates are computed one by one.
    """

    def __init__(
        self,
        extract: Callable[[Steps], FeatureRows],
        task: Task,
        helper: Helper | None = None,
        features: str = TUNING,
        ansor_limits: bool = False,
        warning: Callable[[str], None] = tell_python,
        at_once: Callable[[Sequence[Steps]], AtOnce] | None = None,
        refused: Callable[[Sequence[Steps]], list[bool]] | None = None,
    ) -> None:
        self._extract = extract
        self._at_once = at_once
        self._refused = refused
        self._warning: Callable[[str], None] | None = warning
        self._task = task
        self._settings = features, ansor_limits
        self._cache: dict[Steps, FeatureRows | None] = {}
        # Most candidates come again as the same objects: their ids take no time to hash.
        self._by_id: dict[int, tuple[Steps, FeatureRows | None]] = {}
        self._helper = helper
        self._pace = Pace()

    def __call__(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        """The rows of each candidate; None for an illegal one."""
        if max(len(self._cache), len(self._by_id)) > _MAX_CACHED:
            self._cache.clear()
            self._by_id.clear()
        others = [c for c in candidates if id(c) not in self._by_id]
        if others:
            self._work_out([c for c in dict.fromkeys(others) if c not in self._cache])
            self._by_id.update((id(c), (c, self._cache[c])) for c in others)
        return [self._by_id[id(c)][1] for c in candidates]

    def _work_out(self, new: list[Steps]) -> None:
        """Add the rows of different candidates to the cache."""
        worker = self._helper.ready if self._helper is not None else None
        self._pace.helped = worker is not None
        if self._at_once is not None and self._pace.at_once(len(new)):
            start = time.monotonic()
            none: AtOnce = [None] * len(new), [*range(len(new))]
            rows, rest = self._together(self._at_once, new, none)
            self._pace.note_at_once(len(new), len(new) - len(rest), time.monotonic() - start)
            left = [new[n] for n in rest]
            self._cache.update(zip(new, rows, strict=True))
            for steps in left:
                del self._cache[steps]
            new = left
        if self._refused is not None and len(new) >= _WORTH_REFUSING:
            illegal = self._together(self._refused, new, [False] * len(new))
            self._cache.update((c, None) for c, no in zip(new, illegal, strict=True) if no)
            new = [c for c, no in zip(new, illegal, strict=True) if not no]
        remote: list[Steps] = []
        if self._helper is not None and len(new) >= _WORTH_SENDING:
            self._helper.start()
            if worker is not None:
                new, remote = new[::2], new[1::2]
                self._send(worker, remote)
        start = time.monotonic()
        for steps in new:
            self._cache[steps] = self._one(steps)
        ours = time.monotonic() - start
        if new:
            self._pace.note_one(ours / len(new))
        if worker is not None and remote:
            self._receive(worker, remote, _LEAST_SECONDS + _TIMES_OURS * ours)

    def _together(
        self, work: Callable[[Sequence[Steps]], Found], candidates: Sequence[Steps], nothing: Found
    ) -> Found:
        """Call `work` on all candidates.

        If it fails, return `nothing` and call neither `at_once` nor `refused` again.
        """
        try:
            return work(candidates)
        except Exception as error:  # one by one, the candidates may still work
            self._at_once = self._refused = None
            if self._warning is not None:
                self._warning(
                    f"{self._task.name}: candidates are worked out one by one, which takes longer, "
                    f"because features of many at once could not be worked out ({told(error)}). "
                    "Please report it"
                )
            return nothing

    def _one(self, steps: Steps) -> FeatureRows | None:
        try:
            return self._extract(steps)
        except ScheduleError:
            return None
        except Exception as error:  # a bug that shows on one candidate must not end the run
            if self._warning is not None:
                self._warning(
                    f"{self._task.name}: a candidate was left out, and others may be, because its "
                    f"features could not be worked out ({told(error)}). Please "
                    f"report it with its steps: {json.dumps(steps_to_json(steps))}"
                )
                self._warning = None
            return None

    def _send(self, worker: Worker, candidates: Sequence[Steps]) -> None:
        steps = [steps_to_json(c) for c in candidates]
        worker.send((self._task.to_json(), *self._settings, steps))

    def _receive(self, worker: Worker, candidates: Sequence[Steps], limit: float) -> None:
        assert self._helper is not None
        try:
            rows = worker.receive(limit, "lower")
        except MeasureError:  # the helper hangs, died or failed: compute its share here
            self._helper.close()
            rows = [self._one(c) for c in candidates]
        except BaseException:  # Ctrl-C: a late answer must not be taken for another request's
            self._helper.close()
            raise
        self._cache.update(zip(candidates, rows, strict=True))


def task_featurizer(
    task: Task,
    helper: Helper | None = None,
    features: str = TUNING,
    ansor_limits: bool = False,
    warning: Callable[[str], None] = tell_python,
) -> Featurizer:
    """Make the featurizer of a task: it lowers candidates to the feature set called `features`.

    With `ansor_limits`, shared memory counts as in Ansor (`verify_gpu`).
    """

    def extract(steps: Steps) -> FeatureRows:
        return features_of_steps(task.dag, steps, task.target, features, ansor_limits)

    batched = batched_features(task.dag, task.target, features, ansor_limits)
    refused = batched.refused if task.target.is_gpu else None
    return Featurizer(
        extract, task, helper, features, ansor_limits, warning, batched.at_once, refused
    )


def _give_back(text: str) -> None:
    """The `warning` of the second process: raise, so that the first one computes it and warns."""
    raise MeasureError(text, stage="lower")


def make_handler() -> Handler:
    """Make the handler of the second process.

    It maps (task, feature set, Ansor's limits, [steps]), in JSON values, to a list of rows, and a
    greeting, which is a text, to an empty list.
    """
    tasks: dict[str, Task] = {}

    def handle(request: Request) -> list[FeatureRows | None]:
        if isinstance(request, str):
            return []
        task_json, features, ansor_limits, batch = request
        name = json.dumps(task_json)  # the task's key does not tell apart machines' caches
        task = tasks.get(name)
        if task is None:
            task = tasks[name] = Task.from_json(task_json, trust=True)
        featurize = task_featurizer(task, None, features, ansor_limits, _give_back)
        return featurize([steps_from_json(s) for s in batch])

    return handle
