"""What a run measures at the moment: taken over when it is killed, left alone while it lives."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.measure import journal
from autosched.measure.journal import SUFFIX, RunLog
from autosched.measure.record_log import RecordLog, RecordsError
from autosched.measure.records import Record, line_of, read_log, task_hash
from autosched.measure.result import MeasureResult
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.full_disk import PLENTY, limit_room, nothing, up_to
from kit.measurer import CRASH


@pytest.fixture(scope="module")
def task_json() -> dict[str, Any]:
    return Task.from_workload("matmul", M=8, N=8, K=8).to_json()


def record(task: dict[str, Any], k: int, *seconds: float, failed: bool = False) -> Record:
    steps = steps_from_json([["SP", 2, 0, 8, [2 ** (k % 3)], 1], ["AN", 2, k, 2]])
    result = MeasureResult(seconds, CRASH if failed else None)
    return Record(task, steps, result, {"state": f"s{k}"})


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("*" + SUFFIX))


def dies(log: RunLog) -> None:
    """What SIGKILL leaves: the files, but no lock on them."""
    assert log._remove is not None
    log._remove.detach()
    os.close(log._journal)


def test_what_a_killed_run_knew_is_recorded_by_the_next(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append([record(task_json, 0, 1.0)])
    log.claim(task_json, ["s1", "s2", "s3", "s4"])
    log.note(record(task_json, 1, 0.5))
    log.note(record(task_json, 2, failed=True))
    log.note(record(task_json, 1, 0.5, 0.25))  # after its second visit
    log.note(record(task_json, 3))  # nothing is known of it
    dies(log)
    (left,) = journals(tmp_path)
    left.write_bytes(left.read_bytes() + b'{"schema": 2, "ta')  # killed while it wrote
    assert RunLog(path).recover() == 2
    contents = read_log(path)
    assert [r.result.seconds for r in contents.records] == [(1.0,), (0.5, 0.25), ()]
    assert [r.search["state"] for r in contents.records] == ["s0", "s1", "s2"]
    assert all(r.environment in contents.environments and r.time for r in contents.records)
    assert contents.problems == []
    assert journals(tmp_path) == []
    assert RunLog(path).recover() == 0


def test_a_batch_that_an_error_cuts_short_is_left_to_the_next_run(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    log.claim(task_json, ["s1", "s2"])
    log.note(record(task_json, 1, 0.5))
    log.close()
    assert RunLog(path).recover() == 1
    assert [r.result.seconds for r in read_log(path).records] == [(0.5,)]
    log = RunLog(path)
    log.claim(task_json, ["s3"])
    log.close()  # nothing is known
    assert journals(tmp_path) == []


def test_a_batch_that_was_recorded_is_not_recorded_again(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    log.claim(task_json, ["s1"])
    log.note(record(task_json, 1, 0.5))
    log.append([record(task_json, 1, 0.5, 0.5)])
    dies(log)
    assert RunLog(path).recover() == 0
    assert len(read_log(path).records) == 1


def test_a_run_that_lives_is_left_alone_and_others_take_other_candidates(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    first, second = RunLog(path), RunLog(path)
    first.append()
    assert first.claim(task_json, ["s1", "s2"]) == (set(), [])
    first.note(record(task_json, 1, 0.5))
    assert second.recover() == 0
    assert second.claim(task_json, ["s2", "s3"])[0] == {"s2"}
    first.append([record(task_json, 1, 0.5), record(task_json, 2, 0.5)])
    first.claim(task_json, ["s4"])
    taken, new = second.claim(task_json, ["s1", "s4", "s5"])
    assert taken == {"s1", "s4"}
    assert [state for _, state in new] == ["s1", "s2"]
    assert second.claim(task_json, ["s5"]) == (set(), [])  # told once
    other = Task.from_workload("matmul", M=4, N=4, K=4).to_json()
    assert second.claim(other, ["s4"])[0] == set()
    first.close()
    second.close()
    assert journals(tmp_path) == []


def test_each_task_of_a_run_is_told_what_others_have_recorded_of_it(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    """Whichever claims first; a claim of one task made the others miss their records."""
    other_json = Task.from_workload("matmul", M=4, N=4, K=4).to_json()
    path = tmp_path / "r.jsonl"
    first, second = RunLog(path), RunLog(path)
    first.append([record(task_json, 1, 0.5), record(other_json, 2, 0.5)])
    assert second.claim(task_json, ["s1", "s2"])[0] == {"s1"}
    assert second.claim(other_json, ["s1", "s2"])[0] == {"s2"}
    first.append([record(task_json, 3, 0.5)])
    assert second.claim(other_json, ["s3"]) == (set(), [])
    assert second.claim(task_json, ["s1", "s3"])[0] == {"s3"}  # each told once
    second.close()


def test_runs_of_one_process_number_have_journals_of_their_own(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two containers, say, whose first process is number 1; the second run waited forever."""
    path = tmp_path / "r.jsonl"
    monkeypatch.setattr(os, "getpid", lambda: 1)
    logs = []
    for states, others in ((["s1"], set()), (["s1", "s2"], {"s1"}), (["s3"], set())):
        monkeypatch.setattr(journal, "_RUNS", itertools.count())
        logs.append(RunLog(path))
        logs[-1].append()
        assert logs[-1].claim(task_json, states)[0] == others
        logs[-1].note(record(task_json, len(logs), 0.5))
    dies(logs[0])
    assert len(journals(tmp_path)) == 3
    monkeypatch.setattr(journal, "_RUNS", itertools.count())
    assert RunLog(path).recover() == 1  # has the name of the dead one
    assert [r.search["state"] for r in read_log(path).records] == ["s1"]
    for number, log in enumerate(logs[1:], 2):
        log.append([record(task_json, number, 0.5)])
        log.close()
    assert journals(tmp_path) == []


def test_a_link_to_the_record_file_is_the_record_file(
    tmp_path: Path, task_json: dict[str, Any]
) -> None:
    path, link = tmp_path / "r.jsonl", tmp_path / "links" / "latest.jsonl"
    link.parent.mkdir()
    link.symlink_to(path)
    first, second = RunLog(path), RunLog(link)
    first.append()
    first.claim(task_json, ["s1"])
    assert second.claim(task_json, ["s1", "s2"])[0] == {"s1"}
    second.note(record(task_json, 2, 0.5))
    dies(second)
    assert (len(journals(tmp_path)), journals(link.parent)) == (2, [])
    assert first.recover() == 1


def recovered_before_a_lock(
    monkeypatch: pytest.MonkeyPatch, path: Path, when: Callable[[int], bool]
) -> list[int]:
    """How many records another run recovers, once, just before this one locks a file `when` so."""
    lock, asked, found = fcntl.flock, list[int](), list[int]()

    def late(file: Any, how: int) -> None:
        if when(how) and not asked:
            asked.append(how)
            found.append(RunLog(path).recover())
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    return found


def test_a_journal_that_another_takes_over_is_left_to_it(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that begin at once: the second opens it, and has the lock when it is gone."""
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    log.claim(task_json, ["s1"])
    log.note(record(task_json, 1, 0.5))
    dies(log)
    found = recovered_before_a_lock(monkeypatch, path, lambda how: bool(how & fcntl.LOCK_NB))
    assert RunLog(path).recover() == 0
    assert (found, len(read_log(path).records)) == ([1], 1)


def test_a_journal_that_is_taken_for_a_dead_runs_is_made_again(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock."""
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    found = recovered_before_a_lock(monkeypatch, path, lambda _: bool(journals(tmp_path)))
    log.claim(task_json, ["s1"])
    log.note(record(task_json, 1, 0.5))
    assert (found, len(journals(tmp_path))) == ([0], 1)
    dies(log)
    assert RunLog(path).recover() == 1


def test_what_a_later_version_left_stays_for_it(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    log.claim(task_json, ["s1"])
    log.note(record(task_json, 1, 0.5))
    dies(log)
    (left,) = journals(tmp_path)
    left.write_text(left.read_text().replace('"schema":2', '"schema":3'))
    assert RunLog(path).recover() == 0
    assert journals(tmp_path) == [left]


@pytest.mark.parametrize("line", ['{"claims": [["HASH", {}], ["HASH", "s1"]]}', "[" * 100_000, "7"])
def test_damaged_lines_and_claims_stop_no_run(
    tmp_path: Path, task_json: dict[str, Any], line: str
) -> None:
    line = line.replace("HASH", task_hash(task_json)) + "\n"
    path = tmp_path / "r.jsonl"
    path.write_text(line_of({"environment": {}, "hash": "e"}) + line)
    (tmp_path / f"r.jsonl.1-0{SUFFIX}").write_text(line)
    log = RunLog(path)
    taken, new = log.claim(task_json, ["s1", "s2"])
    assert (taken, new) == ({"s1"} if "claims" in line else set(), [])
    log.close()
    assert RunLog(path).recover() == 0


def test_what_was_read_before_is_no_news(tmp_path: Path, task_json: dict[str, Any]) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append([record(task_json, 1, 0.5)])
    seen = path.stat().st_size
    RecordLog(path).append([record(task_json, 2, 0.5)])
    with path.open("a") as file:  # a foreign line, and one of another program
        file.write('{"odd": 1}\n[]\n')
    log = RunLog(path, seen=seen)
    taken, new = log.claim(task_json, ["s1", "s2"])
    log.close()
    assert (taken, [state for _, state in new]) == ({"s2"}, ["s2"])


def test_without_a_place_for_it_a_run_goes_on(tmp_path: Path, task_json: dict[str, Any]) -> None:
    log = RunLog("/dev/null")
    log.append()
    assert log.claim(task_json, ["s1"]) == (set(), [])
    log.note(record(task_json, 1, 0.5))
    log.append([record(task_json, 1, 0.5)])
    log.close()
    found = RunLog(tmp_path / "r.jsonl")
    found.append()
    found._journal_path = tmp_path / "none" / "r"
    assert found.claim(task_json, ["s1"]) == (set(), [])
    found.note(record(task_json, 1, 0.5))


def test_a_deleted_record_file_that_has_no_room_is_kept_before_a_batch_is_begun(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append([record(task_json, 0, 1.0)])
    path.unlink()

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match="deleted is in ") as no:
        limit_room(patch, up_to(path, 0))
        log.claim(task_json, ["s1"])
    (rest,) = (tmp_path / "elsewhere").iterdir()
    assert f" is in {rest}, a record file" in str(no.value)
    assert len(read_log(rest).records) == 1
    log.close()


@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_full_disk_costs_the_journal_not_the_run(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """It goes, which makes room for what the record file is given."""
    log = RunLog(tmp_path / "r.jsonl")
    log.append()
    left = [room]  # writes to the journal that fit

    def room_for(file: int) -> int:
        left[0] -= file == log._journal
        return 0 if file == log._journal and left[0] < 0 else PLENTY

    limit_room(monkeypatch, room_for)
    assert log.claim(task_json, ["s1", "s2"]) == (set(), [])
    log.note(record(task_json, 1, 0.5))
    log.note(record(task_json, 2, 0.5))
    assert (left[0], journals(tmp_path)) == (-1, [])
    log.append([record(task_json, 1, 0.5)])
    left[0] = 10
    assert log.claim(task_json, ["s3"])[0] == set()  # with one again, where there is room
    assert len(journals(tmp_path)) == 1
    log.close()
    assert (len(read_log(tmp_path / "r.jsonl").records), journals(tmp_path)) == (1, [])


def test_what_cannot_be_recorded_is_left_to_the_next_run(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append([record(task_json, 0, 1.0)])
    batch = [record(task_json, 1, 0.5), record(task_json, 2, 0.25)]
    log.claim(task_json, ["s1", "s2"])
    for each in batch:
        log.note(each)
    before = path.read_bytes()
    most = len(before) + len(before.splitlines()[-1]) * 3 // 2  # one of two lines fits

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match="No space left") as no:
        limit_room(patch, up_to(path, most))
        log.append(batch)
    log.close()
    assert path.read_bytes() == before
    (left,) = journals(tmp_path)
    assert str(no.value).endswith(
        f"; {left} holds the results of the batch, and the next run on {path} takes them over"
    )
    with monkeypatch.context() as patch, pytest.raises(RecordsError) as no:
        limit_room(patch, up_to(path, most))
        RunLog(path).recover()
    assert str(no.value).endswith(
        f"No space left on device; results of an earlier run stay in {left}"
    )
    assert len(journals(tmp_path)) == 1
    assert RunLog(path).recover() == 2
    assert [r.result.seconds for r in read_log(path).records] == [(1.0,), (0.5,), (0.25,)]
    assert journals(tmp_path) == []


@pytest.mark.parametrize("noted", [0, 1])
def test_a_batch_without_a_journal_is_kept_as_far_as_it_fits(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch, noted: int
) -> None:
    """It was lost as a whole: the journal had no room, and went, and the batch had none."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append([record(task_json, 0, 1.0)])
    log.claim(task_json, ["s1", "s2"])
    line = len(path.read_bytes().splitlines()[-1])
    records = up_to(path, path.stat().st_size + line + line // 2)
    left = [noted]  # writes to the journal that fit

    def room_for(file: int) -> int:
        left[0] -= file == log._journal
        return 0 if file == log._journal and left[0] < 0 else records(file)

    batch = [record(task_json, k, 1.0 + k) for k in (1, 2)]
    with monkeypatch.context() as patch:
        limit_room(patch, room_for)
        for each in batch:
            log.note(each)
        assert journals(tmp_path) == []
        with pytest.raises(RecordsError, match=r"1 result of the batch is in .*elsewhere"):
            log.append(batch)
    log.close()
    (rest,) = (tmp_path / "elsewhere").iterdir()
    assert [r.result.cost for r in read_log(path).records] == [1.0, 2.0]
    assert [r.result.cost for r in read_log(rest).records] == [3.0]
    assert (RunLog(path).recover(), journals(tmp_path)) == (0, [])


def test_a_record_beside_the_batches_leaves_no_journal(
    tmp_path: Path, task_json: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a race, which no journal holds."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "r.jsonl"
    log = RunLog(path)
    log.append()
    log.claim(task_json, ["s1"])
    log.note(record(task_json, 1, 0.5))
    log.append([record(task_json, 1, 0.5)])
    assert len(journals(tmp_path)) == 1

    with monkeypatch.context() as patch, pytest.raises(RecordsError, match=r"and is lost$"):
        limit_room(patch, nothing)
        log.append([record(task_json, 1, 0.25)])
    assert journals(tmp_path) == []


KILLED = """
import os, sys
from autosched.session.session import Job, MeasureOptions, Session
from autosched.measure.run_options import RunOptions
from autosched.search.tuner import TuneOptions
from autosched.task import Task
moment = int(sys.argv[2])
import autosched.measure.journal as journal
write, told = journal.write_whole, 0
def counted(file, text):
    global told
    write(file, text)
    told += '"schema"' in text
    if told == moment:
        os.kill(os.getpid(), 9)
journal.write_whole = counted
job = Job(Task.from_workload("matmul", M=16, N=16, K=16),
          TuneOptions(trials=4, batch=4, cost_model="random"))
run = RunOptions(min_repeat_ms=4.0, visits=3, repeats=1)
measure = MeasureOptions(run=run, workers=1, check="none")
with Session([job], records=__import__("pathlib").Path(sys.argv[1]), measure=measure) as session:
    session.run()
"""


@pytest.mark.parametrize("moment", [6])
def test_a_tuner_that_is_killed_loses_one_visit(tmp_path: Path, moment: int) -> None:
    """A real run, killed at its n-th result; the next one has all the others."""
    path = tmp_path / "r.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(moment)], capture_output=True, text=True
    )
    assert done.returncode == -9, done.stderr
    assert len(journals(tmp_path)) == 1
    assert RunLog(path).recover() == min(moment, 4)
    contents = read_log(path)
    assert (len(contents.records), contents.problems) == (min(moment, 4), [])
    assert sum(len(r.result.seconds) for r in contents.records) == moment
    assert all(replace(r, time="").environment for r in contents.records)
