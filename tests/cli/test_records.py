"""`autosched records`: conversion both ways, summaries, files that are none."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.measure.check import Seen
from autosched.measure.environment import fingerprint
from autosched.measure.plausible import least_of
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.session import this_gpu
from autosched.session.load_best import load_best
from autosched.task import Task
from kit.cli import Cli, MakeRecord
from kit.measurer import failure_of
from kit.records import record, write


def test_info_counts_candidates_failures_and_the_best(cli: Cli, log: Path) -> None:
    done = cli("records", "info", log)
    assert done.status == 0
    assert "3 records of 1 task, 0 lines skipped" in done.out
    assert "matmul(M=16, N=16, K=16) on cpu" in done.out
    assert "3 candidates, 2 valid" in done.out
    assert f"best 1 ms  0.008192 GFLOP/s on this machine ({fingerprint()['cpu']})\n" in done.out
    assert "1 failed: run timeout" in done.out


def test_info_takes_no_gpu_for_this_machines_where_there_is_none(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target="cuda").to_json()
    environments = {"e": {"cpu": "any", "gpus": [{"name": "H200"}]}}
    write(tmp_path / "gpu.jsonl", [record(0, task=task, environment="e")], environments)
    for name, where in ((None, "on H200, not this machine"), ("H200", "on this machine (H200)")):
        monkeypatch.setattr(this_gpu, "gpu_name", lambda found=name: found)
        assert where in cli("records", "info", "gpu.jsonl").out


@pytest.mark.parametrize(
    ("error", "tolerance", "short", "long"),
    [
        (3.2e-7, 2e-4, "error 3e-07", "largest relative error 3e-07"),
        (0.0, 0.0, "equal", "outputs equal the reference"),
    ],
)
def test_the_accuracy_of_the_best_is_told(
    cli: Cli, log: Path, error: float, tolerance: float, short: str, long: str
) -> None:
    record = read_log(log).records[1]
    seen = Seen(1.0, error, tolerance)
    found = replace(record, result=replace(record.result, checked=True, seen=seen))
    log.unlink()
    RecordLog(log).append([found])
    assert f"{long}\n" in cli("records", "info", log).out
    assert short in cli("records", "best", log).out
    told = json.loads(cli("records", "info", log, "--json").out)["tasks"][0]["best"]
    assert told["largest_error"] == error
    (group,) = json.loads(cli("records", "top", 1, log, "--json").out)["groups"]
    assert group["top"][0]["largest_error"] == error


def test_there_and_back_through_ansor_keeps_steps_and_times(cli: Cli, log: Path) -> None:
    assert cli("records", "convert", log, "-o", "a.v06", "--to", "ansor-v0.6").status == 0
    assert cli("records", "convert", "a.v06", "-o", "b.jsonl", "--to", "autosched").status == 0
    assert cli("records", "convert", "b.jsonl", "-o", "c.v06", "--to", "ansor-v0.6").status == 0
    first, second = (log.parent / name for name in ("a.v06", "c.v06"))
    assert first.read_text() == second.read_text()
    before, after = read_log(log).records, read_log(log.parent / "b.jsonl").records
    assert [r.steps for r in before] == [r.steps for r in after]
    assert [r.result.seconds for r in before] == [r.result.seconds for r in after]
    assert failure_of(after[2].result).kind == "timeout"


def test_a_conversion_does_not_claim_this_machine_as_the_origin(cli: Cli, log: Path) -> None:
    cli("records", "convert", log, "-o", "a.v06", "--to", "ansor-v0.6")
    cli("records", "convert", "a.v06", "-o", "b.jsonl", "--to", "autosched")
    lines = [json.loads(line) for line in (log.parent / "b.jsonl").read_text().splitlines()]
    assert [line.get("environment") for line in lines] == [None, "", "", ""]  # the task's first


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("none.jsonl", "-o", "x", "--to", "autosched"), "none.jsonl does not exist"),
        (("mm.jsonl", "-o", "x", "--to", "csv"), "expected one of autosched, ansor-v0.6"),
        (("mm.jsonl", "-o", "mm.yaml", "--to", "autosched"), "mm.yaml exists; give another"),
        (
            ("mm.jsonl", "-o", "mm.jsonl", "--to", "autosched"),
            "mm.jsonl is a file that is read; give another",
        ),
        (("mm.jsonl", "-o", "no/x", "--to", "autosched"), "cannot write no/x"),
        (("mm.jsonl", "-o", "no/x", "--to", "ansor-v0.6"), "cannot write no/x"),
        ((".", "-o", "x", "--to", "autosched"), "RECORDS: expected a file, found the folder ."),
    ],
)
def test_what_cannot_be_converted_is_said(
    cli: Cli, log: Path, config: Path, args: tuple[str, ...], message: str
) -> None:
    done = cli("records", "convert", *args)
    assert done.status == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_the_record_that_ansor_cannot_have_is_named(cli: Cli, log: Path) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, in_dtype="int8")
    RecordLog(log).append([replace(read_log(log).records[0], task=task.to_json())])
    done = cli("records", "convert", log, "-o", "a.v06", "--to", "ansor-v0.6")
    assert done.status == 2
    assert f"{log}: record 3 cannot be converted: only workloads of float32" in done.err
    assert "nothing was written" in done.err and not Path("a.v06").exists()


def test_a_damaged_file_is_read_as_far_as_it_goes(cli: Cli, log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-40] + b"\n\x00\xff\n[1]\nnull\n{}\n")
    done = cli("records", "info", log)
    assert done.status == 0
    assert "2 records of 1 task, 5 lines skipped" in done.out
    assert done.err.count("\n") == 4
    assert "warning: 2 more lines" in done.err


def test_a_task_that_cannot_be_rebuilt_is_named(cli: Cli, log: Path) -> None:
    log.write_text(log.read_text().replace('"op":"matmul"', '"op":"matmull"'))
    done = cli("records", "info", log)
    assert done.status == 0
    assert "cannot be rebuilt: unknown workload 'matmull'; did you mean 'matmul'?" in done.out


def test_force_replaces_the_output_but_not_the_source(cli: Callable[..., Any], log: Path) -> None:
    output = log.parent / "x"
    for to in ("ansor-v0.6", "autosched"):
        output.write_text("not: kept\n")
        assert "--force to replace it" in cli("records", "convert", log, "-o", "x", "--to", to).err
        assert cli("records", "convert", log, "-o", "x", "--to", to, "--force").status == 0
        contents = read_log(output)
        assert (len(contents.records), contents.problems) == (3, [])
        done = cli("records", "convert", "x", "-o", "x", "--to", "autosched", "--force")
        assert "the output: x is a file that is read" in done.err
        assert len(read_log(output).records) == 3


def test_an_output_that_cannot_be_read_is_replaced_all_the_same(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was `not readable`, although nothing reads it."""
    output = log.parent / "x"
    output.write_text(log.read_text())
    access = os.access

    def unreadable(path: Any, mode: int, **how: Any) -> bool:
        return access(path, mode, **how) and not (Path(path).name == "x" and mode == os.R_OK)

    monkeypatch.setattr(os, "access", unreadable)
    done = cli("records", "trim", log, "--best", "1", "-o", "x", "--force")
    assert (done.status, len(read_log(output).records)) == (0, 1), done.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("best", "mm.jsonl", "."), "RECORDS"),
        (("top", "3", "."), "RECORDS"),
        (("diff", ".", "mm.jsonl"), "A"),
        (("diff", "mm.jsonl", "."), "B"),
        (("merge", "mm.jsonl", ".", "-o", "x"), "RECORDS"),
        (("merge", "mm.jsonl", "-o", "."), "--output"),
        (("trim", ".", "--best", "1", "-o", "x"), "RECORDS"),
        (("trim", "mm.jsonl", "--best", "1", "-o", "."), "--output"),
        (("convert", ".", "-o", "x"), "RECORDS"),
        (("convert", "mm.jsonl", "-o", "."), "--output"),
    ],
)
@pytest.mark.usefixtures("log")
def test_a_folder_is_refused_under_the_name_of_its_argument(
    cli: Cli, words: tuple[str, ...], name: str
) -> None:
    """It was `sources[0]`, which is the name in Python."""
    done = cli("records", *words)
    assert (done.status, done.err) == (2, f"error: {name}: expected a file, found the folder .\n")


def test_info_as_json(cli: Callable[..., Any], log: Path) -> None:
    """The same as the text says; the index leads to the best record."""
    done = cli("records", "info", log, "--json")
    assert (done.status, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["file"], found["records"], found["skipped"]) == (str(log), 3, [])
    (task,) = found["tasks"]
    record = read_log(log).records[1]
    assert task.pop("best") == {
        "index": 1,
        "seconds": 1e-3,
        "flops_per_second": pytest.approx(2 * 16**3 / 1e-3),
        "cache_flush": 0,
        "cpu": fingerprint()["cpu"],
        "here": True,
        "checked": True,
        "largest_error": None,
        "time": record.time,
    }
    assert task == {
        "key": record.task["key"],
        "workload": record.task["workload"],
        "name": "matmul(M=16, N=16, K=16)",
        "target": "cpu",
        "problem": None,
        "faster_elsewhere": None,
        "records": 3,
        "valid": 2,
        "impossible": 0,
        "least_seconds": least_of(record.task),
        "failures": {"run timeout": 1},
    }
    documented = (Path(__file__).parents[2] / "docs" / "semantics" / "records.md").read_text()
    for key in (*task, "best", "index", "flops_per_second", "cpu", "here"):
        assert f"`{key}`" in documented


def test_info_as_json_of_what_cannot_be_read(cli: Callable[..., Any], log: Path) -> None:
    text = log.read_text().replace('"op":"matmul"', '"op":"matmull"')
    log.write_text(text + "{}\n")
    found = json.loads(cli("records", "info", log, "--json").out)
    assert "not a record" in found["skipped"][0]
    (task,) = found["tasks"]
    assert (task["name"], task["target"]) == (None, None)
    assert "unknown workload 'matmull'" in task["problem"]
    assert task["best"]["seconds"] == 1e-3 and task["best"]["flops_per_second"] is None
    assert json.loads(cli("records", "info", log, "--json").out)["records"] == 3


def test_times_of_another_cpu_are_said_to_be_its(
    cli: Cli, log: Path, record: MakeRecord, tmp_path: Path
) -> None:
    """They are the best only where there is none of this machine, and never without its name."""
    faster = record(1e-6)
    target = {**faster.task["target"], "cpu": "another-cpu"}
    there = replace(faster, task={**faster.task, "target": target})
    RecordLog(log).append([there])
    done = cli("records", "info", log)
    assert f"best 1 ms  0.008192 GFLOP/s on this machine ({fingerprint()['cpu']})\n" in done.out
    assert "    fastest elsewhere 1 us on another-cpu\n" in done.out
    (task,) = json.loads(cli("records", "info", log, "--json").out)["tasks"]
    assert (task["best"]["here"], task["best"]["index"]) == (True, 1)
    assert (task["faster_elsewhere"]["cpu"], task["faster_elsewhere"]["index"]) == (
        "another-cpu",
        3,
    )
    RecordLog(tmp_path / "there.jsonl").append([there])
    done = cli("records", "info", "there.jsonl")
    assert "on another-cpu, not this machine\n" in done.out
    assert "elsewhere" not in done.out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("", "an unknown CPU"),
        (" -mcpu=core-avx2 -mtriple=x86_64-linux-gnu -x", "core-avx2"),
        (" -mattr=+neon -mtriple=aarch64-linux-gnu", "aarch64-linux-gnu"),
        (" -xmcpu=y", "an unknown CPU"),
    ],
)
def test_ansors_lines_are_of_the_cpu_that_their_target_names(
    cli: Cli, log: Path, words: str, shown: str
) -> None:
    """It is shown only: code is made as if the line named none."""
    cli("records", "convert", log, "-o", "a.v06", "--to", "ansor-v0.6")
    path = log.parent / "a.v06"
    path.write_text(re.sub(r"llvm -keys=cpu[^\"]*", f"llvm -keys=cpu{words}", path.read_text()))
    for name in ("a.v06", "b.jsonl"):
        assert f"on {shown}, not this machine\n" in cli("records", "info", name).out
        assert f"{shown}\n" in cli("records", "best", name).out
        cli("records", "convert", "a.v06", "-o", "b.jsonl")
    assert not Task.from_json(read_log(path).records[0].task).target.cpu
    with pytest.warns(UserWarning) as told:
        load_best(path)
    assert f"was measured on {shown}; the kernel is built for this" in str(told[0].message)


@pytest.mark.parametrize(
    ("words", "shown"), [(" -arch=sm_61", "sm_61"), (" -xarch=sm_61", "an unknown GPU")]
)
def test_ansors_lines_are_of_the_gpu_that_their_target_names(
    cli: Cli, log: Path, words: str, shown: str
) -> None:
    cli("records", "convert", log, "-o", "a.v06", "--to", "ansor-v0.6")
    path = log.parent / "a.v06"
    path.write_text(re.sub(r"llvm -keys=cpu[^\"]*", f"cuda -keys=gpu{words}", path.read_text()))
    assert f"on {shown}, not this machine\n" in cli("records", "info", path).out
    assert f"{shown}\n" in cli("records", "best", path).out


def test_commands_take_the_next_best_where_a_time_is_impossible(
    cli: Cli, tmp_path: Path, record: MakeRecord
) -> None:
    path = tmp_path / "forged.jsonl"
    RecordLog(path).append([record(1e-9), record(1e-3)])
    done = cli("records", "info", path)
    assert "best 1 ms" in done.out
    assert "    1 not believed: no kernel takes less than " in done.out
    assert "1 record of task " in (err := cli("show", path).err) and "not believed" in err
    (task,) = json.loads(cli("records", "info", path, "--json").out)["tasks"]
    assert (task["impossible"], task["best"]["index"]) == (1, 1)
    alone = tmp_path / "alone.jsonl"
    RecordLog(alone).append([record(1e-9)])
    assert "every recorded time is impossible; choose one with --index" in cli("replay", alone).err
