"""The worker pool behind `parallel` loops: Python threads that run native code.

A launch takes less than a microsecond while the workers spin. Idle workers sleep in the system's
kernel after 25 to 50 microseconds and use no CPU time. The process has one pool. A loop that is
launched while another one runs (by a nested call or another Python thread) runs serially in its
caller. After a fork, the child starts without workers and starts its own when it first needs them.
Where a process computes with the threads of OpenMP, too, loops may run on those (`borrow`).
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from autosched.cpu_cores import usable_cores
from autosched.errors import MeasureError
from autosched.runtime.native import runtime_library
from autosched.runtime.parallel_ir import (
    EPOCH_OFFSET,
    LAUNCHER_OFFSET,
    LINE_BYTES,
    LINES_OFFSET,
    POOL_BYTES,
    STOP_OFFSET,
    THREADS_OFFSET,
)
from autosched.runtime.team_ir import DECLINED_OFFSET, MEMBER_OFFSET
from autosched.target import MAX_THREADS


class Team(NamedTuple):
    """The functions of an OpenMP runtime that loops run on its threads with, by address."""

    parallel: int
    thread_num: int
    max_threads: int


class WorkerPool:
    """The threads of this process that run shares of parallel loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._size = 1
        self._forked = False

    @property
    def size(self) -> int:
        """The number of threads that share a loop, including the calling one."""
        return self._size

    def resize(self, size: int) -> None:
        """Make `size` threads share each loop from now on.

        Waits for a parallel loop that runs now; loops launched meanwhile run serially. Raises
        ValueError below 1 or above 1024, and MeasureError where the threads cannot be started; then
        only the calling thread is left.
        """
        if size < 1:
            raise ValueError(f"a pool needs at least 1 thread, found {size}")
        if size > MAX_THREADS:
            raise ValueError(f"a pool has at most {MAX_THREADS} threads, found {size}")
        with self._lock:
            if size == self._size:
                return
            with self._quiet():
                self._stop()
                self._start(size)

    def runs_a_share(self) -> bool:
        """Whether the calling thread runs a share of a parallel loop, which called Python."""
        own = threading.get_ident()
        pool = runtime_library().addresses["autosched_pool"]
        lines = range(LINES_OFFSET + MEMBER_OFFSET, POOL_BYTES, LINE_BYTES)
        words = [LAUNCHER_OFFSET, *lines[1 : self._size]]
        if any(ctypes.c_uint64.from_address(pool + word).value == own for word in words):
            return True
        return any(thread.ident == own for thread in self._threads)

    def borrow(self, team: Team) -> None:
        """Run loops on the threads of an OpenMP runtime that this process uses as well.

        Only loops of as many threads as it has. The child of a fork does not: it lacks the threads
        that the runtime takes to be there, and would wait for them without end.
        """
        if not self._forked:
            with self._lock, self._quiet():
                self._set_team(team)

    def _set_team(self, team: Team) -> None:
        words = ctypes.c_size_t * len(team)
        words.from_address(runtime_library().addresses["autosched_team"])[:] = list(team)

    @contextmanager
    def _quiet(self, patience: float = math.inf) -> Iterator[None]:
        """Keep loops from using the pool inside. TimeoutError after waiting `patience` seconds."""
        deadline = time.monotonic() + patience
        addresses = runtime_library().addresses
        try_lock = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses["autosched_pool_try_lock"])
        while not try_lock():
            if time.monotonic() > deadline:
                raise TimeoutError("a parallel loop is still running")
            time.sleep(1e-5)
        try:
            yield
        finally:
            ctypes.CFUNCTYPE(None)(addresses["autosched_pool_unlock"])()

    def _word(self, offset: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(runtime_library().addresses["autosched_pool"] + offset)

    def _start(self, size: int) -> None:
        worker = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32)(
            runtime_library().addresses["autosched_worker"]
        )
        self._word(STOP_OFFSET).value = 0
        epoch = self._word(EPOCH_OFFSET).value
        for index in range(1, size):
            thread = threading.Thread(
                target=worker, args=(index, epoch), name=f"autosched-{index}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # a limit of the system, for this user or container
                self._stop()
                raise MeasureError(
                    f"{size} threads for parallel loops cannot be started ({error}); see what "
                    "limits them (ulimit -u, pids of a container), or use less (target.threads, "
                    "AUTOSCHED_NUM_THREADS)",
                    stage="load",
                ) from error
            self._threads.append(thread)
        self._size = size
        self._word(THREADS_OFFSET).value = size

    def _stop(self) -> None:
        if not self._threads:
            return
        self._word(THREADS_OFFSET).value = 1
        self._word(STOP_OFFSET).value = 1
        self._word(EPOCH_OFFSET).value += 1
        ctypes.CFUNCTYPE(None)(runtime_library().addresses["autosched_wake_all"])()
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._size = 1

    def shutdown(self, patience: float = math.inf) -> None:
        """End the workers; `resize` may start them again.

        Raises TimeoutError when a loop runs for more than `patience` seconds from now.
        """
        if not self._threads:
            return
        with self._lock, self._quiet(patience):
            self._stop()

    def _forget(self) -> None:
        # The child of a fork has no workers, and the locks may be in any state.
        self._lock = threading.Lock()
        self._threads, self._size, self._forked = [], 1, True
        if runtime_library.cache_info().currsize:
            addresses = runtime_library().addresses
            ctypes.memset(addresses["autosched_pool"], 0, POOL_BYTES)
            self._set_team(Team(0, 0, 0))
            ctypes.CFUNCTYPE(None)(addresses["autosched_workspace_forget"])()


_pool = WorkerPool()
_NUMBER = re.compile(r"\s*\+?\d+", re.ASCII)  # as strtol reads it for exported libraries


@atexit.register
def _end_workers() -> None:
    # The threads are daemons: a thread that hangs in a kernel does not keep the process alive.
    with suppress(TimeoutError):
        _pool.shutdown(patience=1.0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool._forget)


def default_threads() -> int:
    """AUTOSCHED_NUM_THREADS if it is set to a positive number, otherwise the usable cores."""
    text = os.environ.get("AUTOSCHED_NUM_THREADS", "")
    asked = float(text) if _NUMBER.fullmatch(text) else 0.0
    return int(min(asked or usable_cores(), MAX_THREADS))


def borrow_team(team: Team) -> None:
    """Run the loops of the process's pool on the threads of a team, as `WorkerPool.borrow` says."""
    _pool.borrow(team)


def on_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose loops run on the pool's own workers although there is a team.

    Where nothing else has the team's threads look for work, workers are as fast, and need not wait
    for a thread that another program keeps from its core. Loops that other threads launch meanwhile
    may run on the workers, too.
    """
    word = ctypes.c_int32.from_address(
        runtime_library().addresses["autosched_team"] + DECLINED_OFFSET
    )

    def call(*args: Any) -> Any:
        word.value = 1
        try:
            return function(*args)
        finally:
            word.value = 0

    return call


def ensure_pool(threads: int | None = None) -> WorkerPool:
    """The process's pool with `threads` threads; None keeps a running pool or takes the default.

    Where the calling thread runs a share of a loop, the pool stays as it is: the loop of the nested
    call will run serially.
    """
    if threads is None:
        threads = _pool.size if _pool.size > 1 else default_threads()
    threads = min(threads, MAX_THREADS)
    if threads != _pool.size and not _pool.runs_a_share():
        _pool.resize(threads)
    return _pool
