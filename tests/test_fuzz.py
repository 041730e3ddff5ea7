"""benchmarks/fuzz.py in short: 600 hostile files, and that it notices what goes wrong."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("FUZZ_COMMANDS", "0.02")
    yield importlib.import_module("fuzz")
    del sys.modules["fuzz"]


SHARES = {"records": 18, "ansor": 7, "yaml": 5, "expression": 15, "dataset": 40, "model": 15}
"""What takes milliseconds more rarely than what takes less."""


def test_no_file_does_more_than_cost_a_message(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "SHARES", SHARES)
    report = fuzz.fuzz(600, 7, tmp_path)
    assert report.findings == []
    assert sum(counts.total() for counts in report.counts.values()) == 600
    for kind, counts in report.counts.items():  # neither all of it harmless, nor all refused
        assert counts["result"] and (counts["refused"] or kind in ("records", "ansor"))


def test_what_is_executed_or_written_outside_is_seen(fuzz: ModuleType, tmp_path: Path) -> None:
    watch = fuzz.Watch(tmp_path)
    watch.armed = True
    try:
        (tmp_path / "inside").write_text("x")
        assert watch.seen == []
        (tmp_path / ".." / "outside").write_text("x")
        exec(compile("1", str(tmp_path / "ops.py"), "exec"))
    finally:
        watch.armed = False
    written, run = watch.seen
    assert "opened to be written" in written and run.endswith("ops.py was run")
