"""The best kernel of a run, exported from Python; what is written is tested in tests/export."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.export import cpu as exporting
from autosched.measure.records import read_log
from autosched.session.export import ExportOptions
from autosched.session.tuned import TunedKernel
from kit.exporting import matmul, record, tiled


def test_the_best_kernel_is_exported_with_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "linker", lambda: None)
    task = matmul(8)
    best = TunedKernel(task, record(task, tiled(8)))
    with pytest.warns(UserWarning, match="no C compiler was found") as told:
        files = best.export(str(tmp_path / "out"), ExportOptions(name="mine"))
    assert told[0].filename == __file__
    assert {path.name for path in files} == {path.name for path in (tmp_path / "out").iterdir()}
    contents = read_log(tmp_path / "out" / "mine.records.jsonl")
    assert contents.records[0].steps == tiled(8)
    assert contents.records[0].environment in contents.environments


def test_a_disk_that_becomes_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(exporting, "export_cpu", full)
    task = matmul(8)
    with pytest.raises(ConfigError, match=r"^cannot write to .*out: No space left on device$"):
        TunedKernel(task, record(task, tiled(8))).export(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_record_without_a_cpu_is_built_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "linker", lambda: None)
    task = replace(matmul(8), target=replace(matmul(8).target, cpu="", features="", triple=""))
    with pytest.warns(UserWarning) as told:
        TunedKernel(task, record(task, checked=False)).export(tmp_path / "out")
    words = [str(warning.message) for warning in told]
    assert any("names no CPU; built for this machine's" in text for text in words)
    assert any("was never compared with NumPy" in text for text in words)
