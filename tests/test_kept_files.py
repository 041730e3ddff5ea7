"""Kept files: what counts as missing. `tests/codegen/test_cubin_cache.py` tests the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.kept_files import KeptFiles


def _files(folder: Path, private: bool = False) -> KeptFiles:
    return KeptFiles(folder, ".x", b"MAGIC", 1000, private)


def test_an_entry_of_another_key_counts_as_missing(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.put("a", b"content")
    (tmp_path / "a.x").rename(tmp_path / "b.x")
    assert files.get("a") is files.get("b") is None
    (tmp_path / "b.x").rename(tmp_path / "a.x")
    assert files.get("a") == b"content"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_private_file_that_others_may_write_to_counts_as_missing(
    tmp_path: Path, mode: int
) -> None:
    files = _files(tmp_path, private=True)
    files.put("a", b"content")
    assert files.get("a") == b"content"
    (tmp_path / "a.x").chmod(mode)
    assert files.get("a") is None
    assert _files(tmp_path).get("a") == b"content"


def test_a_private_file_of_another_user_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _files(tmp_path, private=True)
    files.put("a", b"content")
    own = (tmp_path / "a.x").stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: own + 1)
    assert files.get("a") is None
