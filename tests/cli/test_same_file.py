"""A record file that is given twice counts once: by its path, another one, or a link."""

import csv
import json
import os
from pathlib import Path

import pytest

from autosched.measure.records import read_log
from kit.cli import Cli


@pytest.fixture(params=["path", "relative", "link", "hard"])
def twice(log: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """The file, and it once more."""
    other = log.with_name("other.jsonl")
    if request.param == "path":
        return log, log
    if request.param == "relative":
        return log, Path(os.path.relpath(log))
    if request.param == "link":
        other.symlink_to(log)
    else:
        other.hardlink_to(log)
    return log, other


def said(one: Path, other: Path) -> str:
    again = "is given twice" if one == other else f"is the same file as {one}"
    return f"warning: {other} {again}; it is read once"


def test_a_dataset_has_its_candidates_once(cli: Cli, twice: tuple[Path, Path]) -> None:
    done = cli("dataset", "export", *twice, "-o", "d.csv")
    assert said(*twice) in done.err and "3 candidates (1 failed), 1 task" in done.err
    with Path("d.csv").open() as file:
        assert len({row["candidate"] for row in csv.DictReader(file)}) == 3
    assert Path("d.csv.md").read_text().count(twice[0].name) == 1


def test_tables_count_them_once(cli: Cli, twice: tuple[Path, Path]) -> None:
    done = cli("records", "top", "9", *twice)
    assert said(*twice) in done.err and "3 candidates, 2 valid" in done.out
    (found,) = json.loads(cli("records", "best", *twice, "--json").out)["tasks"]
    assert found["records"] == 3


def test_what_is_merged_is_of_one_file(cli: Cli, twice: tuple[Path, Path]) -> None:
    done = cli("records", "merge", *twice, "-o", "all.jsonl")
    assert said(*twice) in done.err
    assert "3 records of 1 file written to all.jsonl\n" in done.err
    assert len(read_log("all.jsonl").records) == 3


def test_a_report_has_one_run(cli: Cli, twice: tuple[Path, Path]) -> None:
    pytest.importorskip("jinja2")
    done = cli("report", *twice, "-o", "r.html", "--no-measure")
    assert said(*twice) in done.err
    assert done.out.startswith("r.html: 1 task in 1 file, 3 candidates, ")


def test_the_arena_and_the_cache_read_it_once(
    cli: Cli, twice: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(*twice) in cli("arena", *twice, "--model", "random", "--seeds", "1").err
    monkeypatch.setenv("AUTOSCHED_CACHE", str(twice[0].parent / "cache"))
    done = cli("cache", "add", *twice)
    assert said(*twice) in done.err
    assert done.out == "matmul(M=16, N=16, K=16): 3 records added\n"


def test_a_copy_is_another_file(cli: Cli, log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes())
    done = cli("records", "top", "9", log, copy)
    assert "read once" not in done.err and "6 candidates" in done.out
