"""Code of compiled loops that earlier processes kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from autosched.runtime import compiled_loops, loop_cache
from autosched.runtime.compiled_loops import Compiled, compiled
from autosched.runtime.loop_cache import Kind, loop_files, loop_key
from autosched.target import cpu_target

Ints = npt.NDArray[np.int64]
_STEP = 3
_KINDS = (Kind("a", "l", 1, True),)


@compiled
def _advance(a: Ints, k: int) -> None:
    a[k] += _STEP


@compiled
def _advance_all(a: Ints) -> None:
    for k in range(len(a)):
        _advance(a, k)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path))
    return tmp_path / "loops"


def _run() -> list[int]:
    """As in a new process."""
    found = np.arange(3)
    Compiled(_advance_all.definition)(found)
    return [int(x) for x in found]


def test_the_next_process_compiles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run() == [3, 4, 5]
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(compiled_loops, "_object_code", None)
    assert _run() == [3, 4, 5]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda _: b""])
def test_a_damaged_file_is_compiled_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    _run()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert _run() == [3, 4, 5]
    assert path.read_bytes() == whole


def test_code_that_cannot_be_loaded_is_compiled_anew(folder: Path) -> None:
    files = loop_files()
    key = loop_key(_advance_all.definition, _KINDS, cpu_target(1))
    assert files is not None
    assert key is not None
    files.put(key, b"no object file")
    assert _run() == [3, 4, 5]
    assert len(files.get(key) or b"") > 100


def test_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for given in (tmp_path / "file", "~nobody_of_that_name/cache"):
        monkeypatch.setenv("AUTOSCHED_CACHE", str(given))
        assert _run() == [3, 4, 5]


def test_everything_that_decides_the_code_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    @compiled
    def _advance_all(a: Ints) -> None:
        for k in range(len(a)):
            _advance(a, k + 1)

    target, definition = cpu_target(1), globals()["_advance_all"].definition
    keys = [
        loop_key(definition, _KINDS, target),
        loop_key(definition, (Kind("a", "l", 1, False),), target),
        loop_key(definition, _KINDS, replace(target, cpu="other")),
        loop_key(_advance_all.definition, _KINDS, target),
    ]
    monkeypatch.setitem(globals(), "_STEP", 4)
    keys.append(loop_key(definition, _KINDS, target))
    monkeypatch.setattr(loop_cache, "_generator", lambda: ("0", "other"))
    keys.append(loop_key(definition, _KINDS, target))
    assert len({*keys} - {None}) == len(keys)
    monkeypatch.setattr(loop_cache, "_generator", lambda: None)
    assert loop_key(definition, _KINDS, target) is None
