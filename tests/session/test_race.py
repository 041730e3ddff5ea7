"""Races of finalists, with synthetic noise: who wins, what is a tie, what is not raced."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched import tune
from autosched.measure.check import Seen
from autosched.measure.records import Record, read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.measure.standing import best_of, candidate_hash
from autosched.search.options import SearchOptions
from autosched.search.tuner import TuneOptions
from autosched.session.heats import expected_regret
from autosched.session.race import final, finalists
from autosched.session.session import Job, MeasureOptions, Session
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.measurer import CRASH, Steps, StubMeasurer, noise
from kit.types import UseMeasurer

TASK = Task.from_workload("matmul", M=16, N=16, K=16)
STEPS = [steps_from_json([["SP", 2, 0, 16, [k], 1]]) for k in range(1, 17)]


def record(k: int, *seconds: float, checked: bool = True) -> Record:
    return Record(TASK.to_json(), STEPS[k], MeasureResult(seconds, checked=checked))


def stub(times: dict[int, float], **more: Any) -> Any:
    known = {STEPS[k]: seconds for k, seconds in times.items()}
    return StubMeasurer(seconds=lambda steps: known[steps], **more)


@pytest.mark.parametrize("seed", range(5))
def test_the_lucky_one_loses(seed: int) -> None:
    """Recorded 4% faster than the other, in truth 3% slower, with noise of 1% a visit."""
    records = [record(0, 0.96e-3), record(1, 1e-3), record(2, 2e-3)]
    found = final(TASK, stub({0: 1.03e-3, 1: 1e-3}, noise=noise(0.01, seed)), records[0], records)
    assert found is not None and found.race is not None
    assert found.best.steps == STEPS[1]
    assert found.best.result.checked
    assert found.best.search["race"]["against"] == [candidate_hash(STEPS[0])]
    assert not found.race.tie
    assert found.race.text == "won against another (95% confidence)"
    assert found.again.found.cost == 1e-3 and found.again.again is found.best.result
    assert best_of([*records, found.best]) is found.best


def test_equal_ones_tie_and_the_choice_is_always_the_same() -> None:
    winners, wrong = set(), 0
    for seed in range(20):
        order = (0, 1, 2) if seed % 2 else (2, 1, 0)
        records = [record(k, 1e-3 * (1 + 0.01 * n)) for n, k in enumerate(order)]
        times = {0: 1e-3, 1: 1e-3, 2: 1e-3}
        found = final(TASK, stub(times, noise=noise(0.001, seed)), records[0], records)
        assert found is not None and found.race is not None
        wrong += not found.race.tie
        if len(found.best.search["race"]["ties"]) == 2:
            winners.add(found.best.steps)
            assert found.race.text == "a tie with 2 others"
    assert wrong <= 1  # 95%
    assert len(winners) == 1


def test_a_race_ends_when_it_is_decided() -> None:
    measurer = stub({0: 1e-3, 1: 1.2e-3, 2: 1e-3}, noise=noise(0.01))
    records = [record(k, 1e-3) for k in range(3)]
    found = final(TASK, measurer, records[0], records)
    assert len(measurer.heats[0]) == 3 and STEPS[1] in measurer.heats[0]
    assert len(measurer.heats[-1]) == 2 and STEPS[1] not in measurer.heats[-1]
    assert len(measurer.heats) <= 10
    assert found is not None and found.race is not None
    assert found.race.text == "a tie with another, won against 1"


def test_who_is_a_finalist() -> None:
    """The fastest up to the last whose interval overlaps; none in between is passed over."""
    best = record(0, 1.0e-3, 1.02e-3)
    near, wide, far = record(1, 1.07e-3), record(2, 1.0e-3, 1.4e-3, 1.5e-3), record(3, 1.3e-3)
    assert finalists(best, [best, far]) == [best]
    assert finalists(best, [far, best, record(1, 1.04e-3)]) == [best, record(1, 1.04e-3)]
    assert finalists(best, [best, far, near, wide]) == [best, near, wide]
    again = replace(near, result=MeasureResult((1.01e-3,)))
    assert finalists(best, [near, best, again]) == [best, again]
    many = [record(k, 1e-3) for k in range(16)]
    assert finalists(many[0], many) == many[:12]
    failed = Record(TASK.to_json(), STEPS[1], MeasureResult((), CRASH))
    assert finalists(best, [best, failed]) == [best]


def test_of_long_calls_few_or_none_are_raced() -> None:
    for seconds, number in ((0.01, 12), (0.03, 4), (0.1, 2), (0.3, 2), (1.0, 1)):
        records = [record(k, seconds) for k in range(16)]
        assert len(finalists(records[0], records)) == number


def test_of_many_heats_leave_four() -> None:
    """The recorded order is wrong: the last of twelve is the fastest, three are nearly as fast."""
    records = [record(k, 1e-3 * (1 + 1e-3 * k)) for k in range(12)]
    times = {k: 1e-3 * (1.2 if k < 8 else 1.0 + 1e-3 * (11 - k)) for k in range(12)}
    measurer = stub(times, noise=noise(0.01))
    found = final(TASK, measurer, records[0], records)
    assert [len(heat) for heat in measurer.heats][:3] == [12, 6, 4]
    assert measurer.heats[2] == STEPS[8:12]
    assert found is not None and found.race is not None
    assert sum(rival.heat for rival in found.race.rivals) == 8
    assert found.race.text == "a tie with 3 others, 8 more in heats"
    race = found.best.search["race"]
    assert len(race["against"]) == 11 and len(race["ties"]) == 3
    assert len(found.best.result.seconds) == found.race.visits  # of the heat nothing counts
    assert best_of([*records, found.best]) is found.best


def test_one_that_heats_leave_alone_keeps_their_times() -> None:
    """Five of the six in the second heat crash: the first has no rivals to race."""

    class Failing(StubMeasurer):
        def together(self, task: Task, artifacts: Any, visits: int, s: float) -> Any:
            found = StubMeasurer.together(self, task, artifacts, visits, s)
            return found[:1] + [MeasureResult((), CRASH)] * 5 if len(self.heats) == 2 else found

    records = [record(k, 1e-3 * (1 + 1e-3 * k)) for k in range(12)]
    measurer: Any = Failing(seconds=lambda steps: 1e-3, noise=noise(0.01))
    found = final(TASK, measurer, records[0], records)
    assert [len(heat) for heat in measurer.heats] == [12, 6]
    assert found is not None and found.race is not None
    assert len(found.best.result.seconds) == 6
    assert found.race.text == "won against 6 others in heats"


def test_expected_regret() -> None:
    assert expected_regret([0.01, 0.012, 0.008] * 8) < 1e-6
    assert expected_regret([-0.01] * 12) == 0.01
    assert 1e-3 < expected_regret([0.01, -0.01] * 12) < 2.5e-3
    assert expected_regret([0.01, -0.01] * 120) < 1e-3


@pytest.mark.parametrize("scale", [0.0, 0.01])
def test_what_cannot_be_run_or_is_wrong_does_not_win(scale: float) -> None:
    """One is not built, one crashes in the race; a wrong one leaves, and the others race again."""

    class Picky(StubMeasurer):
        def build(self, task: Task, batch: Any) -> list[bytes | None]:
            built = StubMeasurer.build(self, task, batch)
            return [None if steps == STEPS[2] else b for steps, b in zip(batch, built, strict=True)]

        def verified(self, task: Task, artifact: bytes) -> Failure | Seen | None:
            return Failure("check", "wrong", "differs")

        def together(self, task: Task, artifacts: Any, visits: int, s: float) -> Any:
            found = StubMeasurer.together(self, task, artifacts, visits, s)
            for bad, steps in enumerate(self.heats[-1]):
                if steps == STEPS[3]:
                    found[bad] = MeasureResult((), CRASH)
            return found

    records = [record(k, 1e-3, checked=k != 1) for k in range(5)]
    times = {0: 1e-3, 1: 0.9e-3, 3: 1e-3, 4: 1.001e-3}
    still = noise(scale) if scale else lambda: 1.0
    measurer: Any = Picky(seconds=lambda steps: times[STEPS.index(steps)], noise=still)
    found = final(TASK, measurer, records[0], records)
    assert measurer.heats[0] == [STEPS[k] for k in (0, 1, 3, 4)]
    assert measurer.heats[-1] == [STEPS[0], STEPS[4]]  # though the wrong one had beaten them
    assert found is not None and found.race is not None
    assert [rival.record for rival in found.race.rivals] in ([records[0]], [records[4]])
    alone: Any = Picky(seconds=lambda steps: 1e-3, noise=lambda: 1.0)
    found = final(TASK, alone, records[0], [records[k] for k in range(4)])
    assert found is not None and found.race is None
    assert found.best is records[0]


def test_the_winner_is_the_best_of_the_run_and_of_its_file(
    measurer: UseMeasurer, task: Task, search: SearchOptions, tmp_path: Path
) -> None:
    """The first candidate measured is the lucky one: 10% slower in the race."""
    first: list[Steps] = []

    class Lucky(StubMeasurer):
        def one(self, steps: Steps, k: int) -> MeasureResult:
            first.append(steps)
            return MeasureResult((1e-3 if steps == first[0] else 1.01e-3,), checked=True)

    def slower(steps: Steps) -> float:
        return 1.1e-3 if steps == first[0] else 1e-3

    path = tmp_path / "r.jsonl"
    quick: dict[str, Any] = {"search": search, "cost_model": "random", "records": path}
    made = measurer(kind=Lucky, seconds=slower, noise=noise(0.01))
    tuned = tune(task, trials=4, batch=4, **quick)
    assert tuned[0].race is not None and tuned[0].again is not None
    assert tuned.best.steps != first[0]
    assert "a tie with 2 others, won against 1" in repr(tuned)
    assert tuned.objective == tuned.best.seconds == tuned[0].again.seconds
    assert tuned.best.interval[0] <= tuned.best.seconds <= tuned.best.interval[1]
    assert len(tuned.records) == 4
    records = read_log(path).records
    assert len(records) == 5 and records[-1].result == tuned.best.record.result
    assert best_of(records) is records[-1]
    job = Job(task, TuneOptions(trials=1, batch=1, search=search, cost_model="random"))
    session = Session([job], records=path)
    assert session.known == 4  # candidates, of which one has two records
    assert session.before().tasks[0].best == records[-1]
    flushed = MeasureOptions(run=RunOptions(cache_flush=4096))
    said = Session([job], records=path, measure=flushed).others
    assert said == "4 records timed with another measure.cache_flush train the model only"
    assert made[0][0].heats


def test_ctrl_c_in_a_race_loses_nothing(
    measurer: UseMeasurer, tasks: list[Task], search: SearchOptions, tmp_path: Path
) -> None:
    """The first task has been raced, the second one not; the run itself is complete."""

    class Stopped(StubMeasurer):
        def together(self, task: Task, *more: Any) -> list[MeasureResult]:
            if task.key == tasks[1].key:
                raise KeyboardInterrupt
            return StubMeasurer.together(self, task, *more)

    path = tmp_path / "r.jsonl"
    measurer(kind=Stopped, seconds=lambda steps: 1e-3, noise=noise(0.0))
    tuned = tune(tasks, trials=8, batch=4, search=search, cost_model="random", records=path)
    assert not tuned.interrupted
    assert tuned[0].race is not None
    assert tuned[1].race is None and tuned[1].again is None and tuned[1].found
    assert len(tuned.records) == 8
    assert len(read_log(path).records) == 9


def test_the_best_alone_is_timed_once_more() -> None:
    measurer = stub({0: 1e-3}, later=1.5)
    best = record(0, 1e-3)
    found = final(TASK, measurer, best, [best, record(1, 2e-3)])
    assert found is not None and found.race is None
    assert found.best is best
    assert found.again.ratio == pytest.approx(1.5)
    assert measurer.heats == []
