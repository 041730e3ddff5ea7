"""Packages that a test is to miss, or to find broken."""

import importlib
import sys
from pathlib import Path

import pytest


def forget(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if nothing had imported the package yet."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)


def missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """From now on the package is not installed, nor is any other that was not imported."""
    forget(monkeypatch, package)
    monkeypatch.setattr(sys, "path", [])


def broken(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str) -> None:
    """From now on importing the package fails with `OSError: libx.so.1: cannot open`."""
    forget(monkeypatch, package)
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text("raise OSError('libx.so.1: cannot open')")
    # Not syspath_prepend: after `missing` it would leave the path empty for all later tests.
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()
