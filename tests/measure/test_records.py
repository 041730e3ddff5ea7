"""Record files: whole lines, torn lines, two writers, other formats."""

import copy
import fcntl
import json
import multiprocessing
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched import user_file
from autosched.errors import ConfigError
from autosched.measure.glance import Glance, glances
from autosched.measure.record_log import RecordLog, RecordsError
from autosched.measure.records import (
    SCHEMA,
    LogContents,
    Record,
    is_later,
    read_log,
    stream_log,
)
from autosched.measure.result import Failure, MeasureResult
from autosched.session.this_cpu import cpu_name, measured_here
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.full_disk import limit_room, nothing, up_to
from kit.passes import ONE, TASK

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


def test_a_record_is_shown_on_one_line(task_json: dict[str, Any]) -> None:
    name = "record of matmul(M=16, N=32, K=8) on cpu"
    assert repr(record(task_json)) == f"<{name}: 1 ms, checked, 3 steps>"
    failed = record(task_json, failure=Failure("run", "timeout", "one\ncall\n" * 99))
    assert repr(failed) == f"<{name}: failed (run timeout), 3 steps>"
    empty = replace(record(task_json), result=MeasureResult(()), steps=())
    assert repr(empty) == f"<{name}: no time, 0 steps>"
    contents = LogContents([failed] * 99, tasks={"t": task_json}, problems=["a line"])
    assert repr(contents) == "<log contents: 99 records, 1 task, 1 problem>"


def test_showing_a_record_runs_no_file_of_the_users(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit\n")
    spec = f"{file}:f"
    others: list[dict[str, Any]] = [
        {"workload": {"python": spec, "args": {}}},
        {"inputs": {"A": {"function": spec}}},
        {"workload": {"op": "none"}},
        {"workload": None},
    ]
    with autosched.trusting():
        for other in others:
            shown = repr(record({**task_json, **other}))
            assert shown == f"<record of task {task_json['key']}: 1 ms, checked, 3 steps>"


def test_a_record_of_a_pass_is_shown_with_its_name(
    passes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASK.with_lowering([ONE])
    monkeypatch.setattr(user_file, "_RAN", set())
    shown = repr(Record(task.to_json(), (), MeasureResult((1e-3,))))
    assert shown.startswith(f"<record of {TASK.name}, lowered with OneThread on cpu: 1 ms, ")
    assert not user_file._RAN


def test_half_a_pair_of_surrogates_is_no_text(tmp_path: Path, task_json: dict[str, Any]) -> None:
    """JSON can hold it; what is read is written to other files and printed."""
    log = RecordLog(tmp_path / "r.jsonl")
    odd, whole = "\ud800 and \udcff", "\U0001f600"
    one = record({**task_json, "x": odd}, failure=Failure("run", odd, whole))
    log.append([replace(one, search={odd: whole})])
    (found,) = read_log(tmp_path / "r.jsonl").records
    assert found.result.failure == Failure("run", "? and ?", whole)
    assert found.search == {"? and ?": whole}
    assert found.task["x"] == "? and ?"


def test_a_torn_last_line_is_reported_and_the_next_run_goes_on(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json), record(task_json)])
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    contents = read_log(path)
    assert len(contents.records) == 1
    assert "r.jsonl:4: not a whole JSON object (cut short" in contents.problems[0]
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
    first, second, third = map(json.loads, path.read_text().splitlines())
    assert (set(first), set(second)) == ({"environment", "hash"}, {"task", "hash"})
    assert set(third) == {"schema", "task", "steps", "result", "search", "environment", "time"}
    assert (third["environment"], third["task"]) == (first["hash"], second["hash"])


def test_a_torn_line_swallows_neither_environment_nor_record(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json), record(task_json)])
    path.write_bytes(path.read_bytes()[:-40])
    RecordLog(path).append()
    assert len(read_log(path).environments) == 1
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[2][:-40])
    RecordLog(path).append([record(task_json, 3e-3)])
    contents = read_log(path)
    assert [r.result.seconds for r in contents.records] == [(3e-3,)]
    assert (len(contents.environments), len(contents.problems)) == (1, 1)


def test_what_another_writes_until_the_lock_is_there_is_kept_apart(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer dies in the middle of a line while this one waits for the lock."""
    path = tmp_path / "r.jsonl"

    def waited(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
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


def test_a_later_record_is_one_whatever_it_is_made_of(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"schema": {SCHEMA + 1}, "environment": "e", "outcome": 1}}\n')
    contents = read_log(path)
    assert contents.newer and contents.newer in contents.problems[0]
    assert is_later(path.read_text()) and not is_later("[3]") and not is_later('{"schema": 2}')


def test_a_name_of_two_environments_means_the_one_before_the_record(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    """As in `cat a.jsonl b.jsonl a.jsonl`, whose environments somebody edited."""
    path = tmp_path / "r.jsonl"
    lines = [
        *({"environment": {"cpu": cpu}, "hash": "e"} for cpu in "AB"),
        {"task": task_json, "hash": "t"},
        {**record(task_json).to_json("t"), "environment": "e"},
    ]
    a, b, task, line = (json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
    path.write_text("".join([task, a, line, b, line, line, a, line]))
    for read in (stream_log, glances):
        contents = LogContents()
        found = [each.environment for each in list(read(path, contents))]
        assert [contents.environments[name]["cpu"] for name in found] == ["A", "B", "B", "A"]
    contents = LogContents()
    glanced = [each for each in glances(path, contents) if isinstance(each, Glance)]
    assert len(glanced) == 4
    assert all(each.whole().environment == each.environment for each in glanced)


def old_line(task_json: dict[str, Any], seconds: float = 1e-3) -> str:
    """A record of schema 1, which held its task itself."""
    line = {**record(task_json, seconds).to_json(), "schema": 1, "task": task_json}
    return json.dumps(line) + "\n"


def test_schema_1_is_read_and_converted(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path, again = tmp_path / "r.jsonl", tmp_path / "again.jsonl"
    other = json.loads(json.dumps(Task.from_workload("matmul", M=4, N=4, K=4).to_json()))
    path.write_text("".join(map(old_line, [task_json, other, task_json, task_json])))
    contents = read_log(path)
    assert [r.task["key"] == other["key"] for r in contents.records] == [False, True, False, False]
    assert len({id(r.task) for r in contents.records}) == 2  # one object for each task
    RecordLog(again).copy(contents)
    RecordLog(again).append([record(other)])
    assert [r.task for r in read_log(again).records] == [r.task for r in contents.records] + [other]
    assert again.stat().st_size < path.stat().st_size


def test_a_record_without_its_tasks_line_is_skipped(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json)])
    environment, _, last = path.read_text().splitlines(keepends=True)
    path.write_text(environment + last)
    contents = read_log(path)
    assert contents.records == []
    assert "no line before it describes that task; skipped" in contents.problems[0]


def test_a_file_deleted_meanwhile_is_written_again(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json, 1.0)])
    log = RecordLog(path)
    log.append([record(task_json, 2.0)])
    path.unlink()
    log.append([record(task_json, 3.0)])
    contents = read_log(path)
    assert [r.result.seconds[0] for r in contents.records] == [1.0, 2.0, 3.0]
    assert contents.problems == []


@pytest.mark.parametrize("taken", [False, True])
def test_a_deleted_file_that_has_no_room_is_kept_elsewhere(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """With the batch; of a place that another file took, what this run wrote."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json, 1.0)])
    log = RecordLog(path)
    log.append([record(task_json, 2.0)])
    path.unlink()
    if taken:
        path.write_text("my notes\n")

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match=" are in ") as refused:
        limit_room(patch, up_to(path, 0))
        log.append([record(task_json, 3.0)])
    (rest,) = (tmp_path / "elsewhere").iterdir()
    assert (
        f"; what the file held before it was deleted and 1 result of the batch are in {rest}"
        in (str(refused.value))
    )
    contents = read_log(rest)
    assert [r.result.cost for r in contents.records] == [1.0, 2.0, 3.0][taken:]
    assert contents.problems == []
    if taken:
        assert path.read_text() == "my notes\n"
        path.unlink()
    log.append([record(task_json, 4.0)])
    assert [r.result.cost for r in read_log(path).records] == [4.0]


def test_a_deleted_file_that_has_no_room_anywhere_is_written_again_later(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json, 1.0)])
    path.unlink()

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match="and are lost"):
        limit_room(patch, nothing)
        log.append([record(task_json, 2.0)])
    log.append([record(task_json, 3.0)])
    assert [r.result.cost for r in read_log(path).records] == [1.0, 3.0]


@pytest.mark.parametrize("torn", [False, True])
def test_a_file_that_was_replaced_gets_what_this_run_wrote(
    tmp_path: Path, task_json: dict[str, Any], torn: bool
) -> None:
    path, other = tmp_path / "r.jsonl", tmp_path / "other.jsonl"
    RecordLog(path).append([record(task_json, 1.0)])
    log = RecordLog(path)
    log.append([record(task_json, 2.0)])
    RecordLog(other).append([record(task_json, 7.0)] * 2)
    if torn:
        other.write_bytes(other.read_bytes()[:-9])
    other.replace(path)
    log.append([record(task_json, 3.0)])
    contents = read_log(path)
    assert [r.result.seconds[0] for r in contents.records] == [7.0] * (2 - torn) + [2.0, 3.0]
    assert len(contents.problems) == torn


def test_a_file_of_another_kind_that_took_its_place_is_kept(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RecordLog(path, overwrite=True)
    log.append([record(task_json)])
    path.unlink()
    path.write_text("my notes\n")
    with pytest.raises(ConfigError, match="cannot write the record file"):
        log.append([record(task_json)])
    assert path.read_text() == "my notes\n"


def test_an_emptied_file_gets_its_head_again(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json)])
    os.truncate(path, 0)
    log.append([record(task_json, 2.0)])
    contents = read_log(path)
    assert [r.result.seconds for r in contents.records] == [(2.0,)]
    assert list(contents.environments) == [contents.records[0].environment]


def test_a_full_disk_leaves_whole_lines(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that fit stay; the others come back from where the message says that they are."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json, 1.0)])
    line = len(path.read_bytes().splitlines()[-1])
    most = path.stat().st_size + 2 * line + line // 2

    limit_room(monkeypatch, up_to(path, most))
    with pytest.raises(RecordsError, match="No space left on device; 3 results of") as refused:
        log.append([record(task_json, float(k)) for k in range(2, 7)])
    assert [r.result.seconds for r in read_log(path).records] == [(1.0,), (2.0,), (3.0,)]
    monkeypatch.undo()
    log.append([record(task_json, 9.0)])
    command = str(refused.value).split("`")[1]
    subprocess.run(command, shell=True, check=True)
    contents = read_log(path)
    assert [r.result.cost for r in contents.records] == [1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0]
    assert contents.problems == []
    assert set(contents.environments) == {r.environment for r in contents.records}
    (rest,) = (tmp_path / "elsewhere").iterdir()
    assert len(read_log(rest).records) == 3  # with the lines that they name


def test_a_head_that_has_no_room_is_written_with_the_next(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append()
    before = path.read_bytes()

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match="1 result of"):
        limit_room(patch, up_to(path, 0))
        log.append([record(task_json)])
    assert path.read_bytes() == before
    log.append([record(task_json)])
    assert len(read_log(path).records) == 1


def test_what_is_copied_is_written_whole_or_not_at_all(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source is still there."""
    path = tmp_path / "r.jsonl"
    log = RecordLog(path)
    log.append([record(task_json)])
    before = path.read_bytes()

    limit_room(monkeypatch, up_to(path, len(before) + 1001))
    with pytest.raises(RecordsError, match=r"No space left on device$"):
        log.copy(LogContents([record(task_json)] * 9))
    assert path.read_bytes() == before


ODD: list[Any] = [
    None, True, -1, 0, 17, 10**400, 1.5, float("nan"), float("inf"), -1e308, "", "x", "\0", [], {},
    [[]], [10**400], [None], {"key": 1}, {"kind": {}}, [["SP", 2, 0, 10**400, [1], 1]], "9" * 5000,
]  # fmt: skip


def test_no_odd_value_gets_further_than_a_sentence(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    """Every entry of every line replaced by everything: the line is read, or skipped and named."""
    path = tmp_path / "r.jsonl"
    seen = {"telling": 1.0, "error": 0.0, "tolerance": 1e-6}
    device = {"kernels": {"k": {"registers": 32}}}
    result = {**record(task_json).to_json()["result"], "check": seen, "device": device}
    whole = {**record(task_json).to_json(), "result": result}
    lines: list[dict[str, Any]] = [{"environment": {"cpu": "x"}, "hash": "h"}]
    lines += [{"task": task_json, "hash": "t"}, {**whole, "schema": 1, "task": task_json}]
    lines.append({**whole, "task": "t", "environment": "h"})
    places = [place for number, line in enumerate(lines) for place in _places(line, (number,))]
    assert len(places) > 60
    for place in places:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        for odd in ODD:
            changed = copy.deepcopy(lines[place[0]])
            _set(changed, place[1:], odd)
            text += json.dumps(changed) + "\n" + json.dumps(lines[-1]) + "\n"
        path.write_text(text)
        contents = read_log(path)
        assert len(contents.records) >= 2 + len(ODD), place
        for each in contents.records:
            measured_here(each, contents.environments)
            cpu_name(each, contents.environments)
            assert each.result.cost > 0
        assert repr(contents.records).isprintable()


@pytest.mark.parametrize("seconds", ["[1.0, NaN]", "[NaN, 1.0]", "[1.0, Infinity]", "[0.5, 0.0]"])
def test_a_time_that_is_none_costs_its_record(
    tmp_path: Path, task_json: dict[str, Any], seconds: str
) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json), record(task_json)])
    path.write_text(path.read_text().replace("[0.001]", seconds, 1))
    contents = read_log(path)
    assert len(contents.records) == 1
    assert "seconds: expected a list of positive numbers" in contents.problems[0]


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Where something can be replaced, four levels deep."""
    if len(path) > 4:
        return
    entries = value.items() if isinstance(value, dict) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _set(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new
