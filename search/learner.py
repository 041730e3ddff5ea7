"""The cost model of a run and everything it learns from: measured programs of every task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.cost_model import CostModel, Scores, consensus


class Learner:
    """One model for all tasks of a run; trained again when something new was added.

    A program's target is its throughput relative to the best of its task. Failed programs are
    left out: a program weighs as much as its throughput, and theirs is 0.
    """

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._tasks: dict[str, list[tuple[FeatureRows, float]]] = {}
        self._stale = False

    @property
    def trained(self) -> bool:
        """Whether predictions say anything."""
        return self.model.trained

    def add(self, task: str, rows: Sequence[FeatureRows | None], costs: Sequence[float]) -> None:
        """Programs of the task with that key; costs in seconds per call, infinity for a failure."""
        known = self._tasks.setdefault(task, [])
        for program, cost in zip(rows, costs, strict=True):
            if program is not None and np.isfinite(cost):
                known.append((program, cost))
                self._stale = True

    def refresh(self) -> None:
        """Train on everything there is, unless nothing was added since the last time."""
        if not self._stale or sum(map(len, self._tasks.values())) < 2:
            return
        self._stale = False
        programs: list[FeatureRows] = []
        throughputs: list[float] = []
        for known in self._tasks.values():
            least = min((cost for _, cost in known), default=0.0)
            programs += [program for program, _ in known]
            throughputs += [least / cost for _, cost in known]
        self.model.fit(programs, throughputs)

    def opinions(self, rows: Sequence[FeatureRows | None]) -> Scores:
        """What each member of the model expects: (programs, members); -inf for None."""
        valid = [k for k, program in enumerate(rows) if program is not None]
        if not valid:
            return np.full((len(rows), 1), -np.inf, np.float32)
        found = np.asarray(self.model.opinions([p for p in rows if p is not None]), np.float32)
        if found.ndim != 2 or len(found) != len(valid):
            raise ConfigError(
                f"cost model {type(self.model).__name__}: opinions returned an array of shape "
                f"{found.shape} for {len(valid)} programs, expected ({len(valid)}, members)"
            )
        opinions = np.full((len(rows), found.shape[1]), -np.inf, np.float32)
        opinions[valid] = found
        return opinions

    def scores(self, rows: Sequence[FeatureRows | None]) -> Scores:
        """The score of each program, higher for faster ones; -inf for None."""
        return consensus(self.opinions(rows))
