"""Live progress of a tuning run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autosched.cli.console import err, rate_text, seconds_text, warn
from autosched.cli.task_table import TaskTable
from autosched.measure.records import Record
from autosched.search.tuner import Observer
from autosched.search.tuner import Progress as TuneProgress
from autosched.task import Task


def status_text(progress: TuneProgress, peak: float | None = None) -> str:
    """`best 1.2 ms 220 GFLOP/s (71% of peak), model 0.81, 2 run timeout`."""
    if progress.best is None:
        parts = ["no valid candidate yet"]
    else:
        rate = rate_text(progress.flops_per_second(), peak)
        parts = [f"best {seconds_text(progress.best.result.cost)} {rate}".rstrip()]
    if progress.quality:
        parts.append(f"model {progress.quality[-1].rank_accuracy:.2f}")
    parts += [f"{number} {kind}" for kind, number in progress.failures.most_common()]
    return ", ".join(parts)


class _Bar(Progress):
    """A progress bar below the table of the tasks, where there are several."""

    tasks_table: TaskTable | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.tasks_table is not None:
            yield self.tasks_table.live()
        yield from super().get_renderables()


@contextmanager
def make_observer(
    *,
    quiet: bool,
    trials: int,
    table: TaskTable | None = None,
    peak_of: Callable[[Task], float | None] = lambda task: None,
) -> Iterator[Observer]:
    """An observer for tuners: silent, a live bar, or a line after every batch.

    `trials` is the number of all tasks together. Several tuners may share it: then `table` has a
    row for each. `peak_of` measures the operations a second that a task could reach at most; it is
    asked after the task's first batch.
    """
    runs: dict[str, TuneProgress] = {} if table is None else table.runs

    peaks: dict[str, float | None] = {}

    def counted(progress: TuneProgress, records: Sequence[Record]) -> tuple[int, str]:
        """Trials done and status."""
        key = progress.task.key
        runs[key] = progress
        if records and progress.best is not None and key not in peaks:
            peaks[key] = peak_of(progress.task)
        name = "" if table is None else f"{table.name(key)}: "
        return sum(run.done for run in runs.values()), name + status_text(progress, peaks.get(key))

    if quiet:
        yield lambda progress, records: None
    elif err.is_terminal:
        columns = (
            TextColumn("{task.fields[phase]:8}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed}/{task.total} trials", markup=False),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with _Bar(*columns, console=err, transient=True) as bar:
            bar.tasks_table = table
            row = bar.add_task("tune", total=trials, phase="start", status="")

            def live(progress: TuneProgress, records: Sequence[Record]) -> None:
                done, status = counted(progress, records)
                bar.update(row, completed=done, phase=progress.phase, status=status)

            yield live
    else:

        def lines(progress: TuneProgress, records: Sequence[Record]) -> None:
            if records:
                done, status = counted(progress, records)
                warn(f"[{progress.elapsed:6.1f} s] {done}/{trials} trials, {status}")

        yield lines
