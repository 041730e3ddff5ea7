"""Tune several tasks in one run: each round goes to the task that gains most by it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.standing import best_of
from autosched.process.interrupt import interrupts_taken
from autosched.search.allocation import (
    UNKNOWN_COST,
    AllocationOptions,
    TaskState,
    leave_group,
    next_task,
    objective,
    similarity_tag,
)
from autosched.search.cost_model import make_cost_model
from autosched.search.featurize import Helper, tell_python
from autosched.search.learner import Learner
from autosched.search.progress import Observer, TuneResult
from autosched.search.tuner import (
    ENDING,
    INTERRUPTED,
    Measures,
    TuneOptions,
    Tuner,
    none_within_limits,
)
from autosched.task import Task
from autosched.words import count

_LEFT, _NONE = "no candidates left", "no candidate within the limits of its target"
"""Why a task gets no more rounds: all were measured, or none was ever drawn."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Options of a run over several tasks. The limits hold for all tasks together."""

    trials: int
    batch: int = 16
    seed: int = 0
    time_budget_s: float | None = None
    early_stopping: int | None = None
    allocation: AllocationOptions = field(default_factory=AllocationOptions)


@dataclass(slots=True)
class ScheduleResult:
    """One result per task, in order, and the objective that was minimised.

    By default this is the weighted sum of their best costs in seconds.
    """

    tasks: list[TuneResult]
    objective: float
    interrupted: bool = False
    reason: str = "all trials were used"
    failed: bool = False


class TaskScheduler:
    """Tunes tasks together, with one cost model, one measurer and one record file.

    Every task without a valid earlier record gets a first round; then the strategy decides. A task
    with nothing valid after its first round, or no candidates left, gets no more rounds. Early
    stopping waits until every task has had its first round.
    """

    def __init__(
        self,
        tasks: Sequence[tuple[Task, TuneOptions]],
        options: ScheduleOptions,
        measurer: Measures,
        log: RecordLog | None = None,
        earlier: Mapping[str, Sequence[Record]] | None = None,
        observer: Observer | None = None,
        *,
        weights: Sequence[float] | None = None,
        learner: Learner | None = None,
        helper: Helper | None = None,
        warning: Callable[[str], None] = tell_python,
    ) -> None:
        """`earlier` maps the key of a task to its records; `warning` is passed to the tuners."""
        self._batch = min(options.batch, options.trials // max(1, len(tasks)))
        if self._batch < 1:
            raise ConfigError(
                f"trials: {options.trials} is too few for {len(tasks)} tasks; give at least one "
                "for each"
            )
        if len({o.features for _, o in tasks}) > 1:
            raise ConfigError("tasks that are tuned together need the same feature set")
        keys = [task.key for task, _ in tasks]
        if len(set(keys)) < len(keys):
            raise ConfigError("the same task is given twice; give each once, with a weight")
        if weights is not None and len(weights) != len(tasks):
            raise ConfigError(f"expected {len(tasks)} weights, found {len(weights)}")
        earlier = earlier or {}
        self._options = options
        self._started = time.perf_counter()  # before the tuners start, so that theirs end later
        self._own_helper = helper is None
        self._helper = helper or Helper()
        first = tasks[0][1]
        self.learner = learner or Learner(make_cost_model(first.cost_model, options.seed))
        self.tuners = [
            Tuner(
                task,
                replace(tune_options, time_budget_s=options.time_budget_s),
                measurer,
                log,
                earlier.get(task.key, ()),
                observer,
                learner=self.learner,
                helper=self._helper,
                warning=warning,
            )
            for task, tune_options in tasks
        ]
        self.states = [
            _state_of(task, weight, earlier.get(task.key, ()), self._batch)
            for (task, _), weight in zip(tasks, weights or [1.0] * len(tasks), strict=True)
        ]
        self._rng = np.random.default_rng(options.seed)
        self._since_best = 0
        self._least = self._objective()
        self._ended: Counter[str] = Counter()  # why tasks get no more rounds
        self.done = 0

    def run(self) -> ScheduleResult:
        """Give out rounds until the trials, the time or all tasks are used up."""
        interrupted = failed = False
        try:
            with interrupts_taken():
                for tuner in self.tuners:
                    tuner.begin()
                reason = self._first_rounds() or self._rounds()
        except KeyboardInterrupt:
            reason, interrupted = INTERRUPTED, True
        except ENDING as error:
            if not any(tuner.records for tuner in self.tuners):
                raise
            reason, failed = str(error), True
        finally:
            if self._own_helper:
                self._helper.close()
        for tuner, state in zip(self.tuners, self.states, strict=True):
            if tuner.progress.best is not None:  # an interrupted round may have found it
                state.best_cost = tuner.progress.best.result.cost
        results = [tuner.result(reason, interrupted, failed) for tuner in self.tuners]
        return ScheduleResult(results, self._objective(), interrupted, reason, failed)

    def _first_rounds(self) -> str:
        for index, state in enumerate(self.states):
            stop = self._stop()
            if stop:
                return stop
            if state.rounds == 0:
                self._round(index)
        return ""

    def _rounds(self) -> str:
        index = -1
        while True:
            stop = self._stop()
            if stop:
                return stop
            index = next_task(self.states, self._options.allocation, index, self._rng)
            if index < 0:
                return self._why_none_is_left()
            self._round(index)

    def _round(self, index: int) -> None:
        tuner, state = self.tuners[index], self.states[index]
        before, known = state.best_cost, state.rounds > 0
        records = tuner.step(min(self._batch, self._options.trials - self.done))
        self.done += len(records)
        best = tuner.progress.best
        state.update(best.result.cost if best is not None else UNKNOWN_COST)
        patience = tuner.options.early_stopping
        if not records:
            self._end(state, tuner.why_nothing or (_LEFT if known else _NONE))
        elif best is None:
            self._end(state, "nothing valid in the first round")
        elif patience is not None and tuner.since_best >= patience:
            self._end(state, f"no better candidate in {count(patience, 'trial')}")
        leave_group(state, self.states, self._options.allocation)
        improved = self._improved(state, before)
        self._since_best = tuner.since_best if improved else self._since_best + len(records)

    def _improved(self, state: TaskState, before: float) -> bool:
        """Whether the round of a task whose best cost was `before` lowered the objective.

        The default sum falls with each cost, so costs are compared instead of sums: a task without
        a valid candidate makes the sum 1e10 s, next to which microseconds vanish.
        """
        if self._options.allocation.objective is None or not state.best_cost < before:
            return state.best_cost < before
        last, self._least = self._least, self._objective()
        if before >= UNKNOWN_COST or self._least < last:
            return True
        self._least = last
        return False

    def _objective(self) -> float:
        return objective(self.states, self._options.allocation)

    def _end(self, state: TaskState, why: str) -> None:
        """Give the task no more rounds, and count the reason."""
        if not state.dead:
            self._ended[why] += 1
        state.dead = True

    def _why_none_is_left(self) -> str:
        if list(self._ended) == [_LEFT]:
            return "no task has candidates left"
        if list(self._ended) == [_NONE]:
            return none_within_limits([tuner.progress.task for tuner in self.tuners])
        reasons = ", ".join(f"{number} with {why}" for why, number in self._ended.items())
        return f"no task is left to search: {reasons}"

    def _stop(self) -> str:
        """Why to stop now, or an empty text."""
        options = self._options
        if self.done >= options.trials:
            return "all trials were used"
        budget, patience = options.time_budget_s, options.early_stopping
        if budget is not None and time.perf_counter() - self._started >= budget:
            return f"the time budget of {budget:g} s is used"
        begun = all(state.dead or state.best_cost < UNKNOWN_COST for state in self.states)
        if patience is not None and self._since_best >= patience and begun:
            return f"no improvement in {count(self._since_best, 'trial')}"
        return ""


def _state_of(task: Task, weight: float, earlier: Sequence[Record], batch: int) -> TaskState:
    """The state of a task, restored from its earlier records unless all of them failed."""
    state = TaskState(task.dag.flop_count, weight, similarity_tag(task.dag))
    best = best_of(earlier)
    if best is not None:
        state.rounds = max(1, int(len(earlier) / batch + 0.5))
        state.best_cost = best.result.cost
        state.history = [state.best_cost]
    return state
