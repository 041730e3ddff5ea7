"""The cost model of a run and everything it learns from: measured programs of every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.cost_model import CostModel, Scores, consensus, numbers_of
from autosched.search.learned import MOST, learned_from

_MOST_ASKED = 8192
_NEW = 16  # the model is trained again when one in so many of a task's programs is new


class Learner:
    """One model for all tasks of a run, trained again when enough programs were added.

    Between trainings the opinions about a program are cached, by the identity of its rows.

    A program's target is its throughput relative to the best of its task. Failed programs are
    left out: a program weighs as much as its throughput, and theirs is 0.
    """

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._tasks: dict[str, list[tuple[FeatureRows, float]]] = {}
        self._new: Counter[str] = Counter()  # programs of each task since the last training
        self._asked: dict[int, tuple[FeatureRows, Scores]] = {}  # cached opinions, by id of rows

    @property
    def trained(self) -> bool:
        """Whether the model is trained."""
        return self.model.trained

    def add(self, task: str, rows: Sequence[FeatureRows | None], costs: Sequence[float]) -> None:
        """Add programs of the task with the key `task`.

        Costs are in seconds per call, infinity for a failure.
        """
        known = self._tasks.setdefault(task, [])
        for program, cost in zip(rows, costs, strict=True):
            if program is not None and np.isfinite(cost):
                known.append((program, cost))
                self._new[task] += 1

    def refresh(self, at_last: bool = False) -> None:
        """Train on all programs, or on a sample where a task has many (`learned_from`).

        Does nothing until enough was added since the last time: after 512 programs a few batches
        more change little, and training takes half a second. With `at_last`, anything new is
        enough.
        """
        enough = bool(self._new) if at_last else self._enough_new()
        if not enough or sum(map(len, self._tasks.values())) < 2:
            return
        self._new.clear()
        self._asked.clear()
        programs: list[FeatureRows] = []
        throughputs: list[float] = []
        for known in self._tasks.values():
            least = min((cost for _, cost in known), default=0.0)
            chosen = [known[k] for k in learned_from([cost for _, cost in known])]
            programs += [program for program, _ in chosen]
            throughputs += [least / cost for _, cost in chosen]
        self.model.fit(programs, throughputs)

    def _enough_new(self) -> bool:
        """Whether one in _NEW of the programs that some task is learned from is new."""
        counts = {task: min(len(self._tasks[task]), MOST) for task in self._new}
        return any(_NEW * new >= counts[task] for task, new in self._new.items())

    def opinions(self, rows: Sequence[FeatureRows | None]) -> Scores:
        """The score that each member of the model predicts: (programs, members); -inf for None."""
        valid = [k for k, program in enumerate(rows) if program is not None]
        if not valid:
            return np.full((len(rows), 1), -np.inf, np.float32)
        if len(self._asked) > _MOST_ASKED:
            self._asked.clear()
        programs = [program for program in rows if program is not None]
        new = {id(program): program for program in programs if id(program) not in self._asked}
        if new:
            found = self._found(list(new.values()))
            self._asked.update(zip(new, zip(new.values(), found, strict=True), strict=True))
        known = np.array([self._asked[id(program)][1] for program in programs])
        opinions = np.full((len(rows), known.shape[1]), -np.inf, np.float32)
        opinions[valid] = known
        return opinions

    def _found(self, programs: Sequence[FeatureRows]) -> Scores:
        """Ask the model and check its answer: (programs, members).

        Raises ConfigError unless the answer has one row for each program, of numbers from 0 on, or
        -inf for programs that the model takes for illegal.
        """
        answered: object = self.model.opinions(programs)
        where = f"cost model {type(self.model).__name__}: opinions returned"
        members = next((len(known) for _, known in self._asked.values()), None)
        expected = f"expected ({len(programs)}, {members or 'members'})"
        try:
            with np.errstate(over="ignore"):
                found = numbers_of(answered).astype(np.float32)
        except TypeError as error:
            raise ConfigError(
                f"{where} no array of numbers for {len(programs)} programs, {expected}: {error}"
            ) from error
        fits = found.ndim == 2 and len(found) == len(programs) and found.size > 0
        if not fits or members not in (None, found.shape[1]):
            raise ConfigError(
                f"{where} an array of shape {found.shape} for {len(programs)} programs, {expected}"
            )
        wrong = found[~((found >= 0) & (found < np.inf) | (found == -np.inf))]
        if wrong.size:
            raise ConfigError(
                f"{where} {wrong[0]:g}, expected numbers from 0 on, such as throughputs, or -inf "
                "for an illegal program"
            )
        return found

    def scores(self, rows: Sequence[FeatureRows | None]) -> Scores:
        """The score of each program, higher for faster ones; -inf for None."""
        return consensus(self.opinions(rows))
