"""Stands in for the second process that computes features, and does the work in this process."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from autosched.features.ansor.rows import FeatureRows
from autosched.process.worker import Worker
from autosched.search.cost_model import XGBoostModel
from autosched.search.featurize import Featurizer, Helper, Steps, make_handler

_ROWS: defaultdict[str, dict[Steps, FeatureRows]] = defaultdict(dict)  # by task and settings


class StubWorker(Worker):
    """A worker without a process, which answers at once."""

    def _begin(self, queue: tuple[int, int]) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def send(self, request: Any) -> None:
        self.reply = make_handler()(request)

    def receive(self, timeout: float, stage: str) -> Any:
        return self.reply


class StubHelper(Helper):
    """A helper without a second process, which is always ready."""

    def start(self) -> None:
        pass

    @property
    def ready(self) -> Worker | None:
        if self._worker is None:
            self._worker = StubWorker("autosched.search.featurize:make_handler")
        return self._worker


def wait_for(helper: Helper, seconds: float = 60.0) -> Worker:
    """The helper's worker, once it is ready."""
    helper.start()
    end = time.monotonic() + seconds
    while (worker := helper.ready) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return worker


def train_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train cost models for 4 rounds instead of 60, where it does not matter what they learn."""
    defaults = XGBoostModel.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "rounds", 4)


def remember_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the feature rows of a candidate once for all tests that only use the rows.

    Tasks with the user's own functions are computed again, because tests may change the functions,
    and so are illegal candidates.
    """
    work_out = Featurizer.__call__

    def known(self: Featurizer, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        task = self._task.to_json()
        if "python" in task["workload"]:
            return work_out(self, candidates)
        rows = _ROWS[json.dumps([task, self._settings])]
        self._cache.update((steps, rows[steps]) for steps in candidates if steps in rows)
        found = work_out(self, candidates)
        rows.update((s, own) for s, own in zip(candidates, found, strict=True) if own is not None)
        return found

    monkeypatch.setattr(Featurizer, "__call__", known)
