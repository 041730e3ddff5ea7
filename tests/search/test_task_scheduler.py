"""Several tasks in one run, with a stub for measuring."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.measure.standing import candidate_hash
from autosched.search.allocation import AllocationOptions
from autosched.search.options import SearchOptions
from autosched.search.task_scheduler import ScheduleOptions, TaskScheduler
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import Step
from autosched.task import Task
from kit.helper import StubHelper
from kit.measurer import CRASH, StubMeasurer, Told, cost_of

pytestmark = pytest.mark.usefixtures("remembered_features", "brief_training")

SEARCH = SearchOptions(
    sample_init_min_population=5,
    evolutionary_search_population=4,
    evolutionary_search_num_iters=1,
)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [Task.from_workload("matmul", M=8, N=8, K=k) for k in (8, 16)]


@pytest.fixture(scope="module")
def make(tasks: list[Task], stub_helper: type[StubHelper]) -> Callable[..., TaskScheduler]:
    """A scheduler of both tasks; `patience` is that of each."""

    def made(
        measurer: StubMeasurer | None = None,
        log: RecordLog | None = None,
        earlier: Mapping[str, Sequence[Record]] | None = None,
        weights: list[float] | None = None,
        strategy: str = "gradient",
        patience: int | None = None,
        **options: float,
    ) -> TaskScheduler:
        settings: dict[str, Any] = {
            "trials": 24,
            "batch": 4,
            "allocation": AllocationOptions(strategy),
            **options,
        }
        tune = TuneOptions(search=SEARCH, early_stopping=patience)
        return TaskScheduler(
            [(task, tune) for task in tasks],
            ScheduleOptions(**settings),
            measurer or StubMeasurer(),
            log,
            earlier,
            weights=weights,
            helper=stub_helper(),
        )

    return made


def test_round_robin_shares_evenly(make: Callable[..., TaskScheduler]) -> None:
    result = make(strategy="round-robin").run()
    assert [t.progress.done for t in result.tasks] == [12, 12]
    assert result.objective == sum(cost_of(t.best) for t in result.tasks)


def test_the_gradient_favours_a_heavy_task(make: Callable[..., TaskScheduler]) -> None:
    done = [t.progress.done for t in make(weights=[1000.0, 0.001], trials=32).run().tasks]
    assert sum(done) == 32
    assert done[0] > done[1] >= 4


def test_a_function_of_the_user_decides(make: Callable[..., TaskScheduler]) -> None:
    seen: list[list[float]] = []

    def second(seconds: list[float]) -> float:
        seen.append(seconds)
        return seconds[1]

    result = make(trials=32, allocation=AllocationOptions(objective=second)).run()
    assert [t.progress.done for t in result.tasks] == [4, 28]
    assert result.objective == cost_of(result.tasks[1].best)
    assert all(0 < cost < 1 for costs in seen[1:] for cost in costs)


def test_patience_asks_for_the_objective(make: Callable[..., TaskScheduler]) -> None:
    """What lowers the time of a task alone is no improvement."""

    class Falling(StubMeasurer):
        def one(self, steps: tuple[Step, ...], k: int) -> MeasureResult:
            return MeasureResult((1e-3 - 1e-6 * sum(map(len, self.batches)) - 1e-7 * k,))

    options = {"trials": 32, "early_stopping": 8, "strategy": "round-robin"}
    assert make(Falling(), **options).run().reason == "all trials were used"
    allocation = AllocationOptions("round-robin", objective=lambda seconds: 1.0)
    result = make(Falling(), **options | {"allocation": allocation}).run()
    assert result.reason == "no improvement in 8 trials"
    assert [t.progress.done for t in result.tasks] == [8, 8]


def test_one_file_holds_all_and_is_continued(
    make: Callable[..., TaskScheduler], tasks: list[Task], tmp_path: Path
) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    make(log=log).run()
    records = read_log(log.path).records
    assert len(records) == 24
    earlier = {t.key: [r for r in records if r.task["key"] == t.key] for t in tasks}
    scheduler = make(log=log, earlier=earlier, trials=8)
    assert [s.rounds for s in scheduler.states] == [
        int(len(earlier[t.key]) / 4 + 0.5) for t in tasks
    ]
    result = scheduler.run()
    again = [r for t in result.tasks for r in t.records]
    assert len(again) == 8
    for task in tasks:
        known = {r.steps for r in earlier[task.key]}
        assert not known & {r.steps for r in again if r.task["key"] == task.key}


def test_a_failing_task_gets_no_second_round(
    make: Callable[..., TaskScheduler], tasks: list[Task]
) -> None:
    class Failing(StubMeasurer):
        def measure(
            self,
            task: Task,
            batch: Sequence[tuple[Step, ...]],
            best: float = float("inf"),
            progress: Told | None = None,
        ) -> list[MeasureResult]:
            self.bad = 1 if task is tasks[0] else 0
            return super().measure(task, batch, best, progress)

    result = make(Failing()).run()
    assert [t.progress.done for t in result.tasks] == [4, 20]
    assert result.tasks[0].best is None


def test_small_improvements_count_beside_a_failing_task(
    make: Callable[..., TaskScheduler], tasks: list[Task]
) -> None:
    class Slowly(StubMeasurer):
        def one(self, steps: tuple[Step, ...], k: int) -> MeasureResult:
            count = sum(map(len, self.batches))
            return MeasureResult((1e-3 - 1e-7 * count - 1e-9 * k,))

        def measure(
            self,
            task: Task,
            batch: Sequence[tuple[Step, ...]],
            best: float = float("inf"),
            progress: Told | None = None,
        ) -> list[MeasureResult]:
            if task is tasks[0]:
                return [MeasureResult((), CRASH)] * len(batch)
            return super().measure(task, batch, best, progress)

    result = make(Slowly(), trials=24, early_stopping=8).run()
    assert result.reason == "all trials were used"
    assert [t.progress.done for t in result.tasks] == [4, 20]


def test_every_task_gets_a_first_round_before_patience_ends(
    make: Callable[..., TaskScheduler], tasks: list[Task]
) -> None:
    class Failing(StubMeasurer):
        def measure(
            self,
            task: Task,
            batch: Sequence[tuple[Step, ...]],
            best: float = float("inf"),
            progress: Told | None = None,
        ) -> list[MeasureResult]:
            self.bad = 1 if task is tasks[0] else 0
            return super().measure(task, batch, best, progress)

    result = make(Failing(), trials=3200, early_stopping=1).run()
    assert result.tasks[1].best is not None
    assert "no improvement" in result.reason


def test_a_task_whose_records_all_failed_starts_afresh(
    make: Callable[..., TaskScheduler], tasks: list[Task], tmp_path: Path
) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    make(StubMeasurer(bad=1), log=log, trials=8).run()
    records = read_log(log.path).records
    earlier = {t.key: [r for r in records if r.task["key"] == t.key] for t in tasks}
    scheduler = make(earlier=earlier, trials=8)
    assert [s.rounds for s in scheduler.states] == [0, 0]
    assert all(t.best is not None for t in scheduler.run().tasks)


def test_the_winner_of_an_earlier_race_is_what_is_to_be_improved(
    make: Callable[..., TaskScheduler], tasks: list[Task], tmp_path: Path
) -> None:
    """The loser's time was luck: what is faster than the winner is an improvement."""
    log = RecordLog(tmp_path / "log.jsonl")
    make(log=log, trials=8).run()
    mine = [r for r in read_log(log.path).records if r.task["key"] == tasks[0].key]
    fastest = min(mine, key=cost_of)
    slowest = max(mine, key=cost_of)
    race = {"race": {"against": [candidate_hash(fastest.steps)]}}
    earlier = {tasks[0].key: [*mine, replace(slowest, search=race)]}
    scheduler = make(earlier=earlier)
    assert scheduler.states[0].best_cost == cost_of(slowest)
    assert scheduler.states[0].history == [cost_of(scheduler.tuners[0].progress.best)]


def test_an_interruption_keeps_the_bests(make: Callable[..., TaskScheduler]) -> None:
    result = make(StubMeasurer(interrupt_after=3)).run()
    assert result.interrupted
    assert all(t.best is not None for t in result.tasks)


def test_early_stopping_and_time(make: Callable[..., TaskScheduler]) -> None:
    assert "no improvement" in make(trials=3200, early_stopping=12).run().reason
    assert "time budget" in make(time_budget_s=1e-9).run().reason


class First(StubMeasurer):
    """The first candidate of a task is its best; those of task `hopeless` all fail."""

    hopeless = ""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def measure(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        best: float = float("inf"),
        progress: Told | None = None,
    ) -> list[MeasureResult]:
        new = task.key not in self.seen
        self.seen.add(task.key)
        if task.key == self.hopeless:
            return [MeasureResult((), CRASH)] * len(batch)
        return [MeasureResult((1e-6 if new and k == 0 else 1e-5,)) for k in range(len(batch))]


@pytest.mark.parametrize(("patience", "done"), [(3, 4), (4, 8), (7, 8), (8, 12)])
def test_patience_is_that_of_a_task_alone(
    make: Callable[..., TaskScheduler],
    tasks: list[Task],
    stub_helper: type[StubHelper],
    patience: int,
    done: int,
) -> None:
    options = TuneOptions(trials=3200, batch=4, early_stopping=patience, search=SEARCH)
    alone = Tuner(tasks[0], options, First(), helper=stub_helper()).run()
    assert alone.progress.done == done
    several = make(First(), trials=3200, patience=patience).run()
    assert [t.progress.done for t in several.tasks] == [done, done]
    assert several.reason == (
        f"no task is left to search: 2 with no better candidate in {patience} trials"
    )
    together = make(First(), trials=3200, early_stopping=patience).run()
    assert sum(t.progress.done for t in together.tasks) == 4 + done  # the second's best came last


def test_the_reason_tells_why_each_task_ended(
    make: Callable[..., TaskScheduler], tasks: list[Task]
) -> None:
    measurer = First()
    measurer.hopeless = tasks[1].key
    assert make(measurer, trials=3200, patience=1).run().reason == (
        "no task is left to search: 1 with no better candidate in 1 trial, "
        "1 with nothing valid in the first round"
    )


def test_what_is_refused(make: Callable[..., TaskScheduler], tasks: list[Task]) -> None:
    with pytest.raises(ConfigError, match="too few for 2 tasks"):
        make(trials=1)
    with pytest.raises(ConfigError, match="expected 2 weights, found 1"):
        make(weights=[1.0])
    with pytest.raises(ConfigError, match="given twice"):
        TaskScheduler([(tasks[0], TuneOptions())] * 2, ScheduleOptions(8), StubMeasurer())
