"""`autosched cache`: what is kept for Python programs."""

import errno
import json
import os
from pathlib import Path

import pytest

import autosched
from autosched.codegen.cubin_cache import CubinCache
from autosched.codegen.nvrtc import Compiled
from autosched.measure.records import read_log
from autosched.measure.standing import best_of
from autosched.runtime.loop_cache import loop_files
from autosched.session import kernel_cache
from autosched.task import Task
from kit.cli import Cli
from kit.full_disk import limit_room, nothing
from kit.records import record, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_records_are_added_listed_and_found(cli: Cli, log: Path, folder: Path) -> None:
    assert cli("cache", "path").out == f"{folder}\n"
    done = cli("cache", "list")
    assert (done.status, done.out, done.err) == (0, "", f"the cache {folder} is empty\n")
    name = "matmul(M=16, N=16, K=16)"
    assert cli("cache", "add", log).out == f"{name}: 3 records added\n"
    assert cli("cache", "add", log).out == f"{name}: 0 records added\n"
    (file,) = folder.glob("*.jsonl")
    head, line = cli("cache", "list").out.splitlines()
    assert head.split() == [
        "task",
        "best",
        "records",
        "measured",
        "on",
        "autosched",
        "when",
        "file",
    ]
    assert line.startswith(f"{name}  1 ms  3 ")
    assert line.endswith(file.name)
    (entry,) = json.loads(cli("cache", "list", "--json").out)["kernels"]
    assert (entry["seconds"], entry["records"], entry["here"]) == (1e-3, 3, True)
    kernel = autosched.kernel("matmul", M=16, N=16, K=16)
    assert kernel.origin is not None
    assert read_log(file).records == read_log(log).records


@pytest.mark.parametrize("of_a_later_version", [False, True])
def test_a_disk_that_is_full_is_said_of_the_cache(
    cli: Cli, log: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, of_a_later_version: bool
) -> None:
    """It was said of a file with another name, or of none."""

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if of_a_later_version:
        monkeypatch.setattr(kernel_cache, "_keep", full)
    else:
        limit_room(monkeypatch, nothing)
    done = cli("cache", "add", log)
    assert done.status == 2
    said = f"cannot write to the cache of kernels {folder}: No space left on device; set"
    assert said in done.err and "Errno" not in done.err
    assert not list(folder.glob("*.jsonl*"))


def test_a_task_without_a_workload_is_listed_by_its_key(cli: Cli, log: Path, folder: Path) -> None:
    folder.mkdir()
    key = read_log(log).records[0].task["key"]
    (folder / f"matmul-{key}.jsonl").write_text(log.read_text().replace('"workload":', '"other":'))
    assert f"task {key}  1 ms" in cli("cache", "list").out


def test_kernels_are_removed_by_name(cli: Cli, log: Path, folder: Path) -> None:
    cli("cache", "add", log)
    for words, message in (
        ((), "expected names of operators or files, or --all"),
        (("softmax", "--all"), "expected names of operators or files, or --all"),
        (("softmax",), "has no kernel of softmax"),
    ):
        done = cli("cache", "clear", *words)
        assert (done.status, done.out) == (2, "")
        assert message in done.err
    assert cli("cache", "clear", "matmul").out == f"1 kernel removed from {folder}\n"
    assert cli("cache", "clear", "--all").out == f"0 kernels removed from {folder}\n"
    assert not list(folder.iterdir())
    cubins = folder / "cubins"
    CubinCache(cubins).put("key", Compiled(b"code", "", {}, 0.5, "sm_80"))
    assert cli("cache", "clear", "--all").out == (
        f"0 kernels removed from {folder}\n1 compiled GPU kernel removed from {cubins}\n"
    )
    cubins.rmdir()
    loops = loop_files()
    assert loops is not None
    loops.put("key", b"code")
    assert cli("cache", "clear", "--all").out == (
        f"0 kernels removed from {folder}\n1 compiled loop removed from {loops.folder}\n"
    )
    loops.folder.rmdir()
    cli("cache", "add", log)
    (file,) = folder.glob("*.jsonl")
    file.rename(file.with_suffix(".part.jsonl"))  # of a run that was killed
    assert cli("cache", "list").out == ""
    assert cli("cache", "clear", "matmul").out == f"1 kernel removed from {folder}\n"
    assert not list(folder.iterdir())


def test_a_task_that_cannot_be_rebuilt_leaves_the_others(
    cli: Cli, log: Path, tmp_path: Path
) -> None:
    """Of a Python file that is not trusted."""
    lines = log.read_text()
    task = read_log(log).records[0].task
    mine = {**task, "workload": {"python": "ops.py:mine", "args": {}}, "key": "0" * 16}
    theirs = lines.replace(json.dumps(task, separators=(",", ":")), json.dumps(mine))
    assert theirs != lines
    both = tmp_path / "both.jsonl"
    both.write_text(theirs + lines)
    done = cli("cache", "add", both)
    assert (done.status, done.out) == (0, "matmul(M=16, N=16, K=16): 3 records added\n")
    assert "is left out: workload: python: a record names" in done.err
    both.write_text(theirs)
    done = cli("cache", "add", both)
    assert (done.status, done.out) == (2, "") and "add --trust" in done.err


def test_records_of_two_machines_whose_environments_have_one_name(
    cli: Cli, log: Path, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "steps" not in line and "environment" in line:
            line["environment"]["cpu"] = "Another CPU"
        elif "steps" in line:
            line["result"]["seconds"] = [each / 3 for each in line["result"]["seconds"]]
    other.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    cli("cache", "add", log, other)
    (entry,) = json.loads(cli("cache", "list", "--json").out)["kernels"]
    assert (entry["seconds"], entry["here"]) == (1e-3, True)


def test_a_race_stays_won_whichever_file_is_added_first(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    """The loser's lucky time of the day before is no faster record that was measured later."""
    task = Task.from_workload("matmul", M=16, N=16, K=16).to_json()
    times = [f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 2)]
    made = [record(k, 1e-3, time=times[k], task=task) for k in (0, 1)]
    made.append(record(1, 2e-3, [0], time=times[2], task=task))
    first = write(tmp_path / "first.jsonl", made[:1])
    second = write(tmp_path / "second.jsonl", made[1:])
    for files in ([first, second], [second, first]):
        cli("cache", "add", *files)
        (file,) = folder.glob("*.jsonl")
        found = read_log(file).records
        assert [each.to_json() for each in found] == [each.to_json() for each in made]
        assert best_of(found) is found[2]
        cli("cache", "clear", "matmul")


def test_what_cannot_be_read_is_told(cli: Cli, log: Path, folder: Path, tmp_path: Path) -> None:
    cli("cache", "add", log)
    (file,) = folder.glob("*.jsonl")
    (folder / "other-0123.jsonl").mkdir()
    with file.open("a") as lines:
        lines.write("{torn")
    done = cli("cache", "list")
    assert len(done.out.splitlines()) == 2
    assert "other-0123.jsonl" in done.err and "cut short" in done.err
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert "empty.jsonl holds no record; expected a file that" in cli("cache", "add", empty).err


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("clear", "--all")])
def test_a_file_is_no_cache(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    file = tmp_path / "mm.jsonl"
    file.touch()
    for folder in (file, file / "kernels"):
        monkeypatch.setenv("AUTOSCHED_CACHE", str(folder))
        done = cli("cache", *words)
        assert (done.status, done.out) == (2, "")
        assert f"cannot read the cache of kernels {folder}: Not a directory; set AUTO" in done.err
