"""`autosched dataset export` and `show`: which features, and where every row comes from."""

from __future__ import annotations

import csv
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import options as command_line
from autosched.cli import samples
from autosched.errors import ConfigError, ScheduleError
from autosched.features.datasets.sample import Sample
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import TUNING, Rows, feature_set
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record, stream_log
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.task import Task

Cli = Callable[..., Any]


def test_the_features_are_those_of_tuning_unless_told_otherwise(cli: Cli, log: Path) -> None:
    assert command_line.TUNING == TUNING
    for names, options in ((TUNING, ()), ("ansor-0.19", ("--features", "ansor-0.19"))):
        done = cli("dataset", "export", log, "-o", f"{names}.csv", *options)
        assert done.status == 0, done.err
        assert done.err.strip().endswith(feature_set(names).schema)
        with (log.parent / f"{names}.csv").open(newline="") as file:
            assert tuple(next(csv.reader(file))[12:]) == feature_set(names).columns
        shown = cli("show", log, "--as", "features", *options).out
        used = {line.split()[0] for line in shown.splitlines() if line.startswith("  ")}
        assert used <= set(feature_set(names).columns)
    assert "autosched-1, which tune" in " ".join(cli("show", "--help").out.split())


def test_rows_name_buffer_file_record_and_steps(
    cli: Cli, log: Path, record: Callable[..., Record]
) -> None:
    """The steps and the number of the record lead back to the candidate."""
    other = log.parent / "other.jsonl"
    illegal = record(steps=steps_from_json([["SP", 9, 0, 16, [4], 1]]))
    RecordLog(other).append([record(3e-3, ()), illegal])
    assert cli("dataset", "export", log, other, "-o", "d.csv").status == 0
    with (log.parent / "d.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["source"], row["record"]) for row in rows} == {
        *(("mm.jsonl", str(k)) for k in range(3)),
        *(("other.jsonl", str(k)) for k in range(2)),
    }
    for row in rows:
        shown = cli("show", row["source"], "--index", row["record"], "--as", "steps").out
        assert json.loads(row["steps"]) == [json.loads(line) for line in shown.splitlines()]
    broken = [row for row in rows if json.loads(row["steps"]) == steps_to_json(illegal.steps)]
    assert [row["buffer"] for row in broken] == [""]
    assert {row["buffer"] for row in rows if row not in broken} == {"C"}


def test_rows_of_records_read_ahead_are_those_of_each(
    log: Path, record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worked out at once, two records at a time, in the order of the file."""
    monkeypatch.setattr(samples, "_AT_ONCE", 2)
    RecordLog(log).append([record(steps=steps_from_json([["SP", 9, 0, 16, [4], 1]]))])
    records = list(stream_log(log, LogContents()))
    assert len({r.steps for r in records}) > 2
    task = Task.from_json(records[0].task)
    for sample, own in zip(samples.RecordSamples([log], "ansor-0.19"), records, strict=True):
        try:
            expected = rows_of_steps(task.dag, own.steps, task.target, "ansor-0.19")
        except ScheduleError:
            assert sample.rows() is None
            continue
        found = sample.rows()
        assert found is not None and found.buffers == expected.buffers
        assert found.values.tobytes() == expected.values.tobytes()


@pytest.mark.parametrize("features", ["autosched-1", "ansor-0.19"])
def test_the_rows_of_a_candidate_are_worked_out_once(
    log: Path, record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch, features: str
) -> None:
    """However often it was measured, in whichever file; those beyond the most are forgotten."""
    other = log.parent / "other.jsonl"
    illegal = record(steps=steps_from_json([["SP", 9, 0, 16, [4], 1]]))
    records = [illegal, *stream_log(log, LogContents())]
    RecordLog(other).append([*records, *reversed(records)])
    steps = [r.steps for r in [*records[1:], *records, *reversed(records)]]
    monkeypatch.setattr(samples, "_AT_ONCE", 3)
    real, asked = samples.RecordSamples._worked_out, []

    def counted(
        own: samples.RecordSamples, new: Sequence[tuple[Task, Record]]
    ) -> list[Rows | None]:
        asked.extend([r.steps for _, r in new])
        return real(own, new)

    monkeypatch.setattr(samples.RecordSamples, "_worked_out", counted)
    files = samples.RecordSamples([log, other], features)
    found = [sample.rows() for sample in files]
    assert len(asked) == len(set(asked)) == len(set(steps)) < len(steps)
    each = {own.steps: rows for own, rows in zip(records[1:], found, strict=False)}
    for own, rows in zip(steps, found, strict=True):
        assert rows is each.get(own)
    monkeypatch.setattr(samples, "_MOST_KNOWN", 2)
    files._known.clear()
    assert [None if r is None else r.values.tobytes() for r in found] == [
        None if rows is None else rows.values.tobytes()
        for rows in (sample.rows() for sample in files)
    ]
    assert len(files._known) == 2


def test_rows_are_those_of_the_machine_of_the_record(
    cli: Cli, tmp_path: Path, record: Callable[..., Record]
) -> None:
    """Sizes of caches belong to no task's key, and the order of files changes nothing."""
    found = []
    for names in (("small", "large"), ("large", "small")):
        for name, caches in (("small", [64, 128, 256]), ("large", [1 << 20, 1 << 22, 1 << 24])):
            own = record()
            target = {**own.task["target"], "caches": caches}
            (tmp_path / name).unlink(missing_ok=True)
            RecordLog(tmp_path / name).append([replace(own, task={**own.task, "target": target})])
        assert cli("dataset", "export", *names, "-o", "d.csv").status == 0
        with (tmp_path / "d.csv").open(newline="") as file:
            found.append({row["source"]: list(row.values())[10:] for row in csv.DictReader(file)})
    assert found[0] == found[1]
    assert found[0]["small"] != found[0]["large"]


def test_a_time_that_no_kernel_can_have_is_left_out(
    cli: Cli, tmp_path: Path, record: Callable[..., Record]
) -> None:
    """It would make all others as good as failed."""
    RecordLog(tmp_path / "mm.jsonl").append([record(1e-12), record(2e-3), record(1e-3)])
    done = cli("dataset", "export", "mm.jsonl", "-o", "d.csv")
    assert "1 record of task" in done.err and "not believed and left out: 1e-12 s" in done.err
    with (tmp_path / "d.csv").open(newline="") as file:
        rows = {(row["record"], row["throughput"]) for row in csv.DictReader(file)}
    assert rows == {("1", "0.5"), ("2", "1.0")}


class Growing(samples.RecordSamples):
    """After the first time, a record more is in the file."""

    more: Callable[[], None]

    def __iter__(self) -> Iterator[Sample]:
        yield from super().__iter__()
        self.more()


def test_what_a_run_adds_meanwhile_is_left_out(
    tmp_path: Path, record: Callable[..., Record]
) -> None:
    """The rows of the files after it stay beside their own times."""
    one, two = RecordLog(tmp_path / "one.jsonl"), RecordLog(tmp_path / "two.jsonl")
    one.append([record(1e-3)])
    two.append([record(2e-3)])
    those = Growing([one.path, two.path], TUNING)
    those.more = lambda: one.append([record(3e-3)])
    assert [(s.source, s.seconds) for s in those] == [("one.jsonl", 1e-3), ("two.jsonl", 2e-3)]
    assert [(s.source, s.seconds) for s in those] == [("one.jsonl", 1e-3), ("two.jsonl", 2e-3)]


@pytest.mark.parametrize("named", [False, True])
def test_a_pipe_cannot_be_read_twice(
    cli: Cli, tmp_path: Path, record: Callable[..., Record], named: bool
) -> None:
    """One with a name would be waited for."""
    RecordLog(tmp_path / "mm.jsonl").append([record()])
    line = (tmp_path / "mm.jsonl").read_bytes()
    read, write = os.pipe()
    path = f"/dev/fd/{read}"
    if named:
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: Path(path).write_bytes(line))
        writer.start()
    os.write(write, line)
    os.close(write)
    done = cli("dataset", "export", path, "-o", "d.csv")
    os.close(read)
    if named:
        writer.join()
    assert done.status == 2
    assert f"{path} is read twice; give a file instead of a pipe" in done.err
    assert not (tmp_path / "d.csv").exists()


def test_a_file_that_is_shorter_the_second_time(
    tmp_path: Path, record: Callable[..., Record]
) -> None:
    log = RecordLog(tmp_path / "mm.jsonl")
    log.append([record(1e-3), record(2e-3)])
    rows = samples.RecordSamples([log.path], TUNING)
    assert len(list(rows)) == 2
    lines = log.path.read_text().splitlines(keepends=True)
    log.path.write_text("".join(lines[:-1]))
    with pytest.raises(ConfigError, match="it held 2 records, then 1; run this again"):
        list(rows)


@pytest.mark.parametrize("shares", ["nan/nan", "0.5/nan/0.5", "inf/-inf", "0.6/0.6", "1"])
def test_shares_that_do_not_add_up(cli: Cli, log: Path, shares: str) -> None:
    done = cli("dataset", "export", log, "-o", "d.csv", "--split", shares)
    assert done.status == 2
    assert f"--split '{shares}': expected two or three shares that add up to 1" in done.err


@pytest.mark.parametrize("folder", ["one", "two"])
def test_files_of_one_name_are_told_apart(
    cli: Cli, tmp_path: Path, record: Callable[..., Record], folder: str
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        RecordLog(tmp_path / name / "mm.jsonl").append([record()])
    assert cli("dataset", "export", "one/mm.jsonl", "two/mm.jsonl", "-o", "d.csv").status == 0
    with (tmp_path / "d.csv").open(newline="") as file:
        assert f"{folder}/mm.jsonl" in {row["source"] for row in csv.DictReader(file)}


def test_a_candidate_that_was_raced_has_rows_once(
    cli: Cli, tmp_path: Path, record: Callable[..., Record]
) -> None:
    first = record(2e-3)
    second = replace(first, result=record(1e-3).result, search={"race": {"against": ["0" * 16]}})
    RecordLog(tmp_path / "raced.jsonl").append([first, second])
    assert cli("dataset", "export", "raced.jsonl", "-o", "d.csv").status == 0
    with (tmp_path / "d.csv").open(newline="") as file:
        assert {(row["record"], row["seconds"]) for row in csv.DictReader(file)} == {("0", "0.002")}
