"""Live progress of a tuning run: a line that moves on a terminal, plain lines elsewhere.

A terminal without cursor movements (TERM=dumb) gets plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from autosched.display.console import literal_console, tell
from autosched.display.notebook import Display, NotebookProgress, Shown
from autosched.display.status_line import Status, status_line
from autosched.display.task_table import TaskTable
from autosched.measure.records import Record
from autosched.search.progress import Observer
from autosched.search.progress import Progress as TuneProgress
from autosched.task import Task
from autosched.words import rate_text, seconds_text

PeakOf = Callable[[Task, float], float | None]
"""The peak of a task: `Measurer.peak`."""


def status_text(progress: TuneProgress, peak: float | None = None) -> str:
    """The state of a run: `best 1.2 ms 220 GFLOP/s (71% of peak), model 0.81, 2 run timeout`."""
    if progress.best is None:
        parts = ["no valid candidate yet"]
    else:
        rate = rate_text(progress.flops_per_second(), peak)
        parts = [f"best {seconds_text(progress.best.result.cost)} {rate}".rstrip()]
    if progress.quality:
        parts.append(f"model {progress.quality[-1].rank_accuracy:.2f}")
    parts += [f"{number} {kind}" for kind, number in progress.failures.most_common()]
    return ", ".join(parts)


class _Screen:
    """The line of the run below the table of its tasks, drawn anew several times a second."""

    def __init__(self, trials: int, table: TaskTable | None, time_budget_s: float | None) -> None:
        self._table = table
        self._status = Status("start", 0, trials)
        self._eta = Eta(trials, time_budget_s)

    def update(self, status: Status, finished: int) -> None:
        """Show `status`; `finished` trials are recorded."""
        self._status = status
        self._eta.update(finished)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._table is not None:
            yield self._table.live(options.max_width)
        status = self._now()
        line = status_line(status, options.max_width, ascii_only=options.ascii_only)
        yield Text(line, no_wrap=True, overflow="crop")

    def shown(self) -> Shown:
        """The current screen for a notebook."""
        return Shown(self._now(), self._table)

    def _now(self) -> Status:
        return replace(self._status, eta=self._eta.seconds())


class Eta:
    """Seconds to go, counted down between the ends of rounds.

    `clock` gives the time in seconds; `time_budget_s` ends the run whatever is left.
    """

    def __init__(
        self,
        trials: int,
        time_budget_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trials = trials
        self._budget = time_budget_s
        self._clock = clock
        self._start = self._last = clock()
        self._finished = 0

    def update(self, finished: int) -> None:
        """`finished` trials are recorded by now."""
        if finished > self._finished:
            self._finished, self._last = finished, self._clock()

    def seconds(self) -> float | None:
        """Seconds to go; None before the end of the first round, unless there is a time budget."""
        now = self._clock()
        limits = []
        if self._finished:
            each = (self._last - self._start) / self._finished
            limits.append(each * (self._trials - self._finished) - (now - self._last))
        if self._budget is not None:
            limits.append(self._budget - (now - self._start))
        return max(0.0, min(limits)) if limits else None


def _phase(progress: TuneProgress) -> str:
    part = progress.part
    return progress.phase if part is None else f"{part.name} {part.done}/{part.total}"


def _under_way(progress: TuneProgress) -> int:
    """The trials of the current round that have run by now; 0 while they are built."""
    part = progress.part
    return part.done if part is not None and part.name == "run" else 0


@contextmanager
def make_observer(
    *,
    quiet: bool,
    trials: int,
    table: TaskTable | None = None,
    peak_of: PeakOf = lambda task, reached: None,
    time_budget_s: float | None = None,
    console: Console | None = None,
    notebook: Display | None = None,
) -> Iterator[Observer]:
    """An observer for tuners: silent, a live line, or a line after every batch.

    `trials` is the number of all tasks together. Several tuners may share it: then `table` has a
    row for each. `peak_of` measures the operations a second that a task could reach at most; it is
    called after the task's first batch, and again if a kernel has `reached` more. Lines go to
    `console` (default: standard error), or to an output of a `notebook`.
    """
    console = console or literal_console(stderr=True)
    told = _Told(trials, table, peak_of)
    if quiet:
        yield lambda progress, records: None
    elif notebook is not None:
        screen = _Screen(trials, table, time_budget_s)
        output = NotebookProgress(notebook, screen.shown())

        def replace_output(progress: TuneProgress, records: Sequence[Record]) -> None:
            screen.update(told.status(progress, records), told.done)
            output.show(screen.shown())

        try:
            yield replace_output
        finally:
            output.flush()
    elif console.is_terminal and not console.is_dumb_terminal:
        screen = _Screen(trials, table, time_budget_s)
        with Live(screen, console=console, transient=True):

            def live(progress: TuneProgress, records: Sequence[Record]) -> None:
                screen.update(told.status(progress, records), told.done)

            yield live
    else:

        def lines(progress: TuneProgress, records: Sequence[Record]) -> None:
            if records:
                tell(console, told.line(progress, records))

        yield lines


class _Told:
    """Collects what the tuners of a run report: progress and peak of each task."""

    def __init__(self, trials: int, table: TaskTable | None, peak_of: PeakOf) -> None:
        self._trials = trials
        self._table = table
        self._peak_of = peak_of
        self._runs: dict[str, TuneProgress] = {} if table is None else table.runs
        self._peaks: dict[str, tuple[float, float | None]] = {}  # by task: reached rate, peak

    @property
    def done(self) -> int:
        """The number of recorded trials of all tasks."""
        return sum(run.done for run in self._runs.values())

    def status(self, progress: TuneProgress, records: Sequence[Record]) -> Status:
        """Note the progress of a tuner; returns the status of the run."""
        name, peak = self._take(progress, records)
        return _status(progress, self.done, self._trials, name, peak)

    def line(self, progress: TuneProgress, records: Sequence[Record]) -> str:
        """As `status`, as a line for a file."""
        name, peak = self._take(progress, records)
        text = status_text(progress, peak)
        prefix = f"{name}: " if name else ""
        return f"[{progress.elapsed:6.1f} s] {self.done}/{self._trials} trials, {prefix}{text}"

    def _take(self, progress: TuneProgress, records: Sequence[Record]) -> tuple[str, float | None]:
        """Note the progress; returns the task's name (empty for the only task) and its peak."""
        key = progress.task.key
        self._runs[key] = progress
        return "" if self._table is None else self._table.name(key), self._peak(progress, records)

    def _peak(self, progress: TuneProgress, records: Sequence[Record]) -> float | None:
        """The peak of a task; None where it is not known, or the best seems to reach more than it.

        It is measured between batches, when the cores are free, and may be too low nevertheless.
        """
        key, reached = progress.task.key, progress.flops_per_second()
        asked, peak = self._peaks.get(key, (0.0, None))
        if key in self._peaks and (peak is None or reached <= max(asked, peak)):
            return peak
        if not records or progress.best is None:
            return None
        peak = self._peak_of(progress.task, reached)
        self._peaks[key] = reached, peak
        return peak


def _status(
    progress: TuneProgress, done: int, trials: int, name: str, peak: float | None
) -> Status:
    best = progress.best
    rate, _, share = rate_text(progress.flops_per_second(), peak).partition(" (")
    return Status(
        _phase(progress),
        min(trials, done + _under_way(progress)),
        trials,
        best="" if best is None else seconds_text(best.result.cost),
        rate=rate,
        peak=share.removesuffix(")"),
        model=f"model {progress.quality[-1].rank_accuracy:.2f}" if progress.quality else "",
        failures=", ".join(f"{n} {kind}" for kind, n in progress.failures.most_common()),
        name=name,
    )
