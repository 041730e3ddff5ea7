"""The tuning loop with a stub for measuring: records, continuing, stopping, failing."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autosched.measure.interrupt import MeasureInterrupted, MeasureLostError
from autosched.measure.record_log import RecordLog, RecordsError
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.search import sample, thread_tiles
from autosched.search.options import SearchOptions
from autosched.search.policy import state_of
from autosched.search.progress import Observer, Part
from autosched.search.task_scheduler import ScheduleOptions, TaskScheduler
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import cuda_target
from autosched.task import Task
from kit.helper import StubHelper
from kit.measurer import Steps, StubMeasurer, Told, cost_of

pytestmark = pytest.mark.usefixtures("remembered_features", "brief_training")

SEARCH = SearchOptions(
    sample_init_min_population=6,
    evolutionary_search_population=4,
    evolutionary_search_num_iters=1,
)


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=8, N=8, K=8)


@pytest.fixture(scope="module")
def make(stub_helper: type[StubHelper]) -> Callable[..., Tuner]:
    """(task, measurer, log, earlier, observer, **options) -> a tuner that measures nothing."""

    def made(
        task: Task,
        measurer: StubMeasurer | None = None,
        log: RecordLog | None = None,
        earlier: Sequence[Record] = (),
        observer: Observer | None = None,
        **options: Any,
    ) -> Tuner:
        given: dict[str, Any] = {"trials": 12, "batch": 4, "search": SEARCH, **options}
        settings = TuneOptions(**given)
        return Tuner(
            task, settings, measurer or StubMeasurer(), log, earlier, observer, helper=stub_helper()
        )

    return made


def test_every_trial_is_recorded(make: Callable[..., Tuner], task: Task, tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, log=log).run()
    written = read_log(log.path).records
    assert [r.steps for r in written] == [r.steps for r in result.records]
    assert len({r.steps for r in written}) == 12
    assert cost_of(result.best) == min(r.result.cost for r in written)
    assert [r.search["round"] for r in written] == [0] * 4 + [1] * 4 + [2] * 4
    assert [r.search["predicted"] is None for r in written] == [True] * 4 + [False] * 8
    assert written[0].search["quality"] is None
    assert 0 <= written[4].search["quality"]["rank_accuracy"] <= 1
    assert result.progress.quality
    assert result.reason == "all trials were used"
    phases = {"start", "reference", "search", "measure", "learn"}
    assert set(result.progress.seconds) == phases


def test_records_tell_how_long_each_phase_took(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    """The first of each batch, what is new since the batch before; the last learning is lost."""
    log = RecordLog(tmp_path / "log.jsonl")
    seconds = make(task, log=log).run().progress.seconds
    told = [r.search.get("spent") for r in read_log(log.path).records]
    assert [k for k, spent in enumerate(told) if spent is not None] == [0, 4, 8]
    sums = {
        name: sum(spent.get(name, 0.0) for spent in told if spent)
        for name in ("start", "search", "build", "run")
    }
    assert sums["build"] > 0
    assert sums["start"] == pytest.approx(seconds["start"], abs=1e-3)
    assert sums["search"] == pytest.approx(seconds["search"], abs=1e-3)
    assert sums["build"] + sums["run"] == pytest.approx(seconds["measure"], abs=1e-3)


def test_the_same_seed_gives_the_same_candidates(make: Callable[..., Tuner], task: Task) -> None:
    runs = [make(task, seed=seed).run() for seed in (1, 1, 2)]
    steps = [[r.steps for r in run.records] for run in runs]
    assert steps[0] == steps[1]
    assert steps[0] != steps[2]


def test_it_continues_from_records(make: Callable[..., Tuner], task: Task, tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    make(task, log=log).run()
    earlier = read_log(log.path).records
    result = make(task, log=log, earlier=earlier, seed=9).run()
    assert not {r.steps for r in result.records} & {r.steps for r in earlier}
    assert result.records[0].search["predicted"] is not None
    every = [*earlier, *result.records]
    assert cost_of(result.best) == min(r.result.cost for r in every)


def test_what_other_runs_measure_costs_no_candidate_twice(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    """The rest of the batch was chosen again for the places of those that others had."""

    class Busy(RecordLog):
        """Another run always has the first of a whole batch."""

        def claim(self, task: Mapping[str, Any], states: Sequence[str]) -> Any:
            self.asked = not self.asked
            return (set(states[:1]) if self.asked else set()), []

        asked = False

    for seed in range(4):
        result = make(task, log=Busy(tmp_path / f"{seed}.jsonl"), seed=seed, trials=16).run()
        assert len({r.search["state"] for r in result.records}) == len(result.records) == 16


def test_other_runs_that_measure_all_of_a_batch_end_no_run(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    """Several runs of one seed propose the same: some said that the space held no more."""

    class Busy(RecordLog):
        """Other runs have all of the first batches."""

        def claim(self, task: Mapping[str, Any], states: Sequence[str]) -> Any:
            self.left -= 1
            return (set(states) if self.left >= 0 else set()), []

        left = 9

    result = make(task, log=Busy(tmp_path / "r.jsonl"), trials=4, batch=2).run()
    assert (len(result.records), result.reason) == (4, "all trials were used")


def test_recorded_loop_nests_are_not_worked_out_again(
    make: Callable[..., Tuner], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = make(task).run().records
    del earlier[0].search["state"]  # as in a record made by Ansor
    worked_out: list[Steps] = []

    def noted(dag: ComputeDAG, steps: Steps) -> str:
        worked_out.append(steps)
        return state_of(dag, steps)

    monkeypatch.setattr("autosched.search.policy.state_of", noted)
    make(task, earlier=earlier, trials=0).run()
    assert worked_out == [earlier[0].steps]


def test_failures_are_counted_and_kept(make: Callable[..., Tuner], task: Task) -> None:
    result = make(task, StubMeasurer(bad=2)).run()
    assert result.progress.failures == {"run crash": 6}
    assert result.progress.valid == 6
    assert len(result.records) == 12


def test_nothing_valid(make: Callable[..., Tuner], task: Task) -> None:
    result = make(task, StubMeasurer(bad=1)).run()
    assert result.best is None
    assert result.progress.quality == []


def test_building_may_begin_before_measuring(make: Callable[..., Tuner], task: Task) -> None:
    """Of every candidate, and of none that is not measured."""
    events: list[tuple[str, Steps]] = []

    class Builds(StubMeasurer):
        def begin(self, task: Task, batch: Sequence[Steps] = ()) -> None:
            events.extend(("begun", steps) for steps in batch)

        def one(self, steps: Steps, k: int) -> MeasureResult:
            events.append(("measured", steps))
            return super().one(steps, k)

    make(task, Builds()).run()
    measured = [steps for what, steps in events if what == "measured"]
    assert len(measured) == 12
    for steps in measured:
        assert events.index(("begun", steps)) < events.index(("measured", steps))
    assert {steps for _, steps in events} == {*measured}


def test_an_interruption_keeps_what_was_measured(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, StubMeasurer(interrupt_after=2), log).run()
    assert result.interrupted
    assert len(read_log(log.path).records) == len(result.records) == 8
    assert result.best is not None


def test_what_was_measured_of_an_interrupted_round_is_kept(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    class CutShort(StubMeasurer):
        def measure(
            self,
            task: Task,
            batch: Sequence[tuple[Step, ...]],
            best: float = float("inf"),
            progress: Told | None = None,
        ) -> list[MeasureResult]:
            results = super().measure(task, batch, best, progress)
            if len(self.batches) == 2:
                raise MeasureInterrupted([None, *results[1:3], None])
            return results

    log = RecordLog(tmp_path / "log.jsonl")
    measurer = CutShort(bad=3)
    result = make(task, measurer, log).run()
    written = read_log(log.path).records
    assert result.interrupted
    assert len(result.records) == result.progress.done == 6
    assert [r.steps for r in written[4:]] == measurer.batches[1][1:3]
    assert [r.search["round"] for r in written] == [0] * 4 + [1] * 2
    assert written[4].search["quality"] is None
    again = make(task, log=log, earlier=written).run()
    assert measurer.batches[1][0] not in [r.steps for r in written]
    assert not {r.steps for r in again.records} & {r.steps for r in written}


@pytest.mark.parametrize(
    "error", [RecordsError("disk full"), MeasureLostError("no GPU", [None] * 4)]
)
@pytest.mark.parametrize("batches", [0, 1])
def test_what_ends_a_run_early_leaves_a_result(
    make: Callable[..., Tuner], task: Task, error: Exception, batches: int
) -> None:
    """The record file cannot be written any more, or nothing be measured."""

    class Ending(StubMeasurer):
        def measure(
            self,
            task: Task,
            batch: Sequence[Steps],
            best: float = float("inf"),
            progress: Told | None = None,
        ) -> list[MeasureResult]:
            if len(self.batches) == batches:
                raise error
            return super().measure(task, batch, best, progress)

    tuner = make(task, Ending())
    if not batches:  # nothing was found: the run fails as a whole
        with pytest.raises(type(error)):
            tuner.run()
        return
    result = tuner.run()
    assert (result.failed, result.interrupted, result.reason) == (True, False, str(error))
    assert len(result.records) == 4
    assert result.best is not None


def test_results_that_cannot_be_written_are_known_all_the_same(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    log = RecordLog(tmp_path / "log.jsonl")

    def in_the_way(steps: Steps) -> float:
        if log.path.is_file():
            log.path.unlink()
            log.path.mkdir()
        return 1e-3

    result = make(task, StubMeasurer(in_the_way), log).run()
    assert result.failed
    assert "it is a folder" in result.reason
    assert len(result.records) == 4
    assert cost_of(result.best) == min(r.result.cost for r in result.records)


def test_early_stopping(make: Callable[..., Tuner], task: Task) -> None:
    result = make(task, trials=1000, early_stopping=8).run()
    assert "no better candidate in" in result.reason
    costs = [r.result.cost for r in result.records]
    assert len(costs) - 1 - costs.index(min(costs)) >= 8
    assert len(costs) < 1000


def test_a_time_budget(make: Callable[..., Tuner], task: Task) -> None:
    result = make(task, trials=1000, time_budget_s=1e-9).run()
    assert result.records == []
    assert "time budget" in result.reason


def test_a_small_space_ends(make: Callable[..., Tuner]) -> None:
    tiny = Task.from_workload("matmul", M=1, N=1, K=1)
    result = make(tiny, trials=1000).run()
    assert result.reason == "the search space holds no more candidates"
    assert len({r.steps for r in result.records}) == len(result.records) < 1000


def test_observers_see_every_phase(make: Callable[..., Tuner], task: Task) -> None:
    seen = []
    make(task, observer=lambda p, records: seen.append((p.phase, p.done, len(records)))).run()
    assert seen[0] == ("start", 0, 0)
    assert [s for s in seen if s[0] == "batch"] == [
        ("batch", 4, 4),
        ("batch", 8, 4),
        ("batch", 12, 4),
    ]


def test_an_observer_sees_how_far_a_batch_is(make: Callable[..., Tuner], task: Task) -> None:
    class Telling(StubMeasurer):
        def measure(
            self,
            task: Task,
            batch: Sequence[Steps],
            best: float = float("inf"),
            progress: Callable[[str, int, int], None] | None = None,
        ) -> list[MeasureResult]:
            assert progress is not None
            progress("build", 1, len(batch))
            progress("run", 3, len(batch))
            return super().measure(task, batch, best, progress)

    seen: list[tuple[str, Part | None]] = []
    tuner = make(task, Telling(), observer=lambda p, _: seen.append((p.phase, p.part)))
    tuner.run()
    assert ("measure", Part("build", 1, 4)) in seen
    assert ("measure", Part("run", 3, 4)) in seen
    assert all(part is None for phase, part in seen if phase != "measure")


def test_nothing_within_the_limits_of_a_gpu_says_so(
    make: Callable[..., Tuner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_tiles, "_ROUNDS", 1)  # in none of which there is anything to find
    monkeypatch.setattr(sample, "_BARREN_BATCHES", 1)
    target = cuda_target("sm_80", max_shared_memory_per_block=1)
    task = Task.from_workload("matmul", M=16, N=16, K=16, target=target)
    result = make(task).run()
    assert result.records == []
    assert result.reason == (
        f"no randomly drawn candidate is within the limits of {target}; "
        "autosched tune --dry-run says why"
    )
    tasks = [(task, TuneOptions(search=SEARCH))]
    assert TaskScheduler(tasks, ScheduleOptions(8), StubMeasurer()).run().reason == result.reason
