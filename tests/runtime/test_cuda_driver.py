"""What is said where nothing can be measured on a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import MeasureError
from autosched.runtime import cuda_driver
from autosched.runtime.cuda import open_driver
from autosched.runtime.cuda_driver import driver_problem, driver_version


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libnowhere.so.1")
    assert driver_problem() == "libnowhere.so.1 not found"
    with pytest.raises(
        MeasureError, match=r"^no CUDA driver \(libnowhere\.so\.1 not found\): kern"
    ):
        open_driver()


def test_a_library_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so.1"
    path.write_text("no library")
    monkeypatch.setattr(cuda_driver, "LIBRARY", str(path))
    problem = driver_problem()
    assert problem is not None
    assert "not found" not in problem


def test_with_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libc.so.6")
    assert driver_problem() is None


def test_the_version_that_a_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            assert name == cuda_driver.LIBRARY

        def cuDriverGetVersion(self, version: Any) -> int:
            version._obj.value = 13020
            return 0

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert driver_version() == (13, 2)


@pytest.mark.parametrize("library", ["libnowhere.so.1", "libc.so.6"])
def test_no_driver_has_no_version(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", library)
    assert driver_version() is None
