"""Times with empty and with warm caches do not mix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.runtime.cpu import CpuKernel
from autosched.search.warm_start import warm_start
from autosched.session.load_best import load_best
from autosched.session.model import ModelOptions
from autosched.session.session import Job, MeasureOptions, Session
from autosched.state.steps import steps_from_json
from autosched.task import Task

TILED = steps_from_json([["SP", 2, 0, 8, [4], 1]])
SMALL, LARGE = 2**20, 2**21


def log_of(path: Path, task: Task, *times: tuple[float, int]) -> None:
    """Records with a time and what was written before each call; alternately with steps."""
    entry = task.to_json()
    results = [MeasureResult((s,), checked=True, cache_flush=flush) for s, flush in times]
    RecordLog(path).append(
        [Record(entry, TILED if n % 2 else (), result) for n, result in enumerate(results)]
    )


def session(path: Path, task: Task, flush: int) -> Session:
    run = RunOptions(cache_flush=flush)
    return Session(
        [Job(task)],
        records=path,
        model=ModelOptions("random", False),
        measure=MeasureOptions(run=run),
    )


@pytest.mark.parametrize("flush", [0, SMALL, LARGE])
def test_a_run_continues_from_times_like_its_own(task: Task, tmp_path: Path, flush: int) -> None:
    path = tmp_path / "r.jsonl"
    log_of(path, task, (1e-3, 0), (1e-4, SMALL), (1e-5, LARGE))
    found = session(path, task, flush)
    assert found.known == 1
    assert found.others == ("2 records timed with another measure.cache_flush train the model only")
    best = found.before().tasks[0].best
    assert best is not None
    assert best.result.cache_flush == flush


def test_what_failed_fails_with_every_cache(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    failed = MeasureResult((), Failure("compile", "error", "no"), cache_flush=SMALL)
    RecordLog(path).append([Record(task.to_json(), (), failed)])
    assert session(path, task, 0).known == 1


def test_the_best_of_a_file_was_timed_without(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    log_of(path, task, (1e-6, SMALL), (1e-3, 0))
    kernel = load_best(path)
    only = tmp_path / "only.jsonl"
    log_of(only, task, (1e-6, SMALL), (1e-3, SMALL))
    other = load_best(only)
    assert isinstance(kernel, CpuKernel)
    assert isinstance(other, CpuKernel)
    assert kernel.artifact.object_code != other.artifact.object_code


def test_a_model_compares_times_of_one_kind(task: Task, tmp_path: Path) -> None:
    """Its throughputs are relative to the best among times like it."""

    class Kept:
        def __init__(self) -> None:
            self.groups: dict[str, Any] = {}

        def add(self, key: str, rows: Any, costs: Any) -> None:
            self.groups[key] = list(costs)

    path = tmp_path / "r.jsonl"
    log_of(path, task, (1e-3, 0), (1e-4, SMALL), (2e-4, SMALL))
    kept: Any = Kept()
    used = warm_start(kept, read_log(path).records, "cpu")
    assert used.records == 3
    assert sorted(kept.groups.values()) == [[1e-4, 2e-4], [1e-3]]
