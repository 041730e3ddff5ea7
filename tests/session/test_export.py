"""The best kernel of a run, exported from Python; what is written is tested in tests/export."""

from __future__ import annotations

import errno
import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError, MeasureError
from autosched.export import cpu as exporting
from autosched.measure.records import read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.session.export import ExportOptions, export
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": 3}, r"name: expected a str, e\.g\. 'matmul', found 3"),
        ({"dispatch": 1}, "dispatch: expected True or False, found 1"),
        ({"also": {"M": 8}}, "also: expected a list, found"),
        ({"also": [8]}, r"also\[0\]: expected a Mapping, found 8"),
        ({"archs": "sm_80"}, "archs: expected a list, found 'sm_80'"),
        ({"archs": [80]}, r"archs\[0\]: expected a str, found 80"),
    ],
)
def test_options_of_wrong_types(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExportOptions(**given)


def test_what_is_no_folder_and_no_options(tmp_path: Path) -> None:
    best: Any = TunedKernel(matmul(8), record(matmul(8), tiled(8)))
    with pytest.raises(ConfigError, match="folder: expected the path of a folder, found None"):
        best.export(None)
    with pytest.raises(ConfigError, match=r"options: expected an ExportOptions, e\.g\. .* found 3"):
        best.export(tmp_path / "out", 3)


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


def test_in_a_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All was built before; the words were `No such file or directory`."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match=r"^a/out leads nowhere: the current folder was deleted"):
        export([record(matmul(8))], Path("a/out"))


@pytest.mark.parametrize("place", ["file", "file/out", "file/a/b"])
def test_a_file_is_no_folder(place: str, tmp_path: Path) -> None:
    """All was built before; the words were `File exists`."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=rf"to \S+{place}: \S+file is not a folder; give another"):
        export([record(matmul(8))], tmp_path / place)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"triple": "s390x-ibm-linux-gnu"}, r"recorded for s390x-ibm-linux-gnu; its library can"),
        ({"triple": "riscv64-pc-windows-msvc"}, r"on such a machine only, and this one is \S+$"),
    ],
)
def test_records_of_machines_that_nothing_is_linked_for_here(
    target: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """The linker said that it does not recognise a file, or has the wrong version node."""
    with pytest.raises(ConfigError, match=says):
        export([record(matmul(8, **target))], tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86")
def test_records_of_cpus_that_llvm_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM ended the process of whoever exported, or made other code and only printed a remark."""
    monkeypatch.setattr(exporting, "linker", lambda: None)
    with pytest.raises(ConfigError, match=r"'pentium4', which .* does not support: LLVM ERROR"):
        export([record(matmul(8, cpu="pentium4", features=""))], tmp_path / "out")
    unknown = matmul(8, cpu="cpu9000", features="+avx2,+of-tomorrow,-of-tomorrow-too")
    done = export([record(unknown)], tmp_path / "out")
    assert "does not know cpu9000, +of-tomorrow of its record; the code is" in done.notes[0]
    about = json.loads((tmp_path / "out" / "matmul.json").read_text())
    assert (about["cpu"], about["cpu_features"]) == ("generic", ["avx2"])
    newer = matmul(8, features=f"{matmul(8).target.features},-of-tomorrow")
    assert export([record(newer)], tmp_path / "newer").notes[1:] == ()
    plain = matmul(8, cpu="x86-64-v3", features="")
    done = export([record(plain)], tmp_path / "plain")
    assert "does not list the features of x86-64-v3, so the library" in done.notes[0]


def test_records_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by their number they were exported without a word, those of wrong answers, too."""
    monkeypatch.setattr(exporting, "linker", lambda: None)
    task = matmul(8)
    slow, wrong = (
        replace(record(task), result=MeasureResult((), Failure("run", kind, f"it was {kind}")))
        for kind in ("timeout", "wrong_answer")
    )
    note = export([slow], tmp_path / "out").notes[0]
    assert note.endswith(
        ": this record failed when it was measured, in run (timeout): it was timeout"
    )
    with pytest.raises(
        MeasureError, match="was wrong when it was measured, and is not exported: it"
    ):
        export([wrong], tmp_path / "other")
    assert not (tmp_path / "other").exists()
