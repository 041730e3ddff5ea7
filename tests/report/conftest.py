"""A record file of 64 candidates whose times and failures are made up, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.bandwidth import Bandwidth
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.report.page import html_of
from autosched.report.roofline import Roof
from autosched.report.runs import Run
from autosched.report.write import page_of
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task
from kit.measurer import seconds_of
from kit.reports import HOSTILE

_TRIALS, _BATCH = 64, 16
_SPENT = {"start": 1.0, "reference": 0.1, "search": 2.0, "build": 0.7, "run": 4.0, "learn": 0.2}


@pytest.fixture(scope="session")
def task() -> Task:
    return Task.from_workload("matmul", M=32, N=32, K=32)


@pytest.fixture(scope="session")
def candidates(task: Task) -> list[tuple[Step, ...]]:
    space = SearchSpace(task)
    return space.sample(np.random.default_rng(0), _TRIALS)[:_TRIALS]


@pytest.fixture(scope="session")
def records(task: Task, candidates: Sequence[tuple[Step, ...]]) -> list[Record]:
    """Four rounds, the first one without predictions; every seventh candidate fails."""
    entry = task.to_json()
    return [_record(entry, place, steps) for place, steps in enumerate(candidates)]


def _record(entry: dict[str, object], place: int, steps: tuple[Step, ...]) -> Record:
    round_ = place // _BATCH
    seconds = seconds_of(steps)
    predicted = None if round_ == 0 else 1e-6 / seconds * (1 + place % 3)
    search: dict[str, object] = {"seed": 0, "round": round_, "predicted": predicted}
    if place % _BATCH == 0:
        search["spent"] = _SPENT
    result = MeasureResult((seconds, 1.1 * seconds), None, 0.1, 0.3, checked=True)
    if place % 7 == 3:
        kind = ("timeout", HOSTILE, "crash")[place % 3]
        result = MeasureResult((), Failure("run", kind, f"it failed {place}: {HOSTILE}"), 0.1, 0.2)
    return Record(entry, steps, result, search)


@pytest.fixture(scope="session")
def log(records: Sequence[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "mm.jsonl"
    RecordLog(path).append(records)
    return path


@pytest.fixture(scope="session")
def old_log(records: Sequence[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same by an earlier version, on a machine that nobody knows."""
    path = tmp_path_factory.mktemp("report") / "old.jsonl"
    entry = {**records[0].task, "target": {**records[0].task["target"], "cpu": "i486"}}
    RecordLog(path).append([replace(record, task=entry, search={}) for record in records])
    return path


LEVELS = [("L1", 5e11, 16_384), ("L2", 2e11, 2**19), ("memory", 1e10, 2**28)]
ROOF = Roof(4e11, "float32", 2, tuple(Bandwidth(*level) for level in LEVELS))


def _made_up(run: Run) -> Roof | None:
    return ROOF if run.here else None


@pytest.fixture
def roof(monkeypatch: pytest.MonkeyPatch) -> Roof:
    """Taken for this machine's, so that nothing is measured."""
    monkeypatch.setattr("autosched.report.write.measured_roof", _made_up)
    return ROOF


@pytest.fixture(scope="session")
def page(log: Path) -> str:
    """The page of the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autosched.report.write.measured_roof", _made_up)
        return html_of(page_of([log], pytest.fail))
