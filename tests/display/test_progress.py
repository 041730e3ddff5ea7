"""Progress lines, and what the best kernel is compared with."""

import io
from _io import StringIO
from dataclasses import replace
from unittest.mock import Mock

import pytest
from rich.console import Console

from autosched.display.console import literal_console
from autosched.display.progress import Eta, _Told, make_observer, status_text
from autosched.display.task_table import TaskTable
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.progress import Part, Progress
from autosched.search.ranking_quality import Quality
from autosched.task import Task

TASK = Task.from_workload("matmul", M=8, N=8, K=8)
BEST = Record(TASK.to_json(), (), MeasureResult((1e-6,)))


def test_status() -> None:
    progress = Progress(TASK, 8)
    assert status_text(progress) == "no valid candidate yet"
    progress.best = BEST
    progress.quality.append(Quality(0.75, 0.5, 8))
    progress.failures["run crash"] = 2
    assert status_text(progress) == "best 1 us 1.024 GFLOP/s, model 0.75, 2 run crash"
    assert "best 1 us 1.024 GFLOP/s (51% of peak), model" in status_text(progress, 2e9)
    assert "(<1% of peak)" in status_text(progress, 2e12)


def test_the_peak_is_measured_once_after_the_first_batch(capfd: pytest.CaptureFixture[str]) -> None:
    asked = []

    def peak_of(task: Task, reached: float) -> float:
        asked.append(task)
        return 2e9

    with make_observer(quiet=False, trials=8, peak_of=peak_of) as observer:
        observer(Progress(TASK, 8), ())
        observer(Progress(TASK, 8, done=2), [BEST])
        assert not asked  # nothing valid yet
        for done in (4, 8):
            observer(Progress(TASK, 8, done=done, best=BEST), [BEST])
    assert asked == [TASK]
    assert capfd.readouterr().err.count("51% of peak") == 2


def test_a_peak_that_was_measured_too_low_is_measured_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A kernel of 1.024 GFLOP/s, then one of 2.048, and peaks of a machine that was busy."""
    measured = iter([0.5e9, 1.1e9, 1.2e9, 1.3e9, 1.4e9])
    runner = Mock(peak=lambda task: next(measured))
    measurer = Measurer(builder=Mock(), runner=runner)
    faster = replace(BEST, result=MeasureResult((0.5e-6,)))
    too_low = "measured too low, or the kernel saves operations"
    with make_observer(quiet=False, trials=8, peak_of=measurer.peak) as observer:
        observer(Progress(TASK, 8, done=2, best=BEST), [BEST])
        assert "1.024 GFLOP/s (93% of peak)" in capfd.readouterr().err
        observer(Progress(TASK, 8, done=4, best=faster), [faster])
        assert f"2.048 GFLOP/s (171% of peak, {too_low})" in capfd.readouterr().err
        observer(Progress(TASK, 8, done=6, best=faster), [BEST])
        assert f"(171% of peak, {too_low})" in capfd.readouterr().err
    assert next(measured) == 1.3e9  # no third time for one kernel


def test_a_line_that_moves_says_nothing_of_a_peak_that_is_to_be_measured_again() -> None:
    faster = replace(BEST, result=MeasureResult((0.25e-6,)))
    peaks = iter([2e9, 8e9])
    told = _Told(8, None, lambda task, reached: next(peaks))
    shown = [
        told.status(progress, records).peak
        for progress, records in (
            (Progress(TASK, 8, done=2, best=BEST), [BEST]),
            (Progress(TASK, 8, done=4, best=faster), []),  # while the model learns
            (Progress(TASK, 8, done=4, best=faster), [faster]),
        )
    ]
    assert shown == ["51% of peak", "", "51% of peak"]


def test_a_line_after_every_batch(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress(TASK, 8, done=4, best=BEST)
    with make_observer(quiet=False, trials=8) as observer:
        observer(progress, ())
        observer(progress, [BEST])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "4/8 trials, best 1 us" in lines[0]


def test_several_tasks_are_counted_together(capfd: pytest.CaptureFixture[str]) -> None:
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    table = TaskTable([TASK.key, other.key], ["one", "two"], [1, 1])
    with make_observer(quiet=False, trials=20, table=table) as observer:
        observer(Progress(TASK, 8, done=4), [BEST])
        observer(Progress(other, 8, done=6), [BEST])
    lines = capfd.readouterr().err.splitlines()
    assert "4/20 trials, one: " in lines[0]
    assert "10/20 trials, two: " in lines[1]


def terminal(width: int) -> tuple[StringIO, Console]:
    """A terminal of that width, and what is written to it."""
    written = io.StringIO()
    console = literal_console(file=written, force_terminal=True, width=width, color_system=None)
    return written, console


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_shows_the_line_from_the_start(width: int) -> None:
    written, console = terminal(width)
    with make_observer(quiet=False, console=console, trials=8) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    text = written.getvalue()
    assert "0/8  none valid yet" in text
    assert "50%  4/8  best 1 us" in text
    assert "ETA 0:00" in text
    assert "None" not in text


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    written, console = terminal(80)
    with make_observer(quiet=False, console=console, trials=8) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    assert "] 4/8 trials, best 1 us" in written.getvalue()
    assert "\x1b" not in written.getvalue()


def test_trials_move_within_a_round() -> None:
    written, console = terminal(80)
    for part, shown in (
        (Part("build", 3, 4), "build 3/4    ━━━━━━"),
        (Part("run", 0, 4), "50%  4/8  "),
        (Part("run", 3, 4), "88%  7/8  "),
    ):
        with make_observer(quiet=False, console=console, trials=8) as observer:
            observer(Progress(TASK, 8, done=4, best=BEST, part=part), ())
        assert shown in written.getvalue()
        assert f"{part.name} {part.done}/4" in written.getvalue()


class Clock:
    """A time that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_to_go_counts_down_between_rounds() -> None:
    clock = Clock()
    eta = Eta(40, clock=clock)
    assert eta.seconds() is None
    clock.now += 20
    eta.update(10)
    assert eta.seconds() == 60
    clock.now += 5
    eta.update(10)
    assert eta.seconds() == 55
    clock.now += 500
    assert eta.seconds() == 0


def test_a_time_budget_ends_the_wait() -> None:
    clock = Clock()
    eta = Eta(40, time_budget_s=30, clock=clock)
    assert eta.seconds() == 30
    clock.now += 20
    eta.update(10)
    assert eta.seconds() == 10


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_table_of_several_tasks(width: int) -> None:
    written, console = terminal(width)
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    table = TaskTable([TASK.key, other.key], ["one", "two"], [1, 2.5])
    with make_observer(quiet=False, console=console, trials=20, table=table) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    last = written.getvalue().rpartition("task ")[2]
    assert "one   1       4       0      1 us" in last
    assert "two   2.5     0       0      -" in last
    assert max(map(len, last.splitlines())) <= width


def test_names_are_no_markup() -> None:
    """Neither emoji nor style, in the table and in the line below it."""
    written, console = terminal(120)
    name = "a:x:[red]b"
    table = TaskTable([TASK.key], [name], [1])
    with make_observer(quiet=False, console=console, trials=8, table=table) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    assert written.getvalue().count(name) >= 2
    assert f"4/8  {name}  best" in written.getvalue()


def test_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    with make_observer(quiet=True, trials=8) as observer:
        observer(Progress(TASK, 8), [BEST])
    assert capfd.readouterr() == ("", "")
