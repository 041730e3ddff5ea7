"""Make packages missing or broken for a test."""

import importlib
import sys
from pathlib import Path

import pytest


def forget(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Forget that the package was imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)


def missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """From now on, this package and all others that were not imported are not installed."""
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
