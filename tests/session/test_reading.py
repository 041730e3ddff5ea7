"""Records that a file holds already: of tasks that are not whole, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.session.load_best import load_best
from autosched.session.reading import earlier_records
from autosched.task import Task
from kit.records import entry, record, write


@pytest.mark.parametrize("target", [None, 7, "cpu", []])
def test_records_of_a_task_without_a_target_are_of_another_machine(
    tmp_path: Path, task: Task, target: Any
) -> None:
    path = write(tmp_path / "a", [record(0, task={**task.to_json(), "target": target})])
    found = earlier_records(path, [task], pytest.fail, "")
    assert found.others == "1 record of another CPU (unknown) trains the model only"


def timeout(number: int, seconds: float, stage: str = "run") -> Record:
    failure = Failure(stage, "timeout", "one call took longer than that")
    return replace(record(number), result=MeasureResult((), failure, total_seconds=seconds))


@pytest.mark.parametrize(
    ("limit", "best", "again"),
    [(2.0, None, 1), (9.0, None, 2), (0.5, None, 0), (9.0, 0.1, 2), (9.0, 0.03, 1)],
)
def test_calls_that_were_ended_sooner_are_not_known_to_be_slow(
    tmp_path: Path, task: Task, limit: float, best: float | None, again: int
) -> None:
    """Once a limit was too short, what it ended was left out for good. The best one counts, too."""
    entry = task.to_json()
    records = [timeout(0, 1.2), timeout(1, 3.0), timeout(2, 1.2, "compile")]
    if best is not None:
        records.append(replace(record(3), result=MeasureResult((best,))))
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([replace(each, task=entry) for each in records])
    found = earlier_records(path, [task], pytest.fail, "", run=RunOptions(timeout=limit))
    assert (found.again, found.known) == (again, len(records) - again)
    assert ("may be tried again" in found.ended_sooner) == bool(again)
    RecordLog(path).append([replace(records[0], task=entry, result=MeasureResult((1.0,)))])
    found = earlier_records(path, [task], pytest.fail, "", run=RunOptions(timeout=limit))
    assert found.again == max(again - 1, 0)  # the first is known now


@pytest.mark.parametrize(
    ("workload", "name"),
    [({}, "task 0000001000000002"), ({"workload": {"op": "x"}}, "{'op': 'x'}")],
)
def test_another_task_that_is_not_whole_is_named(
    tmp_path: Path, task: Task, workload: dict[str, Any], name: str
) -> None:
    other = {key: value for key, value in entry().items() if key != "workload"}
    path = write(tmp_path / "a", [record(0, task={**other, **workload})])
    with pytest.raises(ConfigError, match=rf"holds records of another task \({name}\); expected"):
        earlier_records(path, [task], pytest.fail, "")
    with pytest.raises(ConfigError, match=rf"no valid record of matmul.*; it holds {name}$"):
        load_best(path, task)
