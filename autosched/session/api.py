"""`autosched.tune`: a session as a function call."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import Any, ParamSpec, Protocol

from autosched import arguments
from autosched.display.console import literal_console, tell
from autosched.display.notebook import notebook_display
from autosched.display.progress import make_observer
from autosched.display.task_table import TaskTable, short_names
from autosched.errors import ConfigError, MeasureError
from autosched.measure.records import Record
from autosched.process.interrupt import interrupt_arrived, interrupts_held
from autosched.search.progress import Observer, Progress
from autosched.search.task_scheduler import ScheduleResult
from autosched.session.race import Final
from autosched.session.session import Job, Messages, Session
from autosched.session.settings import TuneSettings
from autosched.session.tuned import Tuned
from autosched.session.yardsticks import Yardsticks
from autosched.task import Task
from autosched.user_warning import warn

Settings = ParamSpec("Settings")


class _Tune(Protocol[Settings]):
    """A function of tasks and settings."""

    def __call__(
        self, task: Task | Sequence[Task], *args: Settings.args, **settings: Settings.kwargs
    ) -> Tuned:
        """Tune the tasks."""


def _with_settings(
    settings: Callable[Settings, TuneSettings],
) -> Callable[[Callable[..., Tuned]], _Tune[Settings]]:
    """Give `tune` the arguments of TuneSettings: to type checkers, `help` and completion."""

    def decorate(function: Callable[..., Tuned]) -> _Tune[Settings]:
        known = inspect.signature(settings).parameters

        def call(
            task: Task | Sequence[Task], *args: Settings.args, **given: Settings.kwargs
        ) -> Tuned:
            for name in given:
                if name not in known:
                    close = difflib.get_close_matches(name, known, 1)
                    hint = f"; did you mean {close[0]!r}?" if close else ""
                    raise TypeError(f"tune() has no argument {name!r}{hint}")
            return function(task, *args, **given)

        own = list(inspect.signature(function).parameters.values())[:1]
        signature = inspect.Signature([*own, *known.values()], return_annotation="Tuned")
        update_wrapper(call, function)
        vars(call)["__signature__"] = signature  # what `help` reads
        return call

    return decorate


@_with_settings(TuneSettings)
def tune(task: Task | Sequence[Task], **settings: Any) -> Tuned:
    """Measure candidates of a task, or of several that share the trials, and return the best.

    Ctrl-C ends the run and loses nothing: the result holds what was measured until then and says
    `interrupted`. Other events (skipped lines of a file, a model that could not be saved) are
    Python warnings. At the end the fastest candidates of each task are raced, and the winner is the
    best: `race` of the result's entries says against which others. Without rivals the best is timed
    once more. `again` has that time, and says whether the recorded one is reliable.

        >>> import autosched
        >>> task = autosched.Task.from_workload("matmul", M=16, N=16, K=16)
        >>> result = autosched.tune(task, trials=4)
        >>> kernel = result.best.build()

    Args:
        task: a Task or a list of them; several are tuned together with one cost model.
        **settings: the attributes of `autosched.TuneSettings`: trials, records, seed,
            time_budget_s, warm_start and others; `help(autosched.TuneSettings)` explains all.

    Raises:
        ConfigError: an argument or a file is wrong.
        MeasureError: no candidate of any task was valid, and the run was not interrupted.
    """
    return run(_tasks(task), TuneSettings(**settings))


def run(tasks: Sequence[Task], settings: TuneSettings) -> Tuned:
    """`tune` with settings that were checked already."""
    options = settings.options()  # shared by all jobs, so that a file of the user's is run once
    jobs = [
        Job(task, options, weight)
        for task, weight in zip(tasks, _weights(settings.weights, len(tasks)), strict=True)
    ]
    messages = Messages(warning=warn, other_file="Give another file for the records")
    session = settings.session(jobs, messages, settings.trials)
    result: ScheduleResult | None = None
    finals: Mapping[str, Final | None] = {}
    known: dict[str, Yardsticks] = {}
    interrupted = False
    with interrupts_held():  # except in the parts of a run that lose nothing then
        try:
            with session, _progress(session, settings) as observer:
                result = session.run(observer)
                if result.failed:
                    warn(f"the run ended early: {result.reason}")
                finals = session.finals(result)
                if settings.compare and not result.failed:
                    known.update(session.compared(result, finals))
                _save_model(session)
        except KeyboardInterrupt:
            result, interrupted = result or session.before(), True
        tuned = Tuned.of(
            result,
            session.record_file,
            interrupted=interrupt_arrived() or interrupted,
            finals=finals,
            known=known,
        )
    if not tuned.interrupted and not any(found.found for found in tuned):
        raise MeasureError("; ".join(found.problem for found in tuned), stage="run")
    return tuned


def shows_progress(settings: TuneSettings) -> Callable[[str], None] | None:
    """A function that shows a line to the user; None if the user is not shown progress."""
    console = literal_console(stderr=True)
    wanted = settings.progress
    if wanted is None:
        wanted = notebook_display() is not None or console.is_terminal
    return partial(tell, console) if wanted else None


@contextmanager
def _progress(session: Session, settings: TuneSettings) -> Iterator[Observer | None]:
    """The observer of the run: the user's, the one that shows progress, or both."""
    console, notebook = literal_console(stderr=True), notebook_display()
    if shows_progress(settings) is None:
        yield settings.observer
        return
    jobs = session.jobs
    names = short_names([job.task.name for job in jobs])
    table = TaskTable([job.task.key for job in jobs], names, [job.weight for job in jobs])
    with make_observer(
        quiet=False,
        trials=session.trials,
        table=table if len(jobs) > 1 else None,
        peak_of=session.measurer.peak,
        time_budget_s=settings.time_budget_s,
        console=console,
        notebook=notebook,
    ) as shown:

        def both(progress: Progress, records: Sequence[Record]) -> None:
            shown(progress, records)
            if settings.observer is not None:
                settings.observer(progress, records)

        yield both


def _save_model(session: Session) -> None:
    try:
        session.save_model()
    except ConfigError as error:  # the results must not be lost because of it
        warn(str(error))


def _tasks(task: Any) -> list[Task]:
    if isinstance(task, Task):
        return [task]
    wanted = 'a Task or a list of them, e.g. Task.from_workload("matmul", M=512, N=512, K=512)'
    if not isinstance(task, list | tuple) or not task:
        raise ConfigError(f"task: expected {wanted}, {arguments.found(task)}")
    for index, each in enumerate(task):
        if not isinstance(each, Task):
            raise ConfigError(f"task[{index}]: expected a Task, {arguments.found(each)}")
    return list(task)


def _weights(weights: Any, tasks: int) -> list[float]:
    if weights is None:
        return [1.0] * tasks
    if not isinstance(weights, list | tuple) or len(weights) != tasks:
        raise ConfigError(
            f"weights: expected a list of {tasks}, one for each task, {arguments.found(weights)}"
        )
    return [arguments.positive(f"weights[{k}]", weight) for k, weight in enumerate(weights)]
