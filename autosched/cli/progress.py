"""Live progress of a tuning run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autosched.cli.console import err, rate_text, seconds_text, warn
from measure.records import Record
from search.tuner import Observer
from search.tuner import Progress as TuneProgress


def status_text(progress: TuneProgress) -> str:
    """`best 1.2 ms 220 GFLOP/s, model 0.81, 2 failed`."""
    if progress.best is None:
        parts = ["no valid candidate yet"]
    else:
        rate = rate_text(progress.flops_per_second())
        parts = [f"best {seconds_text(progress.best.result.cost)} {rate}".rstrip()]
    if progress.quality:
        parts.append(f"model {progress.quality[-1].rank_accuracy:.2f}")
    failed = sum(progress.failures.values())
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


@contextmanager
def make_observer(
    *, quiet: bool, trials: int | None = None, names: bool = False
) -> Iterator[Observer]:
    """An observer for tuners: silent, a live bar, or a line after every batch.

    Several tuners may share it: then `trials` is the number of all together, and `names` says
    which task a status is of.
    """
    runs: dict[str, TuneProgress] = {}

    def counted(progress: TuneProgress) -> tuple[int, int, str]:
        """Trials done, trials wanted, status."""
        runs[progress.task.key] = progress
        text = status_text(progress)
        done = sum(run.done for run in runs.values())
        return done, trials or progress.trials, f"{progress.task.name}: {text}" if names else text

    if quiet:
        yield lambda progress, records: None
    elif err.is_terminal:
        columns = (
            TextColumn("{task.fields[phase]:8}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} trials"),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err, transient=True) as bar:
            row = bar.add_task("tune", total=None, phase="", status="")

            def live(progress: TuneProgress, records: Sequence[Record]) -> None:
                done, total, status = counted(progress)
                bar.update(row, total=total, completed=done, phase=progress.phase, status=status)

            yield live
    else:

        def lines(progress: TuneProgress, records: Sequence[Record]) -> None:
            if records:
                done, total, status = counted(progress)
                warn(f"[{progress.elapsed:6.1f} s] {done}/{total} trials, {status}")

        yield lines
