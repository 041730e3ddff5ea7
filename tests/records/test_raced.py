"""Two files' bests timed in turns: what is faster, what cannot be raced, and once for real."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import records
from autosched.errors import ConfigError
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.steady import interval
from autosched.records import raced as module
from autosched.records.raced import Raced
from autosched.task import Task
from kit.measurer import CRASH, StubMeasurer, noise
from kit.records import STEPS, entry, failed, record, write, written_here


def race(
    monkeypatch: pytest.MonkeyPatch, folder: Path, stub: StubMeasurer, b: int = 1
) -> list[Raced]:
    """Of candidate 0, recorded as the slower one, against candidate `b`."""
    monkeypatch.setattr(module, "Measurer", stub)
    files = write(folder / "a", [record(0, 2e-3)]), write(folder / "b", [record(b, 1e-3)])
    return records.race(records.diff(*files))


def stub(a: float, b: float, **more: Any) -> StubMeasurer:
    known = {STEPS[0]: a, STEPS[1]: b}
    return StubMeasurer(seconds=lambda steps: known[steps], **more)


def test_two_percent_show_where_the_records_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(5):
        (found,) = race(monkeypatch, tmp_path, stub(1e-3, 1.02e-3, noise=noise(0.01, seed)))
        assert (found.faster, found.visits, found.why) == ("a", 60, "")
        assert found.ratio == pytest.approx(1.02, rel=0.01)
        assert found.ratio is not None and found.interval is not None
        assert 1 < found.interval[0] <= found.ratio <= found.interval[1]
        assert found.difference.ratio == 0.5
        assert found.to_json()["faster"] == "a"
    assert repr(found) == f"<matmul(M=16, N=16, K=16): {found.text}>"
    assert re.fullmatch(
        r"\S+ [mu]s in a, \S+ ms in b, ratio 1\.02\d \(1\.0\d+ to 1\.0\d+\), a is faster",
        found.text,
    )


def test_equal_ones_are_seldom_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = 0
    for seed in range(20):
        (found,) = race(monkeypatch, tmp_path, stub(1e-3, 1e-3, noise=noise(0.01, seed)))
        wrong += bool(found.faster)
    assert wrong <= 3  # of 20 with 5% each: more in one of 60 draws


def test_long_calls_have_fewer_visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    (found,) = race(monkeypatch, tmp_path, stub(1e-3, 2e-3, noise=lambda: 1.0))
    assert (found.visits, found.faster) == (12, "a")
    assert found.ratio == pytest.approx(2)


class Failing(StubMeasurer):
    """One that finds a fault in what it runs."""

    def verified(self, task: Any, artifact: bytes) -> Failure | None:
        return Failure("check", "wrong_answer", "12 of 256 elements differ") if self.bad else None

    def together(
        self, task: Any, artifacts: Any, visits: int, seconds: float
    ) -> list[MeasureResult]:
        found = super().together(task, artifacts, visits, seconds)
        return [found[0], found[1].failed(CRASH)]


def test_why_there_is_no_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady: dict[str, Any] = {"noise": lambda: 1.0}
    (found,) = race(monkeypatch, tmp_path, stub(1e-3, 1e-3, **steady), b=0)
    assert found.why == "the best is the same candidate in both" and found.faster == ""
    (found,) = race(monkeypatch, tmp_path, stub(1e-3, 1e-3))  # without noise it builds nothing
    assert found.why == (
        f"record 0 of {tmp_path / 'a'} cannot be built here; autosched replay --index says why"
    )
    (found,) = race(monkeypatch, tmp_path, Failing(bad=1, **steady))
    assert found.why == f"record 0 of {tmp_path / 'a'}: 12 of 256 elements differ"
    (found,) = race(monkeypatch, tmp_path, Failing(**steady))
    assert found.why == "the best of b: signal 11"
    assert found.text == f"no race: {found.why}"
    assert found.to_json()["seconds"] is None
    files = write(tmp_path / "a", [record(0)]), write(tmp_path / "b", [failed(1)])
    (found,) = records.race(records.diff(*files))
    assert found.why == "one of them has no valid record"
    with pytest.raises(ConfigError, match=r"^found: expected .*records\.diff.*, found \[\]"):
        records.race([])  # type: ignore[arg-type]


def test_a_task_that_cannot_be_run_here_leaves_the_others_their_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutGpu(StubMeasurer):
        def create(self, **more: Any) -> StubMeasurer:
            if more["target"] == "cuda":
                raise ConfigError("no GPU:\n  there is none")
            return super().create(**more)

    monkeypatch.setattr(module, "Measurer", WithoutGpu(noise=lambda: 1.0))
    unknown = {**entry(32), "workload": {"python": "none.py:mine", "args": {}}}
    gpu = json.loads(
        json.dumps(Task.from_workload("matmul", target="cuda", M=8, N=8, K=8).to_json())
    )
    files = [
        write(tmp_path / name, [record(k, task=task) for task in (unknown, gpu, entry(16))])
        for name, k in (("a", 0), ("b", 1))
    ]
    first, second, third = records.race(records.diff(*files))
    assert "records run no code by themselves" in first.why and not first.visits
    assert second.why == "no GPU: there is none" and not second.visits
    assert third.why == "" and third.visits


def test_processes_start_once_for_all_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    class Counted(StubMeasurer):
        def create(self, **more: Any) -> StubMeasurer:
            made.append(more["options"].cache_flush)
            return super().create(**more)

    monkeypatch.setattr(module, "Measurer", Counted(noise=lambda: 1.0))
    files = [
        write(
            tmp_path / name,
            [record(k, task=entry(16)), record(k, task=entry(32)), record(k, flush=64)],
        )
        for name, k in (("a", 0), ("b", 1))
    ]
    found = records.race(records.diff(*files))
    assert len(found) == 2 and all(each.visits for each in found)
    assert made == [0]


def test_kernels_that_run(tmp_path: Path) -> None:
    """Of a task that is another one's but for the machine, too."""
    files = [
        written_here(tmp_path / name, record(k, 1e-3, task=entry(threads=threads)))
        for name, k, threads in (("a", 0, 2), ("b", 2, 3))
    ]
    (found,) = records.race(records.diff(*files))
    assert found.why == "" and found.visits >= 12
    assert found.ratio is not None and 0.1 < found.ratio < 10
    assert all(1e-8 < seconds < 1e-2 for seconds in found.seconds or ())


@pytest.mark.parametrize("quantile", [0.25, 0.5])
def test_an_interval_holds_its_quantile(quantile: float) -> None:
    """At most 5% of the intervals lie beside it; that of a quarter is asked for by default."""
    rng, beside = np.random.default_rng(3), 0
    for _ in range(400):
        low, high = interval(rng.standard_normal(40).tolist(), quantile)
        true = {0.25: -0.67449, 0.5: 0.0}[quantile]
        beside += not low <= true <= high
    assert beside <= 20 + 3 * math.sqrt(20)
    assert interval([1.0, 2.0, 3.0, 4.0] * 9) == interval([1.0, 2.0, 3.0, 4.0] * 9, 0.25)
