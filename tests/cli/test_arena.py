"""`autosched arena` on a recorded log of Ansor's."""

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

from kit.cli import Cli

LOG = Path(__file__).parents[1] / "golden" / "ansor_log_matmul.json"
QUICK = ("--model", "random", "--trials", "16", "--seeds", "2", "--batch", "8")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first 24 candidates of the log, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    lines = LOG.read_text().splitlines()[:24]
    path = tmp_path / "mm.json"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_table_file_and_json(cli: Cli, log: Path) -> None:
    done = cli("arena", log, *QUICK, "--search", "random", "--search", "greedy", "-o", "runs.csv")
    assert done.status == 0
    assert "24 candidates of 1 task; nothing is measured" in done.err
    head, _, first, second = done.out.splitlines()
    assert head.split("|")[-2].strip() == "regret after 16 [%]"
    assert "random, random" in first and "random, greedy" in second
    with Path("runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 16 and {row["operator"] for row in rows} == {"matmul"}
    again = cli("arena", log, *QUICK, "--json")
    data = json.loads(again.out)
    assert data["seeds"] == 2 and len(data["runs"]) == 2 * 16
    assert data["runs"][0]["rank_accuracy"] is None  # no other operator to learn from


@pytest.mark.parametrize("width", [200, 100, 60, 40, 24])
def test_the_table_fits_the_terminal(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = cli("arena", log, *QUICK, "--search", "random", "--trials", "24")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(done.out.split())
    assert "matmul(M=512, N=512, K=512)" in words and "random, random" in words
    assert "regret after 16 [%]" in words or width < 30
    assert (lines[0].startswith("| task ") and "top 8" in words) == (width >= 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "mm.json"), "expected a file name ending in .csv or .html"),
        (("-o", "old.csv"), "old.csv exists; give another file with -o, or --force"),
        (("--model", "xgbost"), "model: expected xgboost, random or file.py:name, found 'xgbost'"),
        (("--held-out", "nothing"), "--held-out: expected one of operator, task, all"),
        (("--search", "gready"), "search: expected"),
        (("--model", "random", "--model", "random"), "models of different names, found random"),
        (("--features", "mine"), "mine"),
        (("--force",), "--force is only for --output FILE; add that option, or omit this one"),
    ],
)
def test_refusals(cli: Cli, log: Path, options: tuple[str, ...], message: str) -> None:
    shutil.copy(log, "old.csv")
    done = cli("arena", log, "--trials", "8", "--seeds", "1", *options)
    assert done.status == 2 and message in done.err and done.out == ""
    assert "nothing is measured" not in done.err  # refused before features are worked out
    assert Path("old.csv").read_text() == log.read_text()


def test_an_output_that_cannot_be_written_is_refused_before_the_contest(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("folder.html").mkdir()
    for output, message in (
        ("folder.html", "cannot write folder.html: it is a folder"),
        ("none/runs.csv", "cannot write none/runs.csv: choose a folder you can write to"),
    ):
        done = cli("arena", log, *QUICK, "-o", output, "--force")
        assert done.status == 2 and message in done.err and "nothing is measured" not in done.err
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    done = cli("arena", log, *QUICK, "-o", "runs.html")
    assert done.status == 2 and "plot needs it: pip install --force-reinstall plotly" in done.err
    assert "nothing is measured" not in done.err


def test_records_without_candidates(cli: Cli, log: Path) -> None:
    log.write_text("")
    done = cli("arena", log, *QUICK)
    assert done.status == 2 and "no task with candidates to choose from" in done.err
