"""Ctrl-C during a batch: what was measured until then is handed on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from autosched.measure.build import Builder, BuildResult
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.interrupt import MeasureInterrupted
from autosched.measure.measurer import Measurer
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.state.steps import Step
from autosched.task import Task

FAST = RunOptions(visits=3, repeats=2)
BROKEN = Failure("compile", "error", "no")


class StubBuilder(Builder):
    """Nothing is built; the third candidate is refused."""

    def build(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        on_done: Callable[[int], None] | None = None,
    ) -> list[BuildResult]:
        built = [BuildResult(b"", 0.1) for _ in batch]
        built[2] = BuildResult(None, 0.1, BROKEN)
        return built


@dataclass
class StubRunner(CpuRunner):
    """Answers without a process, and interrupts at the `stop`-th request of a kind."""

    stop: tuple[str, int] = ("", 0)
    seen: dict[str, int] = field(default_factory=dict)

    def start(self, task: Task) -> None:
        pass

    def _call(self, request: tuple[Any, ...], stage: str, timeout: float | None = None) -> Any:
        kind = request[0]
        self.seen[kind] = self.seen.get(kind, 0) + 1
        if (kind, self.seen[kind]) == self.stop:
            raise KeyboardInterrupt
        if kind == "time":
            return [1e-3 + 1e-4 * request[1]] * 2
        return 1e-3 if kind in ("load", "first") else None


def interrupted(kind: str, count: int) -> tuple[MeasureResult | None, ...]:
    measurer = Measurer(StubBuilder(), StubRunner(FAST, stop=(kind, count)))
    with pytest.raises(MeasureInterrupted) as caught:
        measurer.measure(Task.from_workload("matmul", M=4, N=4, K=4), [()] * 4)
    return caught.value.results


def all_of(results: tuple[MeasureResult | None, ...]) -> list[MeasureResult]:
    assert None not in results
    return [r for r in results if r is not None]


def test_before_any_time_was_taken_only_failures_are_known() -> None:
    first, second, third, fourth = interrupted("load", 2)
    assert (first, second, fourth) == (None, None, None)
    assert third is not None and third.failure == BROKEN


def test_in_the_first_visit_those_visited_are_kept() -> None:
    first, second, third, fourth = interrupted("time", 3)
    assert first is not None and first.seconds == (1e-3, 1e-3)
    assert second is not None and len(second.seconds) == 2
    assert third is not None and third.failure == BROKEN
    assert fourth is None


def test_in_a_later_visit_every_candidate_is_kept() -> None:
    results = all_of(interrupted("time", 5))
    assert [len(r.seconds) for r in results] == [4, 2, 0, 2]
    assert not any(r.checked for r in results)


def test_during_the_comparison_with_numpy_every_candidate_is_kept() -> None:
    results = all_of(interrupted("check", 1))
    assert [r.valid for r in results] == [True, True, False, True]
    assert not any(r.checked for r in results)
