"""The tuning loop with a stub for measuring: records, continuing, stopping, failing."""

import hashlib
import json

import pytest

from autosched.errors import ConfigError
from autosched.state.steps import steps_to_json
from autosched.target import cuda_target
from autosched.task import Task
from measure.records import RecordLog, read_log
from measure.result import Failure, MeasureResult
from search.options import SearchOptions
from search.tuner import TuneOptions, Tuner

SEARCH = SearchOptions(
    sample_init_min_population=12,
    evolutionary_search_population=8,
    evolutionary_search_num_iters=1,
)


class StubHelper:
    """No second process."""

    def start(self):
        return self

    def close(self):
        pass

    def send(self, request):
        from search.featurize import make_handler

        self.reply = make_handler()(request)

    def receive(self, timeout, stage):
        return self.reply


class StubMeasurer:
    """A cost made of the steps; every `bad`-th candidate fails."""

    def __init__(self, bad=0, interrupt_after=None):
        self.bad, self.interrupt_after = bad, interrupt_after
        self.batches = []

    def start(self, task):
        pass

    def measure(self, task, batch, best):
        if self.interrupt_after is not None and len(self.batches) == self.interrupt_after:
            raise KeyboardInterrupt
        self.batches.append(list(batch))
        return [self.one(steps, k) for k, steps in enumerate(batch)]

    def one(self, steps, k):
        if self.bad and k % self.bad == 0:
            return MeasureResult((), Failure("run", "crash", "signal 11"))
        digest = hashlib.sha256(json.dumps(steps_to_json(steps)).encode()).digest()
        return MeasureResult((1e-3 * (1 + digest[0]),))


@pytest.fixture(scope="module")
def task():
    return Task.from_workload("matmul", M=16, N=16, K=16)


def make(task, measurer=None, log=None, earlier=(), observer=None, **options):
    settings = {"trials": 12, "batch": 4, "search": SEARCH, **options}
    return Tuner(
        task,
        TuneOptions(**settings),
        measurer or StubMeasurer(),
        log,
        earlier,
        observer,
        helper=StubHelper(),
    )


def test_every_trial_is_recorded(task, tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, log=log).run()
    written = read_log(log.path).records
    assert [r.steps for r in written] == [r.steps for r in result.records]
    assert len({r.steps for r in written}) == 12
    assert result.best.result.cost == min(r.result.cost for r in written)
    assert [r.search["round"] for r in written] == [0] * 4 + [1] * 4 + [2] * 4
    assert [r.search["predicted"] is None for r in written] == [True] * 4 + [False] * 8
    assert written[0].search["quality"] is None
    assert 0 <= written[4].search["quality"]["rank_accuracy"] <= 1
    assert result.progress.quality
    assert result.reason == "all trials were used"
    assert set(result.progress.seconds) == {"start", "search", "measure", "learn"}


def test_the_same_seed_gives_the_same_candidates(task):
    runs = [make(task, seed=seed).run() for seed in (1, 1, 2)]
    steps = [[r.steps for r in run.records] for run in runs]
    assert steps[0] == steps[1]
    assert steps[0] != steps[2]


def test_it_continues_from_records(task, tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    make(task, log=log).run()
    earlier = read_log(log.path).records
    result = make(task, log=log, earlier=earlier, seed=9).run()
    assert not {r.steps for r in result.records} & {r.steps for r in earlier}
    assert result.records[0].search["predicted"] is not None
    every = [*earlier, *result.records]
    assert result.best.result.cost == min(r.result.cost for r in every)


def test_failures_are_counted_and_kept(task):
    result = make(task, StubMeasurer(bad=2)).run()
    assert result.progress.failures == {"run crash": 6}
    assert result.progress.valid == 6
    assert len(result.records) == 12


def test_nothing_valid(task):
    result = make(task, StubMeasurer(bad=1)).run()
    assert result.best is None
    assert result.progress.quality == []


def test_an_interruption_keeps_what_was_measured(task, tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    result = make(task, StubMeasurer(interrupt_after=2), log).run()
    assert result.interrupted
    assert len(read_log(log.path).records) == len(result.records) == 8
    assert result.best is not None


def test_early_stopping(task):
    result = make(task, trials=1000, early_stopping=8).run()
    assert "no better candidate in" in result.reason
    costs = [r.result.cost for r in result.records]
    assert len(costs) - 1 - costs.index(min(costs)) >= 8
    assert len(costs) < 1000


def test_a_time_budget(task):
    result = make(task, trials=1000, time_budget_s=1e-9).run()
    assert result.records == []
    assert "time budget" in result.reason


def test_a_small_space_ends():
    tiny = Task.from_workload("matmul", M=1, N=1, K=1)
    result = make(tiny, trials=1000).run()
    assert result.reason == "the search space holds no more candidates"
    assert len({r.steps for r in result.records}) == len(result.records) < 1000


def test_observers_see_every_phase(task):
    seen = []
    make(task, observer=lambda p, records: seen.append((p.phase, p.done, len(records)))).run()
    assert seen[0] == ("start", 0, 0)
    assert [s for s in seen if s[0] == "batch"] == [
        ("batch", 4, 4),
        ("batch", 8, 4),
        ("batch", 12, 4),
    ]


def test_cuda_cannot_be_measured(task):
    cuda = Task.from_workload("matmul", M=16, N=16, K=16, target=cuda_target())
    with pytest.raises(ConfigError, match="--dry-run"):
        make(cuda)
