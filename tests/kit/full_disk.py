"""Disks on which not all that is written fits."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.measure.record_log import is_at

PLENTY = 2**40
"""Bytes of room."""


def limit_room(monkeypatch: pytest.MonkeyPatch, room: Callable[[int], int]) -> None:
    """From now on `room(file)` bytes of what is written to an open file fit, each time."""
    write = os.write

    def fitting(file: int, data: bytes) -> int:
        left = room(file)
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:left])

    monkeypatch.setattr(os, "write", fitting)


def nothing(file: int) -> int:
    """No room for anything."""
    return 0


def up_to(path: Path, most: int) -> Callable[[int], int]:
    """Room for so many bytes of the file of that name, and for all of others."""
    return lambda file: most - os.fstat(file).st_size if is_at(file, path) else PLENTY
