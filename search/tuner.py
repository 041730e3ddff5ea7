"""The tuning loop of one task: search, measure, record, learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from autosched.features.sets import TUNING
from autosched.measure.interrupt import MeasureInterrupted, MeasureLostError
from autosched.measure.record_log import RecordLog, RecordsError
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.measure.standing import takes_over
from autosched.process.interrupt import interrupts_held, interrupts_taken
from autosched.search.cost_model import make_cost_model
from autosched.search.featurize import Helper, task_featurizer, tell_python
from autosched.search.learned import learned_from
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.own_policy import Policies, Tools
from autosched.search.own_search import OwnSearch
from autosched.search.policy import Candidate, SketchPolicy
from autosched.search.progress import Observer, Part, Progress, TuneResult
from autosched.search.proposer import Proposer
from autosched.search.ranking_quality import Quality, prediction_quality
from autosched.search.rules.protocol import SketchRule
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task
from autosched.words import count

INTERRUPTED = "interrupted"
_MOST_CLAIMS = 4  # attempts to fill a batch of which other runs take a part
_ROUNDS_AHEAD = 3  # rounds whose samples are drawn at once
_SPACE_IS_EMPTY = "the search space holds no more candidates"
ENDING = (MeasureLostError, RecordsError)  # nothing more can be measured, or written


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How long and how to search.

    `trials` limits the measured candidates of this run. `sketch_rules` are tried before the
    built-in ones. `policy` makes the search of each task; None stands for that of autosched.
    """

    trials: int = 64
    batch: int = 16
    seed: int = 0
    time_budget_s: float | None = None
    early_stopping: int | None = None
    cost_model: str = "xgboost"
    features: str = TUNING
    search: SearchOptions = field(default_factory=SearchOptions)
    sketch_rules: tuple[SketchRule, ...] = ()
    policy: Policies | None = None


class Measures(Protocol):
    """The part of `autosched.measure.measurer.Measurer` that the tuner needs.

    While a batch is measured, `on_known` is called with the index of a candidate and its result.
    """

    on_known: Callable[[int, MeasureResult], None] | None

    def start(self, task: Task) -> None:
        """Start slow preparations ahead of the first batch; need not wait until they are done."""

    def begin(self, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
        """Start building candidates of the next `measure`; returns at once, and is called often."""

    def reference(self, task: Task) -> None:
        """Compute the outputs that candidates are compared with; ConfigError if they are wrong."""

    def measure(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        best: float,
        progress: Callable[[str, int, int], None],
    ) -> list[MeasureResult]:
        """A result for each candidate, in order; `best` is the best cost so far, in seconds.

        `progress` is called with the stage ("build" or "run"), the number of candidates done in it,
        and the number of all.
        """


def none_within_limits(tasks: Sequence[Task]) -> str:
    """The reason why a run ends if no candidate was drawn for any of the tasks."""
    targets = " or ".join(dict.fromkeys(str(task.target) for task in tasks))
    return (
        f"no randomly drawn candidate is within the limits of {targets}; "
        "autosched tune --dry-run says why"
    )


class Tuner:
    """Tunes one task; `run` may be interrupted (KeyboardInterrupt) and loses nothing.

    Ctrl-C while it is made raises KeyboardInterrupt.

    `earlier` are records of the same task: they train the model and are not measured again.
    Several tuners may share a `learner` (one model for all) and a `helper` process; whoever made
    the helper ends it. `warning` is called for bugs of autosched that cost candidates or time, and
    for a space of very many sketches.
    """

    def __init__(
        self,
        task: Task,
        options: TuneOptions,
        measurer: Measures,
        log: RecordLog | None = None,
        earlier: Sequence[Record] = (),
        observer: Observer | None = None,
        *,
        learner: Learner | None = None,
        helper: Helper | None = None,
        warning: Callable[[str], None] = tell_python,
    ) -> None:
        self.options = options
        self.learner = learner or Learner(make_cost_model(options.cost_model, options.seed))
        self.progress = Progress(task, options.trials)
        self.records: list[Record] = []
        self._task_json = task.to_json()
        self._measurer = measurer
        self._log = log
        self._observer = observer
        self._warning = warning
        self._own_helper = helper is None
        self._helper = helper or Helper()
        self._earlier = list(earlier)
        with interrupts_taken():  # sketches and policies of the user may take long
            self._policy = self._proposer(task)
        self._ahead: list[Candidate] = []  # chosen, and not measured yet
        self.since_best = 0
        """Trials of this run since the best one so far."""
        self._built = 0.0  # seconds of measuring in which candidates were built
        self._measuring = 0.0  # when `_built` was last updated
        self._recorded: dict[str, float] = {}  # seconds by phase that are in records already
        self._continues = bool(earlier)
        for record in earlier:
            self._consider(record)

    def _proposer(self, task: Task) -> Proposer:
        options, learner = self.options, self.learner
        space = SearchSpace(task, options.search, options.sketch_rules, self._warning)
        limits = options.search.space == "ansor"
        featurize = task_featurizer(task, self._helper, options.features, limits, self._warning)
        if options.policy is None:
            rng = np.random.default_rng(options.seed)
            return SketchPolicy(space, learner, rng, featurize, task.key)
        # Other draws than in the run that is continued, whose candidates are known.
        seeds = [options.seed, len(self._earlier)] if self._earlier else options.seed
        tools = Tools(task, space, np.random.default_rng(seeds), learner, featurize)
        policy = options.policy.make(tools)
        return OwnSearch(policy, tools, learner, featurize, lambda: bool(self._why_over()))

    @property
    def why_nothing(self) -> str:
        """Why a policy of the user ended the search; empty where the space holds no more."""
        return self._policy.why_nothing

    def run(self) -> TuneResult:
        """Search until the trials, the time or the space is used up."""
        interrupted = failed = False
        try:
            with interrupts_taken():
                reason = self._rounds()
        except KeyboardInterrupt:
            interrupted, reason = True, INTERRUPTED
        except ENDING as error:
            if not self.records:
                raise
            failed, reason = True, str(error)
        finally:
            if self._own_helper:
                self._helper.close()
        return self.result(reason, interrupted, failed)

    def _rounds(self) -> str:
        """Search; returns why the search ended."""
        self.begin(min(self.options.batch, self.options.trials))
        while self.progress.done < self.options.trials:
            stop = self._why_over()
            if stop:
                return stop
            size = min(self.options.batch, self.options.trials - self.progress.done)
            if not self.step(size, _ROUNDS_AHEAD):
                some = self.progress.done or self._continues
                left = _SPACE_IS_EMPTY if some else none_within_limits([self.progress.task])
                return self._why_over() or self.why_nothing or left
        return "all trials were used"

    def begin(self, ahead: int = 0) -> None:
        """Start all processes, learn from the earlier records and compute the reference.

        The first `ahead` candidates of the first `step` are chosen while processes start. Raises
        ConfigError when the log cannot be written or the reference is wrong.
        """
        if self._log is not None:
            self._log.append()
        with self._phase("start"):
            self._measurer.start(self.progress.task)
            self.learner.model.prepare()
        if self._earlier:
            with self._phase("learn"):
                self._learn_earlier()
            self._earlier = []
        if ahead:
            with self._phase("search"):
                self._ahead = self._next_batch(ahead)
                self._begin_building([c.steps for c in self._ahead])
        with self._phase("reference"):
            self._measurer.reference(self.progress.task)

    def _learn_earlier(self) -> None:
        """Learn from the earlier records, or a sample of many; none is measured again."""
        self._policy.skip((r.steps, str(r.search.get("state", ""))) for r in self._earlier)
        chosen = learned_from([record.result.cost for record in self._earlier])
        self._tell_policy([self._earlier[k] for k in chosen])

    def result(self, reason: str, interrupted: bool = False, failed: bool = False) -> TuneResult:
        """The result of the run; stops its clock."""
        progress = self.progress
        progress.finished = time.perf_counter()
        best = progress.best
        return TuneResult(progress.task, best, self.records, progress, interrupted, reason, failed)

    def _why_over(self) -> str:
        options = self.options
        if options.time_budget_s is not None and self.progress.elapsed >= options.time_budget_s:
            return f"the time budget of {options.time_budget_s:g} s is used"
        if options.early_stopping is not None and self.since_best >= options.early_stopping:
            return f"no better candidate in {count(self.since_best, 'trial')}"
        return ""

    def step(self, size: int, ahead: int = 1) -> list[Record]:
        """Search, measure and record one batch of up to `size`; empty when nothing is left.

        While the batch is built, samples are drawn for up to `ahead` rounds, if none are left.
        After Ctrl-C the results so far are recorded before the exception is raised again.
        """
        progress = self.progress
        batch, self._ahead = self._ahead[:size], self._ahead[size:]
        if not batch:
            with self._phase("search"):
                batch = self._next_batch(size)
        if not batch:
            return []
        with self._phase("search"):
            self._draw_ahead(batch, size, ahead)
        best = progress.best.result.cost if progress.best is not None else float("inf")
        try:
            with self._phase("measure"):
                self._measuring = time.perf_counter()
                steps = [c.steps for c in batch]
                self._measurer.on_known = partial(self._note, batch)
                results = self._measurer.measure(progress.task, steps, best, self._tell_part)
        except (MeasureInterrupted, MeasureLostError) as stop:
            with interrupts_held():
                self._record(batch, stop.results, None)
            raise
        with interrupts_held():
            quality = prediction_quality([c.predicted for c in batch], [r.cost for r in results])
            records = self._record(batch, results, quality)
        with self._phase("learn"):
            self._tell_policy(records)
            if progress.done < self.options.trials and self._policy.asks_model:
                self.learner.refresh()
        self._tell("batch", records)
        return records

    def _record(
        self,
        batch: Sequence[Candidate],
        results: Sequence[MeasureResult | None],
        quality: Quality | None,
    ) -> list[Record]:
        """Count the results that exist (not None), and write their records to the log."""
        progress = self.progress
        records = [
            self._record_of(candidate, result, quality)
            for candidate, result in zip(batch, results, strict=True)
            if result is not None
        ]
        if records:
            records[0].search["spent"] = self._spent()
        self.records += records
        progress.round += 1
        progress.done += len(records)
        if quality is not None:
            progress.quality.append(quality)
        for record in records:
            self._count(record)
        if self._log is not None and records:
            self._log.append(records)
        return records

    def _spent(self) -> dict[str, float]:
        """Seconds by phase since the last call; measuring is split into building and running."""
        seconds = dict(self.progress.seconds)
        seconds["run"] = seconds.pop("measure", 0.0) - self._built
        seconds["build"] = self._built
        before, self._recorded = self._recorded, seconds
        return {name: round(s - before.get(name, 0.0), 6) for name, s in seconds.items()}

    def _record_of(
        self, candidate: Candidate, result: MeasureResult, quality: Quality | None = None
    ) -> Record:
        search = {
            "seed": self.options.seed,
            "space": self.options.search.space,
            "round": self.progress.round,
            "state": self._policy.state(candidate.steps),
            "predicted": candidate.predicted,
            "quality": None if quality is None else quality.to_json(),
        }
        if self._policy.name:
            search["policy"] = self._policy.name
        return Record(self._task_json, candidate.steps, result, search)

    def _note(self, batch: Sequence[Candidate], index: int, result: MeasureResult) -> None:
        """Note the result of a candidate in the log at once, in case this process is killed."""
        if self._log is not None:
            self._log.note(self._record_of(batch[index], result))

    def _next_batch(self, size: int) -> list[Candidate]:
        """Up to `size` candidates that no other run on the same record file measures.

        Empty only if the policy has no more.
        """
        batch: list[Candidate] = []
        claims = 0
        while claims < _MOST_CLAIMS or not batch:
            claims += 1
            batch += self._policy.next_batch(size - len(batch), self._begin_building)
            if self._log is None or not batch:
                break
            states = [self._policy.state(candidate.steps) for candidate in batch]
            taken, new = self._log.claim(self._task_json, states)
            self._policy.skip(new)
            if not taken:
                break
            pairs = list(zip(batch, states, strict=True))
            self._policy.skip((c.steps, state) for c, state in pairs)
            batch = [candidate for candidate, state in pairs if state not in taken]
        return batch

    def _draw_ahead(self, batch: Sequence[Candidate], size: int, rounds: int) -> None:
        """Draw samples of the next rounds, of up to `size` each, while the batch is built."""
        self._begin_building([c.steps for c in batch])
        left = self.options.trials - self.progress.done - len(batch)
        if left > 0:
            rounds = min(rounds, -(-left // size))
            self._policy.draw_ahead(min(size, left), rounds, self._begin_building)

    def _begin_building(self, chosen: Sequence[tuple[Step, ...]]) -> None:
        self._measurer.begin(self.progress.task, chosen)

    def _tell_policy(self, records: Sequence[Record]) -> None:
        self._policy.tell([r.steps for r in records], [r.result.cost for r in records])

    def _count(self, record: Record) -> None:
        failure = record.result.failure
        if failure is None:
            self.progress.valid += 1
        else:
            self.progress.failures[f"{failure.stage} {failure.kind}"] += 1
        self.since_best += 1
        self._consider(record)

    def _consider(self, record: Record) -> None:
        best = self.progress.best
        if record.result.valid and takes_over(record, best):
            self.progress.best = record
            self.since_best = 0

    def _phase(self, name: str) -> _Phase:
        return _Phase(self, name)

    def _tell_part(self, name: str, done: int, total: int) -> None:
        self.progress.part = Part(name, done, total)
        now = time.perf_counter()
        if name == "build":
            self._built += now - self._measuring
            self._measuring = now
        if self._observer is not None:
            self._observer(self.progress, ())

    def _tell(self, phase: str, records: Sequence[Record] = ()) -> None:
        self.progress.phase, self.progress.part = phase, None
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
