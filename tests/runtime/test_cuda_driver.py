"""What is said where nothing can be measured on a GPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.runtime import cuda_driver
from autosched.runtime.cuda_driver import driver_problem, require_gpu_runtime


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libnowhere.so.1")
    with pytest.raises(ConfigError, match=r"^no CUDA driver \(libnowhere\.so\.1 not found\): kern"):
        require_gpu_runtime()


def test_a_library_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so.1"
    path.write_text("no library")
    monkeypatch.setattr(cuda_driver, "LIBRARY", str(path))
    problem = driver_problem()
    assert problem is not None
    assert "not found" not in problem


def test_with_a_driver_but_without_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libc.so.6")
    assert driver_problem() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="PyCUDA is not installed; it is built from source"):
        require_gpu_runtime()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    require_gpu_runtime()
