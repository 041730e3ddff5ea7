"""`autosched records top`, `best`, `diff`, `merge` and `trim` as their user sees them."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.records import raced
from autosched.session.this_cpu import best_for_here
from autosched.state.steps import steps_from_json, steps_to_json
from kit.cli import Cli, MakeRecord, default_interrupts
from kit.measurer import StubMeasurer
from kit.records import SLOW, STEPS, entry, record, write


@pytest.fixture
def other(tmp_path: Path, log: Path) -> Path:
    """Records of the same task on another CPU, and of another task."""
    task = read_log(log).records[0].task
    there = {**task, "target": {**task["target"], "cpu": SLOW}}
    rows = [replace(each, task=there) for each in read_log(log).records]
    return write(tmp_path / "other.jsonl", [*rows, record(0, 5e-3, task=entry(32))])


@pytest.mark.parametrize("columns", ["40", "80"])
def test_tables_fit_the_terminal(
    cli: Cli, log: Path, other: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command in (("top", 2), ("best",), ("diff",)):
        done = cli("records", *command, log.name, other.name)
        assert (done.status, done.err) == (0, "")
        assert "1 ms" in done.out
        assert all(len(line) <= int(columns) for line in done.out.splitlines()), done.out


def test_top_and_best_lead_to_the_records(cli: Cli, log: Path, other: Path) -> None:
    done = cli("records", "top", 2, log)
    assert "3 candidates, 2 valid\nrank  time  95% interval" in done.out
    assert [line.split()[0] for line in done.out.splitlines()[3:]] == ["1", "2"]
    (group,) = json.loads(cli("records", "top", 1, log, "--json").out)["groups"]
    assert (group["here"], group["top"][0]["index"]) == (True, 1)
    table = cli("records", "best", log, other).out
    assert f"{log}:1" in table and f"{other}:3" in table
    tasks = json.loads(cli("records", "best", log, other, "--json").out)["tasks"]
    assert [task["best"]["seconds"] for task in tasks] == [1e-3, 5e-3]


def test_diff_says_which_is_faster_and_what_is_in_one_only(
    cli: Cli, log: Path, other: Path, make_faster: Path
) -> None:
    done = cli("records", "diff", log, make_faster)
    assert "B's best is 10.00 times as fast as A's\n" in done.out
    assert "A's best takes" not in done.out and "best is the same candidate" in done.out
    done = cli("records", "diff", log, other)
    assert "no clear difference" in done.out and "only in B" in done.out
    assert re.search(
        r"^ +time +95% interval +rate .*\n +A +1 ms +1 ms to 1 ms .*\n +B +1 ms +1 ms to 1 ms ",
        done.out,
        re.MULTILINE,
    )
    assert "B measured on slow-cpu" in done.out
    found = json.loads(cli("records", "diff", log, other, "--json").out)
    assert (found["tasks"][0]["ratio"], len(found["only_b"]), found["only_a"]) == (1.0, 1, [])


def test_a_race_follows_what_the_records_say(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {STEPS[0]: 1e-3, STEPS[1]: 2e-3}
    stub = StubMeasurer(seconds=lambda steps: quick[steps], noise=lambda: 1.0)
    monkeypatch.setattr(raced, "Measurer", stub)
    monkeypatch.setenv("COLUMNS", "200")
    a, b = (write(tmp_path / name, [record(k)]) for k, name in enumerate("ab"))
    done = cli("records", "diff", a, b, "--race")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(
        "    in turns on this machine, 60 visits: 1 ms and 2 ms, B takes 2.000 of A's time "
        "(2.000 to 2.000, 95%): A is faster\n"
    )
    (task,) = json.loads(cli("records", "diff", a, b, "--race", "--json").out)["tasks"]
    assert (task["race"]["faster"], task["race"]["seconds"]) == ("a", [1e-3, 2e-3])
    assert cli("records", "diff", a, a, "--race").out == cli("records", "diff", a, a).out
    monkeypatch.setattr(raced, "Measurer", StubMeasurer())  # it builds nothing
    assert "no race: record 0 of " in cli("records", "diff", a, b, "--race").out
    refused = cli("records", "diff", a, b, "--share")
    assert refused.status == 2
    assert refused.err == "error: --share is only for --race; add that option, or omit this one\n"


def test_every_key_of_json_is_documented(cli: Cli, log: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "semantics" / "records.md").read_text()
    for command in (("top", 1, log), ("best", log), ("diff", log, log, "--race")):
        found = cli("records", *command, "--json").out
        assert not [
            key
            for key in re.findall(r'"(\w+)": ', found)
            if f"`{key}`" not in page and key not in ARGUMENTS
        ]


ARGUMENTS = {"op", "args", "M", "N", "K", "dtype"}  # of the workload


@pytest.fixture
def make_faster(tmp_path: Path, record: MakeRecord) -> Path:
    path = tmp_path / "faster.jsonl"
    RecordLog(path).append([record(1e-4)])
    return path


def test_times_at_the_ends_of_what_records_hold_are_compared(cli: Cli, tmp_path: Path) -> None:
    """The task cannot be rebuilt, so that nothing says which times are impossible."""
    task = {**entry(), "workload": {"op": "future"}}
    a, b = (write(tmp_path / f"{s}", [record(0, s, task=task)]) for s in (1e9, 5e-324))
    assert "B's best is inf times as fast as A's" in cli("records", "diff", a, b).out
    assert "A's best is inf times as fast as B's" in cli("records", "diff", b, a).out
    assert json.loads(cli("records", "diff", a, b, "--json").out)["tasks"][0]["ratio"] == 0


def test_the_best_is_one_whose_steps_apply(cli: Cli, tmp_path: Path) -> None:
    """Commands chose the fastest, and failed with it."""
    wrong = replace(record(0, 1e-3), steps=steps_from_json([["PR", 99, 0, "x$16"]]))
    path = write(tmp_path / "r.jsonl", [record(0, 2e-3), wrong])
    passed_over = "1 record of matmul(M=16, N=16, K=16) passed over whose steps do not apply to it"
    for command in (("records", "best"), ("records", "info"), ("show",), ("replay",)):
        done = cli(*command, path)
        assert done.status == 0
        assert passed_over in done.err and "2 ms" in done.out + cli("records", "best", path).out
    assert "there are only 3 stages" in cli("show", path, "--index", 1).err
    done = cli("show", write(tmp_path / "wrong.jsonl", [wrong]))
    assert done.status == 3 and "there are only 3 stages" in done.err


def test_the_next_best_are_some_whose_steps_apply(cli: Cli, tmp_path: Path) -> None:
    """The second is what would be the best without the first."""
    wrong = replace(record(0, 2e-3), steps=steps_from_json([["PR", 99, 0, "x$16"]]))
    path = write(tmp_path / "r.jsonl", [record(0, 1e-3), wrong, record(1, 3e-3)])
    done = cli("records", "top", 2, path, "--json")
    (group,) = json.loads(done.out)["groups"]
    assert [each["index"] for each in group["top"]] == [0, 2]
    assert "1 record of matmul(M=16, N=16, K=16) passed over whose steps do not" in done.err
    cli("records", "trim", path, "--best", 2, "-o", "small.jsonl")
    assert [r.result.cost for r in read_log("small.jsonl").records] == [1e-3, 3e-3]


def test_races_say_nothing_of_other_machines(cli: Cli, tmp_path: Path) -> None:
    """Whoever looks for the best takes the fastest of each machine's bests, before and after."""
    task = entry(cpu=SLOW)
    path = write(
        tmp_path / "r.jsonl",
        [
            record(0, 1e-3, task=task, environment="one"),
            record(1, 4e-3, task=task, environment="two"),
            record(1, 3e-3, [0], task=task, environment="two"),  # where 0 takes longer
        ],
        {"one": {"cpu": "One"}, "two": {"cpu": "Two"}},
    )
    for _ in "ab":
        (group,) = json.loads(cli("records", "best", path, "--json").out)["tasks"]
        (about,) = json.loads(cli("records", "info", path, "--json").out)["tasks"]
        found = [group["best"]["seconds"], about["best"]["seconds"], about["best"]["cpu"]]
        assert found == [1e-3, 1e-3, "One"]
        shown = cli("show", path, "--best", "--as", "steps").out
        assert json.loads(shown) == steps_to_json(STEPS[0])[0]
        contents = read_log(path)
        best = best_for_here(contents.records, contents.environments)
        assert best is not None
        assert best.result.cost == 1e-3
        cli("records", "trim", path, "--best", 1, "-o", "small.jsonl", "--force")
        path = tmp_path / "small.jsonl"


def test_merge_and_trim_say_what_they_wrote(cli: Cli, log: Path, other: Path) -> None:
    copy = log.with_name("copy.jsonl")
    copy.write_bytes(log.read_bytes())
    done = cli("records", "merge", log, other, copy, "-o", "all.jsonl")
    assert done.err == "7 records of 3 files written to all.jsonl (3 repeated, written once)\n"
    assert cli("records", "trim", "all.jsonl", "--best", 1, "-o", "few.jsonl").err.startswith(
        "3 of 7 records written to few.jsonl"
    )
    assert len(read_log("few.jsonl").records) == 3
    done = cli("records", "trim", "few.jsonl", "--best", 1, "-o", "few.jsonl", "--force")
    assert done.status == 2 and "few.jsonl is a file that is read" in done.err
    assert cli("records", "convert", "few.jsonl", "-o", "new.jsonl").status == 0


def test_newer_records_are_a_message(cli: Cli, log: Path) -> None:
    log.write_text(log.read_text().replace('"schema":2', '"schema":9'))
    for command in (("top", 1, log), ("best", log), ("merge", log, "-o", "x"), ("info", log)):
        done = cli("records", *command)
        assert "record schema 9 is newer than this program's 2; upgrade it" in done.err
        assert done.status == (0 if command[0] == "info" else 2)


def test_an_interrupt_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-P", "-m", "autosched", "records", "merge", "pipe", "-o", "out"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with (
        subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            preexec_fn=default_interrupts,
        ) as process,
        (tmp_path / "pipe").open("w"),
    ):  # opened: it reads, and has begun to write
        assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, b"interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
