"""Start worker processes ahead, so that they import while this process does.

Imports take most of the start of a run: half a second here, a quarter in each process. Processes
that are started ahead import one after the other, on the cores that this process leaves free, so
that it is not slowed down itself.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import IO

from autosched.cpu_cores import usable_threads
from autosched.process.worker import NoProcessError, Worker

_waiting: list[tuple[tuple[str, int], Worker]] = []


def start_ahead(wanted: Sequence[tuple[str, int]]) -> None:
    """Start a process for each (factory, memory limit); `worker_of` hands them out.

    The caller ends those that nobody took with `end_ahead`. If no more processes can be started,
    there are fewer.
    """
    lanes = max(1, usable_threads() - 1)
    with contextlib.suppress(NoProcessError, OSError), _lock_file() as queue:
        for place, (factory, limit) in enumerate(wanted):
            lane = queue.fileno(), place % lanes
            worker = Worker(factory, memory_limit=limit, queue=lane)
            _waiting.append(((factory, limit), worker))


def _lock_file() -> IO[bytes]:
    """A file whose bytes can be locked: in memory if possible, as folders may be full or read-only.

    Raises OSError if neither memory nor a folder has room.
    """
    with contextlib.suppress(AttributeError, OSError):  # Linux has it
        return os.fdopen(os.memfd_create("autosched-queue"), "wb")
    return tempfile.TemporaryFile()


def worker_of(factory: str, memory_limit: int = 0) -> Worker:
    """A process of `factory` that was started ahead, or else a new one."""
    for place, (kind, worker) in enumerate(_waiting):
        if kind == (factory, memory_limit):
            del _waiting[place]
            return worker
    return Worker(factory, memory_limit=memory_limit)


def end_ahead() -> None:
    """End the processes that nobody took."""
    while _waiting:
        _waiting.pop()[1].stop()
