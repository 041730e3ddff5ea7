"""One tuning run: its tasks, record file, cost model and processes.

The command line and `autosched.tune` differ in their arguments and in how they show results; all
that happens in between is here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from autosched.errors import ConfigError
from autosched.lost_interrupt import none_lost
from autosched.measure.journal import RunLog
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog, RecordsError
from autosched.measure.run_options import RunOptions
from autosched.measure.standing import best_of
from autosched.output_file import (
    FileKind,
    from_here,
    require_apart,
    require_replaceable,
    takes_records,
)
from autosched.process.interrupt import interrupts_held, interrupts_taken
from autosched.search.allocation import AllocationOptions
from autosched.search.featurize import Helper
from autosched.search.learner import Learner
from autosched.search.objective import objective_of
from autosched.search.progress import Observer, Progress, TuneResult
from autosched.search.task_scheduler import ScheduleOptions, ScheduleResult, TaskScheduler
from autosched.search.tuner import INTERRUPTED, TuneOptions, Tuner
from autosched.search.warm_start import warm_start
from autosched.session.believed import below_peak
from autosched.session.model import Known, ModelOptions, make_learner, save_model
from autosched.session.race import Final, final
from autosched.session.reading import Earlier, earlier_records
from autosched.session.this_cpu import Place, require_runs_here
from autosched.session.yardsticks import Yardsticks, compare, compare_alone
from autosched.target import require_threads
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count


@dataclass(frozen=True, slots=True)
class Job:
    """A task of a session, how it is searched, and its weight among several."""

    task: Task
    options: TuneOptions = field(default_factory=TuneOptions)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How a session builds, runs and checks candidates; see `Measurer.create`."""

    run: RunOptions = field(default_factory=RunOptions)
    workers: int | None = None
    build_timeout_s: float = 15.0
    check: str = "best"
    devices: Sequence[int | str] | str = ()
    share: bool = False
    hosts: str = ""


def _nothing(text: str) -> None:
    """The default callback: ignore the text."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Callbacks for events beside the search: files read and written, and what was wrong.

    `other_file` ends the message that a record file belongs to another task, and says how to give
    another file. `replace` ends the message that a file of another kind is in the way.
    """

    info: Tell = _nothing
    warning: Tell = _nothing
    other_file: str = "Give another file"
    replace: str = "give another file"


class Session:
    """A run of one or several tasks. A context manager that owns all processes of the run.

        session = Session([Job(task, TuneOptions(trials=64))], records=Path("mm.jsonl"))
        with session:
            result = session.run()
            session.save_model()

    One task is tuned by itself; several share the trials, one cost model and one record file. The
    features, batch, seed and time budget of a run are those of its first job. `known` counts the
    earlier records of its tasks, from which it continues.
    """

    learner: Learner
    measurer: Measurer

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        trials: int | None = None,
        allocation: AllocationOptions | None = None,
        records: Path | None = None,
        model: ModelOptions | None = None,
        measure: MeasureOptions | None = None,
        messages: Messages | None = None,
        overwrite: bool = False,
    ) -> None:
        """Read the record file.

        `trials` are those of all tasks together (default: the sum of the jobs'); `allocation` says
        how the tasks share them. With `overwrite` a file of another kind that has the name of the
        record file or of the model to save is replaced. Raises ConfigError when a setting or file
        is wrong.
        """
        tasks = [job.task for job in jobs]
        for task in tasks:
            replace(task.lowering).require()  # checks files as they are now: processes load them
            if not task.target.is_gpu and not (measure and measure.hosts):
                require_threads(f"{task.name}: threads", task.target.threads)
                require_runs_here(task.target)
        for task in tasks[1:]:
            if task.target.kind != tasks[0].target.kind:
                raise ConfigError(
                    f"{task.name}: target {task.target.kind} differs from "
                    f"{tasks[0].target.kind} of {tasks[0].name}; tune them in separate runs"
                )
        self.jobs = tuple(jobs)
        self.trials = trials or sum(job.options.trials for job in jobs)
        self._allocation = allocation or AllocationOptions()
        if self.own_objective:
            self._try_objective()
        self._records = records
        self._model = model or ModelOptions()
        saved = self._model.save
        self._places = records and from_here(records), saved and from_here(saved)
        self._measure = measure or MeasureOptions()
        self._messages = messages or Messages()
        self._overwrite = overwrite
        self._tell_no_gpus()
        self._require_writable()
        self._recover()
        self._earlier = self._read_earlier(self._messages.warning)
        self._open = ExitStack()
        self._written: RecordLog | None = None

    @property
    def record_file(self) -> Path | None:
        """The file that results are written to."""
        return self._records

    @property
    def known(self) -> int:
        """The number of candidates that the run continues from: measured earlier, on this CPU."""
        return self._earlier.known

    @property
    def others(self) -> str:
        """A text about records that the run does not continue from, as of other CPUs or tasks."""
        return self._earlier.others

    @property
    def ended_sooner(self) -> str:
        """A text about candidates of the record file that may be measured again; empty if none."""
        return self._earlier.ended_sooner

    def __enter__(self) -> Session:
        first, options = self.jobs[0], self._measure
        with ExitStack() as stack:
            self._helper = Helper()
            stack.callback(self._helper.close)
            self.measurer = stack.enter_context(
                Measurer.create(
                    workers=options.workers,
                    build_timeout=options.build_timeout_s,
                    options=options.run,
                    check=options.check,
                    target=first.task.target.kind,
                    devices=options.devices,
                    share=options.share,
                    warning=self._messages.warning,
                    hosts=options.hosts,
                )
            )
            with interrupts_taken():
                self._prepare(first, elsewhere=bool(options.hosts))
            self._open = stack.pop_all()
        return self

    def _prepare(self, first: Job, *, elsewhere: bool) -> None:
        """Make the model, meet the machine and read what the records say of it."""
        if not (first.task.target.is_gpu or elsewhere):
            self.measurer.start(first.task)  # while the model is loaded
        self.learner = make_learner(
            self._model,
            first.options.features,
            first.options.seed,
            first.task.target.kind,
            self._helper,
            self._messages.info,
            self._messages.warning,
            Known(self._records, {job.task.key for job in self.jobs}),
        )
        self.measurer.require([job.task.target for job in self.jobs])
        self._meet_gpu()
        self._meet_cluster()
        if self._earlier.elsewhere or self._earlier.otherwise:
            kind, features = first.task.target.kind, first.options.features
            records = (*self._earlier.elsewhere, *self._earlier.otherwise)
            environments = self._earlier.environments
            warm_start(
                self.learner,
                records,
                kind,
                self._helper,
                features,
                environments,
                self._messages.warning,
            )
        self._doubt()

    def _doubt(self) -> None:
        """Leave out earlier records that claim more than can be reached."""
        warning, here = self._messages.warning, {}
        for task in (job.task for job in self.jobs):
            known = self._earlier.here.get(task.key, ())
            here[task.key] = below_peak(task, known, self.measurer, warning)
        self._earlier = replace(self._earlier, here=here)

    def _read_earlier(self, warning: Tell, gpu: str | None = None, cpu: str = "") -> Earlier:
        """Read the earlier records of the tasks.

        `gpu` is the name of this machine's GPU, `cpu` the CPU model of a cluster's nodes, once they
        are known.
        """
        records = self._records
        elsewhere = bool(self._measure.hosts)
        place = Place.of([job.task for job in self.jobs], cpu) if elsewhere else None
        return earlier_records(
            records if records is not None and takes_records(records) else None,
            [job.task for job in self.jobs],
            warning,
            self._messages.other_file,
            self._model.keys,
            self._measure.run,
            gpu,
            place,
        )

    def _meet_gpu(self) -> None:
        """Now that the GPU is known, set apart records of other GPUs."""
        facts = self.measurer.gpu()
        if facts is None:
            return
        self._set_apart(gpu=facts["name"])

    def _meet_cluster(self) -> None:
        """Now that the nodes are known, set apart records of machines unlike them."""
        cluster = self.measurer.cluster
        if cluster is None:
            return
        self._messages.info(f"measuring on {', '.join(m.name for m in cluster.measurers)}")
        self._set_apart(cpu=cluster.model)

    def _set_apart(self, gpu: str | None = None, cpu: str = "") -> None:
        self._earlier = self._read_earlier(_nothing, gpu, cpu)
        if self._earlier.elsewhere:
            self._messages.info(self._earlier.others)

    def __exit__(self, *_: object) -> None:
        with interrupts_held():
            self._open.close()

    def run(self, observer: Observer | None = None) -> ScheduleResult:
        """Tune until the trials, the time or the candidates are used up, or Ctrl-C is pressed.

        Ctrl-C loses nothing: the result holds what there is and says `interrupted`. It says
        `failed` when the record file can no longer be written, or nothing can be measured any more.
        Raises ConfigError when that is so from the start, or a task cannot be measured here.
        """
        with none_lost():
            try:
                return self._one(observer) if len(self.jobs) == 1 else self._several(observer)
            except KeyboardInterrupt:  # before the search began
                return self.before()

    def _one(self, observer: Observer | None) -> ScheduleResult:
        (job,) = self.jobs
        tuner = Tuner(
            job.task,
            replace(job.options, trials=self.trials),
            self.measurer,
            self._log(),
            self._earlier.here.get(job.task.key, ()),
            observer,
            learner=self.learner,
            helper=self._helper,
            warning=self._messages.warning,
        )
        result = tuner.run()
        ended = result.interrupted, result.reason, result.failed
        return ScheduleResult([result], self._objective([result]), *ended)

    def _several(self, observer: Observer | None) -> ScheduleResult:
        first = self.jobs[0].options
        scheduler = TaskScheduler(
            [(job.task, job.options) for job in self.jobs],
            ScheduleOptions(
                trials=self.trials,
                batch=first.batch,
                seed=first.seed,
                time_budget_s=first.time_budget_s,
                allocation=self._allocation,
            ),
            self.measurer,
            self._log(),
            self._earlier.here,
            observer,
            weights=[job.weight for job in self.jobs],
            learner=self.learner,
            helper=self._helper,
            warning=self._messages.warning,
        )
        return scheduler.run()

    def finals(self, result: ScheduleResult) -> dict[str, Final | None]:
        """Race the fastest of each task, unless the run was interrupted or failed; by task key.

        The winners become the best ones of `result`, and of the record file. Ctrl-C ends the races
        only: the tuning is complete, and tasks that were not raced have no entry.
        """
        found: dict[str, Final | None] = {}
        with contextlib.suppress(KeyboardInterrupt), none_lost(), interrupts_taken():
            for each in () if result.interrupted or result.failed else result.tasks:
                if each.best is not None:
                    records = (*self._earlier.here.get(each.task.key, ()), *each.records)
                    start = time.perf_counter()
                    won = final(each.task, self.measurer, each.best, records)
                    seconds = time.perf_counter() - start
                    with interrupts_held():
                        found[each.task.key] = self._keep(won, each, seconds)
        result.objective = self._objective(result.tasks)
        return found

    @property
    def own_objective(self) -> bool:
        """Whether the run minimises a function of the user, not the weighted sum of times."""
        return self._allocation.objective is not None

    def _objective(self, results: Sequence[TuneResult]) -> float:
        """The run's objective for the best costs of all tasks; infinity while a task has none."""
        costs = [each.best.result.cost for each in results if each.best is not None]
        if len(costs) < len(results):
            return inf
        return objective_of(costs, [job.weight for job in self.jobs], self._allocation.objective)

    def _try_objective(self) -> None:
        """Raise ConfigError, before anything is measured, if the objective of the user fails."""
        costs = [1e-3 * (k + 1) for k in range(len(self.jobs))]
        objective_of(costs, [job.weight for job in self.jobs], self._allocation.objective)

    def compared(
        self, result: ScheduleResult, finals: Mapping[str, Final | None]
    ) -> Iterator[tuple[str, Yardsticks]]:
        """Yield the key of each task that was raced, and the comparison of its best.

        A single task is timed in turns with NumPy. Ctrl-C ends the comparisons only.
        """
        for each in result.tasks:
            key, best = each.task.key, each.best
            if best is not None and key in finals:
                hold = compare if len(self.jobs) == 1 else compare_alone
                try:
                    with interrupts_taken():
                        found = hold(each.task, self.measurer, best, finals[key])
                except KeyboardInterrupt:
                    return
                yield key, found

    def _keep(self, won: Final | None, result: TuneResult, seconds: float) -> Final | None:
        """Write the record of a race of `seconds`, and make its winner the best of the task."""
        if won is None or won.race is None:
            return won
        won.best.search["spent"] = {"race": round(seconds, 4)}
        if self._written is not None:
            won = replace(won, best=self._written.stamped(won.best))
            try:
                self._written.append([won.best])
            except RecordsError as error:
                self._messages.warning(f"the winner of the race is not recorded: {error}")
        result.best = result.progress.best = won.best
        return won

    def before(self) -> ScheduleResult:
        """The result of Ctrl-C while the session starts: what was known before the run."""
        results = []
        for job in self.jobs:
            best = best_of(self._earlier.here.get(job.task.key, ()))
            progress = Progress(job.task, job.options.trials, best=best)
            results.append(TuneResult(job.task, best, [], progress, True, INTERRUPTED))
        return ScheduleResult(results, self._objective(results), True, INTERRUPTED)

    def _log(self) -> RecordLog | None:
        """The log of the run. Its journal beside the record file is removed with the session."""
        if self._records is None:
            return None
        cluster = self.measurer.cluster
        log = RunLog(
            self._records,
            place=self._places[0],
            overwrite=self._overwrite,
            beside=self.measurer.environment(),
            seen=self._seen,
            hosts=None if cluster is None else cluster.environments,
        )
        self._open.callback(log.close)
        self._written = log
        return log

    def _tell_no_gpus(self) -> None:
        """Warn of GPUs that are named for tasks of a CPU; a configuration may be for both."""
        target = self.jobs[0].task.target
        if self._measure.devices and not target.is_gpu:
            self._messages.warning(
                f"measure.devices names GPUs, and the target is {target.kind}: nothing is measured "
                "on them"
            )

    def _recover(self) -> None:
        """Take over the results that killed runs left beside the record file."""
        path, self._seen = self._records, 0
        if path is None or not path.is_file() or not takes_records(path):
            return
        found = RunLog(path).recover()
        if found:
            self._messages.info(
                f"{count(found, 'result')} of a run that was killed added to {path}"
            )
        self._seen = path.stat().st_size

    def _require_writable(self) -> None:
        """Raise ConfigError, before anything is measured, if another kind of file would be lost."""
        saved = self._model.save
        require_apart([("the record file", self._records), ("the saved cost model", saved)])
        require_apart(
            [("the saved cost model", saved)],
            [("a file of the warm start", path) for path in self._model.warm_start],
        )
        for path, kind in ((self._records, FileKind.RECORDS), (saved, FileKind.MODEL)):
            if path is not None:
                require_replaceable(path, kind, self._messages.replace, overwrite=self._overwrite)

    def save_model(self) -> None:
        """Write the trained model to the file of the options, if there is one.

        Raises ConfigError when it cannot be written.
        """
        path = self._model.save
        if path is None:
            return
        started = hasattr(self, "learner")  # Ctrl-C may have come before
        with interrupts_held():
            written = started and save_model(
                self.learner,
                replace(self._model, save=self._places[1]),
                self.jobs[0].options.features,
                overwrite=self._overwrite,
            )
        if written:
            self._messages.info(f"cost model saved to {path}")
        else:
            self._messages.warning(f"the cost model was not trained, so {path} was not written")
