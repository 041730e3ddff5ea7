"""Disks that run full during writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.measure.record_log import is_at

PLENTY = 2**40
"""The room, in bytes, of a disk that never runs full."""


def limit_room(monkeypatch: pytest.MonkeyPatch, room: Callable[[int], int]) -> None:
    """From now on, each write to an open file stores at most `room(file)` bytes."""
    write = os.write

    def fitting(file: int, data: bytes) -> int:
        left = room(file)
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:left])

    monkeypatch.setattr(os, "write", fitting)


def nothing(file: int) -> int:
    """A room of 0 bytes for every file."""
    return 0


def up_to(path: Path, most: int) -> Callable[[int], int]:
    """A room of `most` bytes for the file at `path`, and plenty for other files."""
    return lambda file: most - os.fstat(file).st_size if is_at(file, path) else PLENTY
