"""A task tuned by a policy of the user: what is measured, told, recorded, and how it ends."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.search.own_policy import Tools, own_policies
from autosched.search.own_search import OwnSearch
from autosched.search.task_scheduler import ScheduleOptions, TaskScheduler
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import SplitStep
from autosched.task import Task
from kit.helper import StubHelper
from kit.measurer import Steps, StubMeasurer, seconds_of

pytestmark = pytest.mark.usefixtures("remembered_features", "brief_training")


class Drawn:
    """Random search; notes what it is asked and told, and what each object was made with."""

    name = "drawn"
    made: list["Drawn"] = []

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.asked: list[int] = []
        self.told: list[tuple[Steps, float]] = []
        Drawn.made.append(self)

    def propose(self, count: int) -> Any:
        self.asked.append(count)
        return self.tools.space.sample(self.tools.rng, count)

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        self.told += zip(candidates, seconds, strict=True)


@pytest.fixture(autouse=True)
def _none_made() -> None:
    Drawn.made.clear()


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=8, N=8, K=8)


@pytest.fixture(scope="module")
def make(stub_helper: type[StubHelper]) -> Callable[..., Tuner]:
    """(task, policy, measurer, log, earlier, **options) -> a tuner that measures nothing."""

    def made(
        task: Task,
        policy: Any = Drawn,
        measurer: StubMeasurer | None = None,
        log: RecordLog | None = None,
        earlier: Sequence[Record] = (),
        **options: Any,
    ) -> Tuner:
        settings = TuneOptions(**{"trials": 12, "batch": 4, **options})
        settings = replace(settings, policy=own_policies(policy, "policy"))
        stub = measurer or StubMeasurer()
        return Tuner(task, settings, stub, log, earlier, helper=stub_helper())

    return made


def test_what_is_proposed_is_measured_told_and_recorded(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, measurer=StubMeasurer(bad=2), log=log).run()
    (policy,) = Drawn.made
    assert policy.asked == [4, 4, 4] and result.reason == "all trials were used"
    written = read_log(log.path).records
    assert [record.search["policy"] for record in written] == ["drawn"] * 12
    assert len({record.search["state"] for record in written} - {""}) == 12
    assert [(record.steps, record.result.cost) for record in written] == policy.told
    assert [cost for _, cost in policy.told].count(float("inf")) == 6
    assert result.best is not None
    assert result.best.result.cost == min(cost for _, cost in policy.told)


def test_records_of_the_search_of_autosched_name_no_policy(
    make: Callable[..., Tuner], task: Task
) -> None:
    (record,) = make(task, "autosched", trials=1).run().records
    named = ["seed", "space", "round", "state", "predicted", "quality", "spent"]
    assert list(record.search) == named


def test_the_seed_is_the_runs(make: Callable[..., Tuner], task: Task) -> None:
    runs = [make(task, seed=seed).run() for seed in (1, 1, 2)]
    steps = [[r.steps for r in run.records] for run in runs]
    assert steps[0] == steps[1] != steps[2]


def test_a_run_that_continues_draws_others_than_the_one_before(
    make: Callable[..., Tuner], task: Task
) -> None:
    """Of the same draws the first sixteen answers would hold nothing new."""
    earlier = make(task, trials=80).run().records
    runs = [make(task, earlier=earlier).run() for _ in range(2)]
    assert [run.reason for run in runs] == ["all trials were used"] * 2
    found, again = ([r.steps for r in run.records] for run in runs)
    assert found == again and not {r.steps for r in earlier} & set(found)


def test_earlier_records_are_told_first_and_not_measured_again(
    make: Callable[..., Tuner], task: Task
) -> None:
    earlier = make(task, measurer=StubMeasurer(bad=4)).run().records

    class Repeating(Drawn):
        def propose(self, count: int) -> Any:
            assert [steps for steps, _ in self.told[:12]] == [r.steps for r in earlier]
            known = [steps for steps, _ in self.told]
            return [*known, *super().propose(count)]

    result = make(task, Repeating, earlier=earlier, seed=5).run()
    assert len(result.records) == 12
    assert not {r.steps for r in result.records} & {r.steps for r in earlier}
    assert [cost for _, cost in Drawn.made[-1].told[:12]] == [r.result.cost for r in earlier]


def test_what_cannot_be_measured_is_left_out(make: Callable[..., Tuner], task: Task) -> None:
    """Of too many the first are taken; each loop nest once, however it is written."""
    other = Task.from_workload("softmax", M=8, N=8)

    class Careless(Drawn):
        def propose(self, count: int) -> Any:
            first, *rest = found = super().propose(6)[:6]
            foreign = make(other, "autosched", trials=1).run().records[0].steps
            still_open = self.tools.space.sketches[0].steps
            unit = SplitStep(99, 0, 8, (2,))
            return [foreign, still_open, (*first, unit), first, list(first), *found, *rest]

    result = make(task, Careless, trials=4).run()
    (policy,) = Drawn.made
    assert len(result.records) == 4 and result.progress.valid == 4
    drawn = [steps for steps, _ in policy.told]
    assert len(set(drawn)) == 4


def test_what_the_target_cannot_run_is_left_out(make: Callable[..., Tuner], task: Task) -> None:
    """Limits of a GPU show only when a candidate is lowered."""

    class Many(Drawn):
        def propose(self, count: int) -> Any:
            self.found = super().propose(24)
            return self.found

    tuner = make(task, Many, trials=4)
    search = tuner._policy
    assert isinstance(search, OwnSearch)
    featurize = search._featurize
    most = max(map(len, Drawn(Drawn.made[0].tools).propose(24)))
    search._featurize = lambda found: [
        None if len(steps) == most else rows
        for steps, rows in zip(found, featurize(found), strict=True)
    ]
    result = tuner.run()
    (policy, _) = Drawn.made
    assert isinstance(policy, Many)
    assert any(len(steps) == most for steps in policy.found[:4])
    legal = [steps for steps in policy.found if len(steps) < most]
    assert [record.steps for record in result.records] == legal[:4]


def test_answers_may_be_short_and_empty(make: Callable[..., Tuner], task: Task) -> None:
    class Slow(Drawn):
        """One candidate in every other answer: it waits for what is told of each."""

        def propose(self, count: int) -> Any:
            found = super().propose(count)[:1]
            return found if len(self.asked) % 2 else []

    result = make(task, Slow, trials=3).run()
    assert [record.search["round"] for record in result.records] == [0, 1, 2]
    assert result.reason == "all trials were used"


class Empty(Drawn):
    def propose(self, count: int) -> Any:
        self.asked.append(count)
        return []


class Stuck(Drawn):
    """Proposes the same two candidates, and one that is illegal, for ever."""

    def propose(self, count: int) -> Any:
        self.asked.append(count)
        if not self.told:
            self.found = self.tools.space.sample(self.tools.rng, 2)[:2]
        return [*self.found, (*self.found[0], SplitStep(99, 0, 8, (2,)))]


def test_nothing_new_for_ever_ends_the_search(make: Callable[..., Tuner], task: Task) -> None:
    result = make(task, Empty).run()
    assert len(Drawn.made[-1].asked) == 16
    assert result.reason == "nothing new of policy drawn in 16 answers"
    result = make(task, Stuck).run()
    assert len(result.records) == 2 and not result.failed
    expected = (
        "nothing new of policy drawn in 16 answers (32 known, 16 illegal; the last one: step "
    )
    assert result.reason.startswith(expected)
    assert result.reason.endswith(" SplitStep on stage 99: there are only 4 stages)")


def test_it_is_asked_again_once_it_is_told_something(
    make: Callable[..., Tuner], task: Task
) -> None:
    class Waiting(Drawn):
        def propose(self, count: int) -> Any:
            return super().propose(count) if self.told else []

    search = make(task, Waiting)._policy
    assert search.next_batch(2, lambda _: None) == [] and search.why_nothing
    drawn = Drawn(Drawn.made[0].tools).propose(1)[:1]
    search.tell(drawn, [1.0])
    assert search.why_nothing == ""
    assert len(search.next_batch(2, lambda _: None)) == 2


def test_a_loop_nest_is_known_whatever_steps_make_it(
    make: Callable[..., Tuner], task: Task
) -> None:
    class Listed(Drawn):
        found: list[Steps] = []

        def propose(self, count: int) -> Any:
            return self.found

    search = make(task, Listed)._policy
    one, other, old, *_ = Drawn(Drawn.made[0].tools).propose(8)
    swaps = [(*one[:k], one[k + 1], one[k], *one[k + 2 :]) for k in range(len(one) - 1)]
    again = next(steps for steps in swaps if search.state(steps) == search.state(one))
    assert again != one
    search.skip([(old, "")])  # of a record that does not tell its loop nest
    Listed.found = [one, again, old, other]
    assert [each.steps for each in search.next_batch(4, lambda _: None)] == [one, other]


def test_several_tasks_have_a_policy_each(
    task: Task, stub_helper: type[StubHelper], make: Callable[..., Tuner]
) -> None:
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    given = own_policies(lambda tools: (Empty if tools.task is other else Drawn)(tools), "policy")
    options = TuneOptions(trials=6, batch=2, policy=given)
    pairs = [(task, options), (other, options)]
    stub = StubMeasurer(seconds_of)
    result = TaskScheduler(pairs, ScheduleOptions(6, 2), stub, helper=stub_helper()).run()
    assert [len(each.records) for each in result.tasks] == [6, 0]
    assert [policy.tools.task for policy in Drawn.made] == [task, other]
    assert {steps for steps, _ in Drawn.made[0].told} == {r.steps for r in result.tasks[0].records}
    stuck = TuneOptions(trials=6, batch=2, policy=own_policies(Stuck, "policy"))
    scheduler = TaskScheduler(
        [(task, stuck), (other, stuck)], ScheduleOptions(6, 2), stub, helper=stub_helper()
    )
    reason = scheduler.run().reason
    assert "with nothing new of policy drawn in 16 answers" in reason


def test_ctrl_c_in_a_policy_keeps_what_was_measured(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    class Stopped(Drawn):
        def propose(self, count: int) -> Any:
            if self.told:
                raise KeyboardInterrupt
            return super().propose(count)

    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, Stopped, log=log).run()
    assert result.interrupted and len(result.records) == len(read_log(log.path).records) == 4


def test_a_policy_that_fails_later_leaves_the_records(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    class Failing(Drawn):
        def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
            super().tell(candidates, seconds)
            if len(self.told) > 4:
                raise ValueError("too much")

    log = RecordLog(tmp_path / "log.jsonl")
    with pytest.raises(ConfigError, match=r"policy drawn: tell failed at .*ValueError: too much"):
        make(task, Failing, log=log).run()
    assert len(read_log(log.path).records) == 8


def test_a_policy_that_sleeps_uses_up_the_time(make: Callable[..., Tuner], task: Task) -> None:
    class Sleeping(Drawn):
        def propose(self, count: int) -> Any:
            time.sleep(0.02)
            return super().propose(count)

    result = make(task, Sleeping, time_budget_s=0.01).run()
    assert len(result.records) == 0 and result.reason == "the time budget of 0.01 s is used"


def test_a_policy_with_nothing_new_is_asked_until_the_time_is_used(
    make: Callable[..., Tuner], task: Task
) -> None:
    class Slow(Drawn):
        def propose(self, count: int) -> Any:
            self.asked.append(count)
            if not self.told:
                return self.tools.space.sample(self.tools.rng, count)
            if len(self.asked) == 3:
                tuner.options = replace(tuner.options, time_budget_s=tuner.progress.elapsed)
            return [steps for steps, _ in self.told]

    tuner = make(task, Slow)
    result = tuner.run()
    assert len(Drawn.made[0].asked) == 3
    assert result.reason.startswith("the time budget of ") and len(result.records) == 4


def test_of_a_long_answer_no_more_is_looked_at_than_time_allows(
    make: Callable[..., Tuner], task: Task
) -> None:
    class Long(Drawn):
        def propose(self, count: int) -> Any:
            self.asked.append(count)
            return [super().propose(1)[0], *[()] * 600]

    tuner = make(task, Long, trials=12)
    search, looked_at = tuner._policy, 0
    assert isinstance(search, OwnSearch)
    of_one = search.state

    def slow(steps: Steps) -> str:
        nonlocal looked_at
        looked_at += 1
        if looked_at == 20:
            tuner.options = replace(tuner.options, time_budget_s=tuner.progress.elapsed)
        return of_one(steps)

    search.state = slow  # type: ignore[method-assign]  # as for a computation of many stages
    result = tuner.run()
    assert 20 <= looked_at < 100 and len(result.records) <= 2
    assert result.reason.startswith("the time budget of ")


def test_several_tasks_share_the_time_of_the_run(
    make: Callable[..., Tuner], task: Task, stub_helper: type[StubHelper]
) -> None:
    """Not what the options of a single one of them say."""
    policy = own_policies(Drawn, "policy")
    own = TuneOptions(trials=6, batch=2, time_budget_s=1e-9, policy=policy)
    options = ScheduleOptions(6, 2, time_budget_s=60.0)
    scheduler = TaskScheduler([(task, own)], options, StubMeasurer(), helper=stub_helper())
    assert len(scheduler.run().tasks[0].records) == 6
    assert scheduler._started <= scheduler.tuners[0].progress.started  # over first, with a reason


def test_what_another_run_measures_is_not_asked_of_it(
    make: Callable[..., Tuner], task: Task, tmp_path: Path
) -> None:
    class Busy(RecordLog):
        """Another run always has the first of what is claimed."""

        def claim(self, task: Mapping[str, Any], states: Sequence[str]) -> Any:
            taken = set(states[:1]) if len(states) == 4 and not self.once else set()
            self.once = True
            return taken, []

        once = False

    log = Busy(tmp_path / "log.jsonl")
    result = make(task, log=log, trials=4).run()
    (policy,) = Drawn.made
    assert policy.asked == [4, 1]
    assert len(result.records) == 4


def test_the_cost_model_learns_from_what_a_policy_proposes(
    make: Callable[..., Tuner], task: Task
) -> None:
    tuner = make(task)
    result = tuner.run()
    assert not tuner.learner.trained  # nobody asked it
    tuner.learner.refresh(at_last=True)
    assert tuner.learner.trained
    assert [record.search["predicted"] for record in result.records] == [None] * 12
