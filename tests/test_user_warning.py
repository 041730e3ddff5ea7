"""Warnings name the user's line, however deep in the package something is noticed."""

import warnings
from pathlib import Path

import pytest

import autosched
from autosched import records
from kit.records import record, written_here


def lines_of(found: list[warnings.WarningMessage]) -> list[str]:
    return [Path(each.filename).read_text().splitlines()[each.lineno - 1] for each in found]


def test_the_line_is_the_callers(tmp_path: Path) -> None:
    path = written_here(tmp_path / "a.jsonl", record(0))
    path.write_text(path.read_text() + "what\n")
    with pytest.warns(UserWarning, match="line") as found:
        list(records.best(path))
        autosched.load_best(path)
        autosched.write_report(path, tmp_path / "report.html")
    assert list(dict.fromkeys(line.strip() for line in lines_of(list(found)))) == [
        "list(records.best(path))",
        "autosched.load_best(path)",
        'autosched.write_report(path, tmp_path / "report.html")',
    ]
