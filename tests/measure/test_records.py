"""Record files: whole lines, torn lines, two writers, other formats."""

import fcntl
import json
import multiprocessing
from _io import BufferedRandom
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.records import SCHEMA, Record, RecordLog, read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.state.steps import steps_from_json
from autosched.task import Task

STEPS = steps_from_json([["SP", 2, 0, 16, [1, 1, 8], 1], ["AN", 2, 3, 2], ["CHW", 2, "local"]])


@pytest.fixture(scope="module")
def task_json() -> dict[str, Any]:
    return Task.from_workload("matmul", M=16, N=32, K=8).to_json()


def record(
    task_json: dict[str, Any], seconds: float = 1e-3, failure: Failure | None = None
) -> Record:
    return Record(task_json, STEPS, MeasureResult((seconds,), failure, 0.1, 0.2, failure is None))


def test_records_come_back(tmp_path: Path, task_json: dict[str, Any]) -> None:
    log = RecordLog(tmp_path / "r.jsonl")
    log.append([record(task_json), record(task_json, failure=Failure("run", "timeout", "slow"))])
    log.append([record(task_json, 2e-3)])
    contents = read_log(tmp_path / "r.jsonl")
    assert [r.result.seconds for r in contents.records] == [(1e-3,), (1e-3,), (2e-3,)]
    assert contents.records[0].steps == STEPS
    assert contents.records[1].result.failure == Failure("run", "timeout", "slow")
    assert contents.problems == []
    assert list(contents.environments) == [contents.records[0].environment]
    assert Task.from_json(contents.records[0].task).to_json() == task_json


def test_a_torn_last_line_is_reported_and_the_next_run_goes_on(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json), record(task_json)])
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    contents = read_log(path)
    assert len(contents.records) == 1
    assert "r.jsonl:3: not a whole JSON object (cut short" in contents.problems[0]
    RecordLog(path).append([record(task_json)])
    assert len(read_log(path).records) == 2


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        '"text"',
        "null",
        '{"schema": 99, "task": {}, "steps": [], "result": {}}',
        '{"schema": 1, "task": {}, "steps": [["XX", 1]], "result": {}}',
        '{"i": [["[\\"unknown_op\\", 1]", "llvm"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"}',
        '{"i": [["[\\"matmul\\", 1, 1, 1]", "llvm"], [[], []]], "r": [[1], 0, 1, 1], "v": "v9"}',
    ],
)
def test_a_line_that_is_no_record_is_reported(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(line + "\n")
    contents = read_log(path)
    assert contents.records == []
    assert len(contents.problems) == 1


def test_a_missing_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_log(tmp_path / "none.jsonl")


def test_a_folder_cannot_be_written(tmp_path: Path, task_json: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cannot write the record file"):
        RecordLog(tmp_path).append([record(task_json)])


def _write(path: Path, task_json: dict[str, Any], count: int) -> None:
    log = RecordLog(path)
    for _ in range(count):
        log.append([record(task_json)] * 3)


def test_two_writers_do_not_mix_lines(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, task_json, 20)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    contents = read_log(path)
    assert contents.problems == []
    assert len(contents.records) == 2 * 20 * 3


def test_lines_are_json(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json)])
    first, second = map(json.loads, path.read_text().splitlines())
    assert set(first) == {"environment", "hash"}
    assert set(second) >= {"schema", "task", "steps", "result", "search", "environment", "time"}


def test_a_torn_line_swallows_neither_environment_nor_record(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json), record(task_json)])
    path.write_bytes(path.read_bytes()[:-40])
    RecordLog(path).append()
    assert len(read_log(path).environments) == 1
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[1][:-40])
    log.append([record(task_json, 3e-3)])
    contents = read_log(path)
    assert [r.result.seconds for r in contents.records] == [(3e-3,)]
    assert len(contents.problems) == 1


def test_what_another_writes_until_the_lock_is_there_is_kept_apart(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer dies in the middle of a line while this one waits for the lock."""
    path = tmp_path / "r.jsonl"

    def waited(file: BufferedRandom, operation: int) -> None:
        assert operation == fcntl.LOCK_EX
        with path.open("ab") as other:
            other.write(b'{"schema": 1, "task": {"wo')

    monkeypatch.setattr(fcntl, "flock", waited)
    RecordLog(path).append([record(task_json)])
    contents = read_log(path)
    assert len(contents.records) == 1
    assert [p.partition(": ")[2] for p in contents.problems] == ["not a whole JSON object; skipped"]


def test_a_record_of_a_newer_program_is_skipped(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    newer = {**record(task_json).to_json(), "schema": SCHEMA + 1}
    path.write_text(json.dumps(newer) + "\n")
    contents = read_log(path)
    assert contents.records == []
    assert (
        f"record schema {SCHEMA + 1} is newer than this program's {SCHEMA}" in contents.problems[0]
    )
