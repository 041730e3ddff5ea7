"""`autosched failures`: groups of failures, and programs that try one again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.result import Failure
from autosched.state.steps import steps_from_json
from kit.cli import Cli, MakeRecord

TIMEOUT = Failure("run", "timeout", "one call took longer than 10 s (measure.timeout_s)")
LATER = Failure("run", "timeout", "one call took longer than 2.5 s (measure.timeout_s)")
ILLEGAL = Failure("lower", "illegal", "Traceback ...\nstage 'C' has no iterator 9")


@pytest.fixture
def path(tmp_path: Path, record: MakeRecord) -> Path:
    """Six records: four failed, in two ways."""
    found = tmp_path / "r.jsonl"
    steps = steps_from_json([["SP", 2, 9, 16, [4], 1]])
    failed = [record(failure=f) for f in (TIMEOUT, LATER, TIMEOUT)]
    illegal = record(steps=steps, failure=ILLEGAL)
    RecordLog(found).append([record(), failed[0], illegal, *failed[1:], record(2e-3)])
    return found


def test_a_file_without_records_has_none_to_run(cli: Cli, tmp_path: Path) -> None:
    """It said that 0 is not one of 0 to -1."""
    RecordLog(empty := tmp_path / "none here.jsonl").append()
    done = cli("failures", empty, "--repro", 0)
    assert (done.status, done.err) == (2, f"error: {empty} holds 0 records\n")


def test_the_line_to_type_is_quoted(cli: Cli, path: Path) -> None:
    again = path.rename(path.with_name("two words.jsonl"))
    assert f"again: autosched failures '{again}' --repro 1\n" in cli("failures", again).out


def test_groups_by_what_they_have_in_common(cli: Cli, path: Path) -> None:
    done = cli("failures", path)
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        f"{path}: 4 of 6 records failed\n\n"
        "3 x run timeout\n    one call took longer than 10 s (measure.timeout_s)\n"
        f"    again: autosched failures {path} --repro 1\n\n"
        "1 x lower illegal\n    stage 'C' has no iterator 9\n"
        f"    again: autosched failures {path} --repro 2\n"
    )
    found = json.loads(cli("failures", path, "--json").out)
    assert (found["records"], [f["records"] for f in found["failures"]]) == (6, [3, 1])
    assert found["failures"][1] == {**ILLEGAL.to_json(), "records": 1, "index": 2}


def test_the_program_tries_it_again(cli: Cli, path: Path) -> None:
    program = cli("failures", path, "--repro", 2).out
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    recorded, now, *_ = done.stdout.splitlines()
    assert recorded == "recorded: lower illegal: stage 'C' has no iterator 9"
    assert now.startswith("now: lower illegal: ")


@pytest.mark.parametrize(
    ("index", "words"), [(0, "record 0 of r.jsonl did not fail"), (6, "is not one of 0 to 5")]
)
def test_what_cannot_be_tried_again(cli: Cli, path: Path, index: int, words: str) -> None:
    done = cli("failures", path.name, "--repro", index)
    assert (done.status, words in done.err) == (2, True)


def test_nothing_failed(cli: Cli, tmp_path: Path, record: MakeRecord) -> None:
    RecordLog(tmp_path / "r.jsonl").append([record()])
    assert cli("failures", "r.jsonl").out == "r.jsonl: 0 of 1 record failed\n"


def test_another_signal_is_another_failure(cli: Cli, tmp_path: Path, record: MakeRecord) -> None:
    said = ["signal 11", "signal 4", "exit status 1: 7 left", "exit status 1: 9 left", "signal 11"]
    failed = [record(failure=Failure("run", "crash", f"the process died with {s}")) for s in said]
    RecordLog(tmp_path / "r.jsonl").append(failed)
    found = json.loads(cli("failures", tmp_path / "r.jsonl", "--json").out)["failures"]
    assert [(each["records"], each["index"]) for each in found] == [(2, 0), (2, 2), (1, 1)]
