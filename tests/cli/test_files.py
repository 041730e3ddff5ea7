"""`-` where a command writes a file: standard output, or refused in words."""

from pathlib import Path

import pytest

from autosched.measure.records import read_log
from kit.cli import Cli


@pytest.mark.parametrize("command", [("merge",), ("convert",), ("trim", "--best", 9)])
def test_records_go_to_standard_output(
    cli: Cli, log: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    done = cli("records", *command, log, "-o", "-")
    assert done.status == 0
    assert "written to standard output" in done.err
    assert not (tmp_path / "-").exists()
    (tmp_path / "copy.jsonl").write_text(done.out)
    named = cli("records", *command, log, "-o", "named.jsonl")
    assert named.out == ""
    assert done.out == (tmp_path / "named.jsonl").read_text()
    assert len(read_log(tmp_path / "copy.jsonl").records) > 0


def test_nothing_is_printed_where_nothing_can_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    done = cli("records", "merge", "empty.jsonl", "-o", "-")
    assert (done.status, done.out) == (2, "")


def test_a_page_goes_to_standard_output_without_a_line_about_it(
    cli: Cli, log: Path, tmp_path: Path
) -> None:
    done = cli("report", log, "--no-measure", "-o", "-")
    assert done.status == 0
    assert done.out.lower().startswith("<!doctype html>")
    assert done.out.rstrip().endswith("</html>")
    assert "standard output: " in done.err
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("build", "{log}", "-o", "-"), "--output"),
        (("dataset", "export", "{log}", "-o", "-"), "--output"),
        (("tune", "matmul", "M=16", "N=16", "K=16", "--records", "-", "--fresh"), "--records"),
        (("tune", "matmul", "M=16", "N=16", "K=16", "--save-model", "-"), "--save-model"),
    ],
)
def test_what_cannot_go_to_standard_output_says_so(
    cli: Cli, log: Path, tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    done = cli(*(str(log) if part == "{log}" else part for part in command))
    assert done.status == 2
    assert f"error: {option} -: this is not written to standard output" in done.err
    assert not (tmp_path / "-").exists()


def test_help_says_which_options_take_it(cli: Cli) -> None:
    for command in (("records", "merge"), ("records", "trim"), ("records", "convert"), ("report",)):
        assert "- is standard output" in " ".join(cli(*command, "--help").out.split())
