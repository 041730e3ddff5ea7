"""Worker processes that are forked from a process that has done their imports.

A worker's imports take 0.3 to 0.6 s, more than most tests need the worker for, and three hundred
tests start one. Here a separate process imports all common modules once and forks for each worker.
It has one thread and no state of the tests. Streams, environment variables, folder, process group
and program text are those of the wanted worker. Tests of the start itself use processes from
`fresh`.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

from autosched.process import worker

MODULES = (
    "autosched.cli.doctor_process",
    "autosched.measure.build",
    "autosched.measure.gpu_run",
    "autosched.measure.run",
    "autosched.search.featurize",
    "autosched.transform.pipeline",
)
_READ_AT_START = ("PYTHON", "OMP_", "OPENBLAS_", "MKL_", "LD_")
_ABOVE = 300  # descriptor numbers are moved this far beyond those that a test has in use
_LONGEST = 1 << 20
_MOST_FILES = 8

# A forked copy continues after `next_text`, which the first process never leaves.
_TEXT = """
import sys
sys.path += [path for path in sys.argv[2:] if path not in sys.path]
from kit.forks import next_text
exec(next_text(int(sys.argv[1])), {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class _Start:
    """A program text with its arguments, and the environment in which it runs.

    `places` has the descriptor numbers for the files that are sent along.
    """

    words: list[str]
    places: list[int]
    environment: dict[str, str]
    folder: str
    cores: set[int]


def next_text(place: int) -> str:
    """Wait for requests at the socket `place`; in a forked copy, return the text to run."""
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    control = socket.socket(fileno=place)
    while True:
        data, files, _, _ = socket.recv_fds(control, _LONGEST, _MOST_FILES)
        if not data:
            os._exit(0)
        number, request = pickle.loads(data)
        if isinstance(request, int):
            _, status = os.waitpid(request, 0)
            control.send(pickle.dumps((number, os.waitstatus_to_exitcode(status))))
            continue
        assert isinstance(request, _Start)
        pid = os.fork()
        if not pid:
            control.close()
            return _settled(request, files)
        os.setpgid(pid, 0)
        for file in files:
            os.close(file)
        control.send(pickle.dumps((number, pid)))


def _settled(wanted: _Start, files: list[int]) -> str:
    """Set up a forked process as a new one would begin; return its program text."""
    os.setpgid(0, 0)
    for file, place in zip([_moved(file) for file in files], wanted.places, strict=True):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(wanted.environment)
    os.chdir(wanted.folder)
    os.sched_setaffinity(0, wanted.cores)
    text, *more = wanted.words
    sys.argv = ["-c", *more]
    return text


def _moved(file: int) -> int:
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    os.close(file)
    return moved


class _Source:
    """The process that is forked, started with this environment."""

    def __init__(self, interpreter: Sequence[str], environment: Mapping[str, str]) -> None:
        self._lock = Lock()
        self._asked = 0
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [*interpreter, _TEXT, str(there.fileno()), *filter(None, sys.path)],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,
                env=environment,
            )

    def ask(self, request: object, files: Sequence[int] = ()) -> Any:
        with self._lock:
            self._asked += 1
            socket.send_fds(self._control, [pickle.dumps((self._asked, request))], files)
            while True:
                number, reply = pickle.loads(self._control.recv(_LONGEST))
                if number == self._asked:  # else it answers a request that Ctrl-C cut short
                    return reply


@cache
def _source(interpreter: tuple[str, ...], settings: frozenset[tuple[str, str]]) -> _Source:
    """One source for all processes with the same interpreter and the same settings at start."""
    others = {k: v for k, v in os.environ.items() if not k.startswith(_READ_AT_START)}
    return _Source(interpreter, others | dict(settings))


class ForkedProcess:
    """The part of `subprocess.Popen` that `Worker` uses."""

    def __init__(
        self, source: _Source, words: list[str], places: Sequence[int], environment: dict[str, str]
    ) -> None:
        said, stderr = os.pipe()
        cores = os.sched_getaffinity(0)
        request = _Start(words, [2, *places], environment, str(Path.cwd()), cores)
        try:
            self.pid: int = source.ask(request, [stderr, *places])
        finally:
            os.close(stderr)
        self.stderr: IO[bytes] = os.fdopen(said, "rb")  # Worker closes it
        self.returncode: int | None = None
        self._source = source

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        return self.returncode if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired("a copy", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, timeout: float | None) -> bool:
        if self.returncode is not None:
            return True
        end = os.pidfd_open(self.pid)
        try:
            found = select.poll()
            found.register(end, select.POLLIN)
            if not found.poll(None if timeout is None else timeout * 1000):
                return False
        finally:
            os.close(end)
        self.returncode = self._source.ask(self.pid)
        return True


def _popen(arguments: list[str], **options: Any) -> ForkedProcess:
    """Replaces `subprocess.Popen` in `autosched.process.worker`."""
    environment = options["env"]
    settings = frozenset((k, v) for k, v in environment.items() if k.startswith(_READ_AT_START))
    source = _source(tuple(arguments[:3]), settings)
    return ForkedProcess(source, arguments[3:], options["pass_fds"], environment)


@contextmanager
def copies() -> Iterator[None]:
    """A context in which workers are forked copies, on Linux."""
    if sys.platform != "linux":
        yield
        return
    stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": _popen})
    with mock.patch.object(worker, "subprocess", stand_in):
        yield


@contextmanager
def fresh() -> Iterator[None]:
    """A context in which workers start a new interpreter, for tests that depend on it.

    These workers are children of this process, and /proc shows their environment variables.
    """
    with mock.patch.object(worker, "subprocess", subprocess):
        yield
