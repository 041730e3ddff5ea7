"""Make the section of the page about a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autosched.measure.failure_groups import FailureGroup
from autosched.report.accuracy import accuracy, guesses, predicted
from autosched.report.bars import failures, features_that_matter, time_spent
from autosched.report.candidate import Code, code_of
from autosched.report.chart import Chart, time_text
from autosched.report.curve import curve, rate_text
from autosched.report.facts import Figure, environment, figures, remarks
from autosched.report.hindsight import learn_again
from autosched.report.roofline import Roof, roofline
from autosched.report.runs import Run
from autosched.words import count, shortened

_MESSAGE = 2000  # characters of an example's message
_EXAMPLES = 12

Measure = Callable[[Run], Roof | None]


@dataclass(frozen=True, slots=True)
class Example:
    """A group of failures: its kind, its size, and the index and message of the first record."""

    kind: str
    records: int
    index: int
    message: str


@dataclass(frozen=True, slots=True)
class Section:
    """All that the page shows of one run."""

    title: str
    subtitle: str
    figures: Sequence[Figure]
    remarks: Sequence[str]
    charts: Sequence[Chart]
    code: Code
    examples: Sequence[Example]
    more_failures: int
    environment: Sequence[tuple[str, str]]

    def chart(self, name: str) -> Chart:
        """The chart of that name."""
        return next(chart for chart in self.charts if chart.name == name)


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the table of bests."""

    task: str
    source: str
    device: str
    best: str
    rate: str
    trials: int
    failed: int
    checked: str


def section(run: Run, measure: Measure | None) -> Section:
    """Make the section of a run. `measure` measures this machine's roof; None measures nothing."""
    roof = measure(run) if measure is not None else None
    learned = learn_again(run)
    found = guesses(run, learned)
    failed, groups = failures(run)
    charts = [
        curve(run),
        roofline(run, roof, _why_no_roof(run, measure)),
        accuracy(found),
        predicted(found),
        time_spent(run),
        features_that_matter(run, learned),
        failed,
    ]
    return Section(
        run.name,
        f"{run.machine}{run.timed} · {run.file}",
        figures(run, roof),
        remarks(run),
        arranged(charts),
        code_of(run),
        [_example(group) for group in groups[:_EXAMPLES]],
        max(0, len(groups) - _EXAMPLES),
        environment(run, roof),
    )


def arranged(charts: Sequence[Chart]) -> list[Chart]:
    """Order the charts: drawn ones first. One that would stand alone in two columns is widened."""
    drawn = [chart for chart in charts if chart.traces]
    narrow = [chart for chart in drawn if not chart.wide]
    if len(narrow) % 2:
        drawn[drawn.index(narrow[-1])] = replace(narrow[-1], wide=True)
    return drawn + [replace(chart, wide=True) for chart in charts if not chart.traces]


def _why_no_roof(run: Run, measure: Measure | None) -> str:
    if run.task is not None and run.task.target.is_gpu:
        return "peak and bandwidths of a GPU are not measured"
    if not run.here:
        return f"the records are of another machine ({run.machine}), whose peak is not known here"
    if measure is None:
        return "nothing was measured for this page"
    return run.problem or "nothing was measured"


def _example(group: FailureGroup) -> Example:
    failure = group.failure
    kind = shortened(f"{failure.stage} {failure.kind}", 60)
    message = shortened(failure.message.strip() or "no message", _MESSAGE, "…")
    return Example(kind, group.records, group.index, message)


def row(run: Run) -> Row:
    """The run's line in the table of bests."""
    best = run.best
    failed = len(run.trials) - len(run.valid)
    return Row(
        run.name,
        run.file,
        run.machine + run.timed,
        "none" if best is None else time_text(best.result.cost),
        "" if best is None else rate_text(run, best.result.cost),
        len(run.trials),
        failed,
        "" if best is None else best.result.checked_text,
    )


def summary(runs: Sequence[Run]) -> str:
    """The size of all runs for people, as `2 tasks in 3 files, 192 candidates`."""
    tasks = len({run.entry["key"] for run in runs})
    files = len({run.source for run in runs})
    trials = sum(len(run.trials) for run in runs)
    return f"{count(tasks, 'task')} in {count(files, 'file')}, {count(trials, 'candidate')}"
