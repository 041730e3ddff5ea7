"""Progress lines, and what the best kernel is compared with."""

import io
from _io import StringIO
from collections.abc import Mapping
from dataclasses import replace

import pytest

from autosched.cli import progress as progress_module
from autosched.cli.console import literal_console, rate_text
from autosched.cli.peer import PLAIN_LOOPS, Peer, peer_of
from autosched.cli.progress import Eta, make_observer, status_text
from autosched.cli.task_table import TaskTable
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.ranking_quality import Quality
from autosched.search.tuner import Part, Progress
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

    def peak_of(task: Task) -> float:
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


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> StringIO:
    """Standard error as a terminal of that width; returns what is written to it."""
    written = io.StringIO()
    console = literal_console(file=written, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(progress_module, "err", console)
    return written


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_shows_the_line_from_the_start(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    written = terminal(monkeypatch, width)
    with make_observer(quiet=False, trials=8) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    text = written.getvalue()
    assert "0/8  none valid yet" in text
    assert "50%  4/8  best 1 us" in text
    assert "ETA 0:00" in text
    assert "None" not in text


def test_trials_move_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    written = terminal(monkeypatch, 80)
    for part, shown in (
        (Part("build", 3, 4), "build 3/4    ━━━━━━"),
        (Part("run", 0, 4), "50%  4/8  "),
        (Part("run", 3, 4), "88%  7/8  "),
    ):
        with make_observer(quiet=False, trials=8) as observer:
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
def test_a_terminal_shows_the_table_of_several_tasks(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    written = terminal(monkeypatch, width)
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    table = TaskTable([TASK.key, other.key], ["one", "two"], [1, 2.5])
    with make_observer(quiet=False, trials=20, table=table) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    last = written.getvalue().rpartition("task ")[2]
    assert "one   1       4       0      1 us" in last
    assert "two   2.5     0       0      -" in last
    assert max(map(len, last.splitlines())) <= width


def test_names_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither emoji nor style, in the table and in the line below it."""
    written = terminal(monkeypatch, 120)
    name = "a:x:[red]b"
    table = TaskTable([TASK.key], [name], [1])
    with make_observer(quiet=False, trials=8, table=table) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    assert written.getvalue().count(name) >= 2
    assert f"4/8  {name}  best" in written.getvalue()


def test_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    with make_observer(quiet=True, trials=8) as observer:
        observer(Progress(TASK, 8), [BEST])
    assert capfd.readouterr() == ("", "")


def test_peers() -> None:
    peer = Peer("numpy.matmul", 2e-6, 1e-6)
    assert peer.share == 2.0
    assert peer.text.startswith("2.00 times the speed of numpy.matmul")
    assert peer.to_json()["share"] == 2.0
    assert "unreliable" not in peer.text
    steady, shaken = [1e-6, 1e-6, 1.1e-6, 1.1e-6], [1e-6, 1e-6, 9e-6, 9e-6]
    for theirs, ours in ((steady, shaken), (shaken, steady)):
        found = Peer.of("numpy.matmul", theirs, ours)
        assert found.disturbed and found.to_json()["disturbed"]
        assert found.text.endswith("unreliable: others use the cores")
    assert not Peer.of("numpy.matmul", steady, steady).disturbed
    assert Peer("NumPy", 1e-6, 1e-6).warning is None
    assert Peer("NumPy", 1e-6, 1.5e-6, scatter=2.0).warning is None
    assert "slower than NumPy; more trials" in (Peer("NumPy", 1e-6, 1.5e-6).warning or "")


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ({"op": "matmul", "args": {"M": 4, "N": 4, "K": 4}}, "numpy.matmul (OpenBLAS)"),
        ({"op": "softmax", "args": {"M": 4, "N": 4}}, "NumPy"),
        ({"expr": "C[i, j] += A[i, k] * A[k, j]", "shapes": {"A": [4, 4]}}, PLAIN_LOOPS),
        ({"einsum": "ik,kj->ij", "shapes": {"A": [4, 4], "B": [4, 4]}}, "numpy.einsum"),
    ],
)
def test_every_task_has_one(
    workload: Mapping[str, str | Mapping[str, int | list[int]]], name: str
) -> None:
    """Timed for real, in a runner process."""
    task = Task.from_json_workload(workload, "cpu")
    record = replace(BEST, steps=())
    with Measurer.create() as measurer:
        found = peer_of(task, measurer, record)
    assert found.name == name
    assert found.share > 0


@pytest.mark.parametrize("share", [1.001, 1.03, 8.41])
def test_more_than_the_peak_is_never_printed_without_a_remark(share: float) -> None:
    remark = " of peak, measured too low or operations are saved)"
    assert rate_text(1e9, 1e9 / share).endswith(remark)
    assert rate_text(1e9, 1e9).endswith(" (100% of peak)")


def test_the_peak_is_measured_again_where_it_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([1e9, 3e9, 2e9])
    measurer = Measurer()
    monkeypatch.setattr(type(measurer.runner), "peak", lambda self, task: next(found))
    assert measurer.peak(TASK) == measurer.peak(TASK, 0.9e9) == 1e9
    assert measurer.peak(TASK, 2e9) == measurer.peak(TASK, 2.9e9) == 3e9
    assert measurer.peak(TASK, 4e9) == 3e9
