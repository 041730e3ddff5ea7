"""The tuning loop of one task: search, measure, record, learn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from autosched.errors import ConfigError
from autosched.state.steps import Step
from autosched.task import Task
from features.lowering import features_of_steps
from measure.measurer import Measurer
from measure.records import Record, RecordLog
from search.cost_model import CostModel, make_cost_model
from search.featurize import Featurizer
from search.options import SearchOptions
from search.policy import Candidate, SketchPolicy
from search.quality import Quality, prediction_quality


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How long to search and how. `trials` counts measured candidates of this run."""

    trials: int = 64
    batch: int = 16
    seed: int = 0
    time_budget_s: float | None = None
    early_stopping: int | None = None
    cost_model: str = "xgboost"
    search: SearchOptions = field(default_factory=SearchOptions)


@dataclass(slots=True)
class Progress:
    """What an observer sees after every phase and batch."""

    task: Task
    trials: int
    done: int = 0
    valid: int = 0
    round: int = 0
    phase: str = "start"
    best: Record | None = None
    failures: Counter[str] = field(default_factory=Counter)
    quality: list[Quality] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.started

    def flops_per_second(self, record: Record | None = None) -> float:
        """Of `record` or the best; 0 when there is none."""
        record = record or self.best
        return self.task.dag.flop_count / record.result.cost if record is not None else 0.0


class Observer(Protocol):
    """Told of every change; `records` are the ones just written, if any."""

    def __call__(self, progress: Progress, records: Sequence[Record]) -> None: ...


@dataclass(slots=True)
class TuneResult:
    """What a run found. `best` is the fastest valid record, earlier runs' included."""

    task: Task
    best: Record | None
    records: list[Record]
    progress: Progress
    interrupted: bool = False
    reason: str = "all trials were used"


class Tuner:
    """Tunes one task; `run` may be interrupted (KeyboardInterrupt) and loses nothing."""

    def __init__(
        self,
        task: Task,
        options: TuneOptions,
        measurer: Measurer,
        log: RecordLog | None = None,
        earlier: Sequence[Record] = (),
        observer: Observer | None = None,
    ) -> None:
        if task.target.is_gpu and measurer is not None and task.target.kind != "cpu":
            raise ConfigError(
                "measuring on CUDA needs a GPU runner, which this version does not have; "
                "use --target cpu, or --dry-run to look at CUDA candidates"
            )
        self.options = options
        self._task_json = task.to_json()
        self._measurer = measurer
        self._log = log
        self._observer = observer
        self._records: list[Record] = []
        self._model: CostModel = make_cost_model(options.cost_model, seed=options.seed)
        self._featurizer = Featurizer(
            lambda steps: features_of_steps(task.dag, steps, task.target), task
        )
        self._policy = SketchPolicy(
            task.dag,
            task.target,
            self._model,
            options.search,
            np.random.default_rng(options.seed),
            self._featurizer,
        )
        self.progress = Progress(task, options.trials)
        self._since_best = 0
        self._learn([(r.steps, r.result.cost) for r in earlier])
        for record in earlier:
            self._consider(record)

    def run(self) -> TuneResult:
        """Search until the trials, the time or the space is used up."""
        progress = self.progress
        reason = "all trials were used"
        interrupted = False
        try:
            with self._phase("start"):
                self._measurer.start(progress.task)
            while progress.done < self.options.trials:
                stop = self._out_of_time()
                if stop:
                    reason = stop
                    break
                if not self._round():
                    reason = "the search space holds no more candidates"
                    break
        except KeyboardInterrupt:
            interrupted, reason = True, "interrupted"
        finally:
            self._featurizer.close()
        return TuneResult(
            progress.task, progress.best, self._records, progress, interrupted, reason
        )

    def _out_of_time(self) -> str:
        options = self.options
        if options.time_budget_s is not None and self.progress.elapsed >= options.time_budget_s:
            return f"the time budget of {options.time_budget_s:g} s is used"
        if options.early_stopping is not None and self._since_best >= options.early_stopping:
            return f"no better candidate in {self._since_best} trials"
        return ""

    def _round(self) -> bool:
        """Search, measure and record one batch; False when nothing is left to measure."""
        progress = self.progress
        size = min(self.options.batch, self.options.trials - progress.done)
        with self._phase("search"):
            batch: list[Candidate] = self._policy.next_batch(size)
        if not batch:
            return False
        best = progress.best.result.cost if progress.best is not None else float("inf")
        with self._phase("measure"):
            results = self._measurer.measure(progress.task, [c.steps for c in batch], best)
        quality = prediction_quality([c.predicted for c in batch], [r.cost for r in results])
        records = [
            Record(
                self._task_json,
                candidate.steps,
                result,
                {
                    "seed": self.options.seed,
                    "round": progress.round,
                    "predicted": candidate.predicted,
                    "quality": None if quality is None else quality.to_json(),
                },
            )
            for candidate, result in zip(batch, results, strict=True)
        ]
        if self._log is not None:
            self._log.append(records)
        self._records += records
        progress.round += 1
        progress.done += len(records)
        if quality is not None:
            progress.quality.append(quality)
        for record in records:
            self._count(record)
        with self._phase("learn"):
            self._learn([(r.steps, r.result.cost) for r in records])
        self._tell("batch", records)
        return True

    def _learn(self, measured: list[tuple[tuple[Step, ...], float]]) -> None:
        if measured:
            self._policy.tell([steps for steps, _ in measured], [cost for _, cost in measured])

    def _count(self, record: Record) -> None:
        failure = record.result.failure
        if failure is None:
            self.progress.valid += 1
        else:
            self.progress.failures[f"{failure.stage} {failure.kind}"] += 1
        self._since_best += 1
        self._consider(record)

    def _consider(self, record: Record) -> None:
        best = self.progress.best
        if record.result.valid and (best is None or record.result.cost < best.result.cost):
            self.progress.best = record
            self._since_best = 0

    def _phase(self, name: str) -> _Phase:
        return _Phase(self, name)

    def _tell(self, phase: str, records: Sequence[Record] = ()) -> None:
        self.progress.phase = phase
        if self._observer is not None:
            self._observer(self.progress, records)


class _Phase:
    """Adds the seconds spent inside to the progress, under a name."""

    def __init__(self, tuner: Tuner, name: str) -> None:
        self._tuner = tuner
        self._name = name
        self._start = 0.0

    def __enter__(self) -> None:
        self._tuner._tell(self._name)
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = self._tuner.progress.seconds
        spent = time.perf_counter() - self._start
        seconds[self._name] = seconds.get(self._name, 0.0) + spent
