"""The winner timed again: what is said when it takes another time, or its repeats disagree."""

from typing import Any

import pytest

from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.session.again import Again, timed_again
from autosched.task import Task
from kit.measurer import Steps, StubMeasurer

STEADY = (1.0, 1.01, 1.02, 1.0, 1.01, 1.02)
TWO = (1.0, 1.01, 1.02, 1.5, 1.51, 1.52)


def times(*seconds: float) -> MeasureResult:
    return MeasureResult(seconds)


def test_a_gpu_that_was_too_hot_is_named() -> None:
    hot = MeasureResult(STEADY, device={"throttled": 3})
    for both in (Again(hot, times(*STEADY)), Again(times(*STEADY), hot)):
        assert both.remark == (
            "unreliable: heat or power slowed the GPU's clocks in 3 of its visits"
        )


@pytest.mark.parametrize(
    ("found", "again", "remark"),
    [
        (STEADY, STEADY, ""),
        (STEADY, tuple(1.1 * s for s in STEADY), ""),
        ((1.0,), (1.05,), ""),
        (STEADY, tuple(2 * s for s in STEADY), "it took 2.00 times as long at the end"),
        (STEADY, tuple(s / 2 for s in STEADY), "it took 0.50 times as long at the end"),
        (STEADY, TWO, "its repeats have two speeds, one 1.50 times the other"),
        (TWO, STEADY, "its repeats have two speeds, one 1.50 times the other"),
        (STEADY, (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "its repeats differ by a factor"),
    ],
)
def test_the_remark(found: tuple[float, ...], again: tuple[float, ...], remark: str) -> None:
    both = Again(times(*found), times(*again))
    if not remark:
        assert both.remark == ""
        assert both.to_json()["remark"] is None
    else:
        assert both.remark.startswith(f"unreliable: {remark}")
        assert both.remark.endswith("; other programs use the cores, or their clock changes")


def test_a_kernel_that_no_longer_runs_is_not_timed_again() -> None:
    class Fails(StubMeasurer):
        def again(self, task: Task, steps: Steps) -> MeasureResult:
            return MeasureResult((), Failure("run", "crash", "signal 11"))

    task = Task.from_workload("matmul", M=8, N=8, K=8)
    best = Record(task.to_json(), (), times(*STEADY))
    broken: Any = Fails()
    assert timed_again(task, broken, best) is None
    slow: Any = StubMeasurer(seconds=lambda steps: 3.0)
    found = timed_again(task, slow, best)
    assert found is not None
    assert found.ratio == pytest.approx(3.0, rel=0.02)
