"""A worker process: a fresh interpreter that answers requests, with a time limit on each."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import os
import pickle
import resource
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from autosched.errors import AutoschedError, DeviceError, MeasureError, ScheduleError
from autosched.process.garbage import rarely_collect
from autosched.process.running_clock import LOOK_SECONDS, RunningClock

# OpenBLAS's threads otherwise spin for about 27 ms after each call and take a core from the kernel
# that runs next: matmul kernels measured in turns with NumPy came out at half their speed.
_ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4"}

# Seconds (and microseconds) after which an incomplete message is given up: the process is replaced.
_SILENCE = struct.pack("ll", 20, 0)

# The longest answer in bytes (the reference of a GPU has 256 MiB for a product of 8192 x 8192 in
# float32). Printed text that is mistaken for a length is always longer (0x20202020).
_LONGEST = 1 << 29

# A process that closed its connection is dying, unless a candidate closed it and goes on.
_END_SECONDS = 5.0

# A process that waits in a kernel driver (a GPU that hangs) does not even die of SIGKILL.
KILL_SECONDS = 20.0

# The environment variable that marks a process and all processes that it starts.
_MARK = "AUTOSCHED_WORKER"

# Limits of standard error: letters in a message, bytes that are kept, reads one after another.
_LAST_WORDS = 200
_KEPT = 4000
_MOST_READS = 100

_NO_QUEUE = -1, 0

# A process runs as this one does: packages may fail to import without docstrings (-OO).
_OPTIMIZED = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []

# The parent's path comes after the worker's own, and the current folder is left out: a module of
# the user that has the name of a standard or an installed module must not be run instead of it.
_START = """
import fcntl, sys
end = sys.argv.index("--")
fd, memory, queue, lane = map(int, sys.argv[end + 2:])
if queue >= 0:
    fcntl.lockf(queue, fcntl.LOCK_EX, 1, lane)
sys.path += [path for path in sys.argv[1:end] if path not in sys.path]
from autosched.process.worker import serve
serve(sys.argv[end + 1], fd, memory, queue)
"""

# A handler turns a request into a reply; `handler_factory()` makes one in the worker.
Handler = Callable[[Any], Any]


class StrayProcessError(MeasureError):
    """A request left a process running: its worker ends, and that process with it."""

    def __init__(self, stage: str) -> None:
        super().__init__(
            "it started a process, which was ended together with its own", stage=stage, kind="crash"
        )


class NoProcessError(MeasureError):
    """No process can be started: there are too many, or no memory or open files are left.

    `__cause__` is the failure that ended the process before, if one did.
    """

    def __init__(self, error: OSError) -> None:
        remedy = "see what limits processes, memory and open files (ulimit -a), then continue"
        if isinstance(error, FileNotFoundError | PermissionError):
            remedy = "set it to the path of Python"
        super().__init__(
            f"cannot start a process of {sys.executable!r} (sys.executable): {error.strerror}; "
            f"{remedy}",
            stage="load",
            kind="lost",
        )


class Worker:
    """A process that serves `factory` ("module:function"); replaced when it hangs or dies.

    The interpreter starts afresh and imports only what the factory needs, so the caller's main
    script is never run again and its threads are never forked. `environment` are variables that
    the process has beside the parent's. With `queue`, a file descriptor and the place of a byte,
    the first process imports only once no other one holds a lock on that byte; a process that ends
    releases it.

    `stuck` are the processes that did not end within `kill_seconds` of being killed: they are left
    alone, and nothing waits for them. `stood_still` says whether this process was stopped while it
    last waited for an answer, most likely together with the worker. Raises NoProcessError where no
    process can be started, also in place of a failure that ended one.
    """

    stood_still = False

    def __init__(
        self,
        factory: str,
        *,
        memory_limit: int = 0,
        environment: Mapping[str, str] | None = None,
        kill_seconds: float = KILL_SECONDS,
        queue: tuple[int, int] = _NO_QUEUE,
    ) -> None:
        self._factory = factory
        self._memory_limit = memory_limit
        self._environment = dict(environment or {})
        self._kill_seconds = kill_seconds
        self._mark = secrets.token_hex(8)
        self._said = b""  # the end of what the process wrote to standard error
        self._ended: weakref.finalize[..., Worker] | None = None  # closes `_end`
        self._end = -1  # a descriptor that can be read once the process has ended
        self.stuck: list[subprocess.Popen[bytes]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection
        self._begin(queue)

    def start(self) -> None:
        """Start the process, ending an earlier one. Returns before it is ready."""
        self.stop()
        self._begin(_NO_QUEUE)

    def _begin(self, queue: tuple[int, int]) -> None:
        try:
            self._launch(queue)
        except OSError as error:
            raise NoProcessError(error) from None

    def _launch(self, queue: tuple[int, int]) -> None:
        if queue[0] <= 2:  # the new process has its standard streams there
            queue = _NO_QUEUE
        here, there = (_above_standard(end) for end in socket.socketpair())
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # for each part of a message
            here.setsockopt(socket.SOL_SOCKET, option, _SILENCE)
        with here, there:
            self._process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-P",
                        *_OPTIMIZED,
                        "-c",
                        _START,
                        *(p for p in sys.path if p),
                        "--",
                    ),
                    *(self._factory, str(there.fileno()), str(self._memory_limit)),
                    *map(str, queue),
                ],
                pass_fds=(there.fileno(), *(fd for fd in queue[:1] if fd >= 0)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,  # what a candidate prints does not reach the terminal
                process_group=0,  # Ctrl-C on the terminal reaches the parent only
                env={**_ENVIRONMENT, **os.environ, **self._environment, _MARK: self._mark},
            )
            self.connection = Connection(here.detach())
        with contextlib.suppress(AttributeError, OSError):  # Linux since 5.3 has it
            self._end = os.pidfd_open(self._process.pid)
            self._ended = weakref.finalize(self, os.close, self._end)

    def stop(self) -> None:
        """End the process at once. Does nothing when there is none."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self.connection.close()
        self._kill(process)
        self._said = b""
        if process.stderr is not None:
            process.stderr.close()
        if self._ended is not None:
            self._ended()
            self._ended, self._end = None, -1
        try:
            process.wait(self._kill_seconds)
        except subprocess.TimeoutExpired:
            self.stuck.append(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left in its group
            os.killpg(process.pid, signal.SIGKILL)  # processes that it started itself
        for stray in _marked(f"{_MARK}={self._mark}".encode()):  # and those that left its group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray, signal.SIGKILL)

    def kill(self) -> None:
        """End the process from a thread other than the one that waits for its answer."""
        process = self._process
        if process is not None:
            self._kill(process)

    def send(self, request: Any) -> None:
        """Send a request; its reply comes through `receive`, and so does a crash."""
        self._listen_to_end()
        self._said = b""  # it was about an earlier request
        with contextlib.suppress(OSError):
            self.connection.send(request)

    def receive(self, timeout: float, stage: str) -> Any:
        """The reply. Raises MeasureError (timeout, crash or the worker's own failure).

        A process that has ended, or has to, is replaced before.
        """
        if not self.answers(timeout):
            raise self._late(timeout, stage)
        try:
            ok, reply = self._reply()
            kind, message, where, device = ("", "", "", None) if ok else reply
            code, ends = device or (None, False)
        except BlockingIOError:  # half of a reply
            raise self._unreadable("it ends in the middle", stage) from None
        except (EOFError, ConnectionError):
            raise self._crashed(stage) from None
        except Exception as error:  # bytes that are no reply
            raise self._unreadable(type(error).__name__, stage) from error
        if ok:
            return reply
        failure = MeasureError(message, stage=where or stage, kind=kind)
        if code is not None:
            failure = DeviceError(
                message, stage=where or stage, kind=kind, code=code, worker_ends=ends
            )
        raise self._anew(failure) if ends else failure

    def call(self, request: Any, timeout: float, stage: str) -> Any:
        """Send a request and receive its reply."""
        self.send(request)
        return self.receive(timeout, stage)

    @property
    def signs(self) -> list[Connection | int]:
        """The objects to wait for: one of them can be read when `answers` has something to do."""
        assert self._process is not None
        said = [] if self._process.stderr is None else [self._process.stderr.fileno()]
        return [self.connection, *said, *([self._end] if self._end >= 0 else [])]

    def answers(self, timeout: float) -> bool:
        """Whether within `timeout` a reply begins, or the process or its connection ends.

        Standard error is read meanwhile, so that the process never waits for room to write there.
        """
        clock = RunningClock()
        left = timeout
        while True:
            ready = wait(self.signs, min(max(0.0, left), LOOK_SECONDS))
            left = timeout - clock()
            self.stood_still = clock.stood_still
            if self.connection in ready or self._end in ready:
                return True
            if ready:
                self._listen()
            if left <= 0:
                return False

    def _listen(self) -> None:
        """Read what there is of standard error, and keep its end."""
        assert self._process is not None and self._process.stderr is not None
        text = os.read(self._process.stderr.fileno(), 1 << 16)
        self._said = (self._said + text)[-_KEPT:]
        if not text:  # all processes that might write have closed it
            self._process.stderr.close()
            self._process.stderr = None

    def _reply(self) -> tuple[bool, Any]:
        """Read a reply. Raises EOFError when there is none, other exceptions when unreadable."""
        if not self.connection.poll(0):  # the process has ended, but one that it started has not
            raise EOFError
        data = self.connection.recv_bytes(_LONGEST)
        try:
            ok, reply = pickle.loads(data)
        except EOFError as error:  # bytes that end too early; not the end of the connection
            raise ValueError("too short") from error
        return bool(ok), reply

    def _late(self, timeout: float, stage: str) -> MeasureError:
        """The error for a reply that did not come, after a restart: requests can be sent again."""
        text = f"no answer within {timeout:g} s; the process was ended"
        return self._anew(MeasureError(text, stage=stage, kind="timeout"))

    def _unreadable(self, why: str, stage: str) -> MeasureError:
        text = f"the process sent an unreadable answer ({why}); it was ended"
        return self._anew(MeasureError(text, stage=stage, kind="crash"))

    def _crashed(self, stage: str) -> MeasureError:
        assert self._process is not None
        try:
            code = self._process.wait(min(_END_SECONDS, self._kill_seconds))
        except subprocess.TimeoutExpired:  # it closed its connection and goes on
            text = "the process stopped answering"
            return self._anew(MeasureError(text, stage=stage, kind="crash"))
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        text = f"the process died with {how}{self._last_words()}"
        kind = "memory" if code == -9 else "crash"
        return self._anew(MeasureError(text, stage=stage, kind=kind))

    def _anew(self, failure: MeasureError) -> MeasureError:
        """Start a new process in place of the one that ended; returns the failure."""
        try:
            self.start()
        except NoProcessError as error:
            raise error from failure
        return failure

    def _listen_to_end(self) -> None:
        """Read what standard error has by now, in _MOST_READS reads at most."""
        for _ in range(_MOST_READS):
            stderr = self._process and self._process.stderr
            if not stderr or not wait([stderr.fileno()], 0.0):
                break
            self._listen()

    def _last_words(self) -> str:
        """The last line that the process, which has ended, wrote to standard error."""
        self._listen_to_end()
        lines = self._said.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        shown = "".join(c if c.isprintable() else "?" for c in last[:_LAST_WORDS])
        return f": {shown}" if shown else ""


def serve(factory: str, fd: int, memory_limit: int, queue: int = -1) -> None:
    """The worker's main loop: answer until the other side closes, or sends None.

    `queue` is closed when the imports are done, which lets the next process begin its own.
    """
    _settle(memory_limit)
    if _is_left(fd):
        return
    rarely_collect()
    connection = Connection(fd)
    module, _, name = factory.partition(":")
    own = os.getpid()
    handler: Handler = getattr(importlib.import_module(module), name)()
    if queue >= 0:
        os.close(queue)
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        if request is None:  # GPUs: cleaning up a context that is in use aborts
            os._exit(0)
        ends = False
        reply: tuple[bool, Any]
        try:
            reply = (True, handler(request))
        except DeviceError as error:
            ends = error.worker_ends
            reply = (False, (error.kind, str(error), error.stage, (error.code, ends)))
        except MeasureError as error:
            ends = isinstance(error, StrayProcessError)
            reply = (False, (error.kind, str(error), error.stage, (None, True) if ends else None))
        except ScheduleError as error:
            reply = (False, ("illegal", str(error), "lower", None))
        except MemoryError as error:
            reply = (False, ("memory", str(error) or "out of memory", None, None))
        except AutoschedError as error:
            reply = (False, ("error", str(error), None, None))
        except Exception:  # a bug: reported with its traceback, never swallowed
            reply = (False, ("error", traceback.format_exc(), None, None))
        if os.getpid() != own:  # a copy that the request made: one answer is enough
            os._exit(0)
        try:
            connection.send(reply)
        except OSError:  # the parent is gone
            return
        if ends:  # cleaning up after a dead context prints warnings or aborts
            os._exit(0)


def _above_standard(end: socket.socket) -> socket.socket:
    """`end` with a descriptor above those of the standard streams, which a new process replaces.

    A program that has closed its standard streams gets their descriptors for what it opens next.
    """
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _marked(mark: bytes) -> Iterator[int]:
    """Yield the ids of the processes with `mark` in their environment, which children inherit."""
    with contextlib.suppress(OSError):  # no more files may be opened
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # another user's, or gone
                if mark in path.read_bytes():
                    yield int(path.parent.name)


def has_children() -> bool:
    """Whether this process started another that it has not waited for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _is_left(fd: int) -> bool:
    """Whether the other side has closed.

    A parent that dies ends this process only after `_settle`.
    """
    found = select.poll()
    found.register(fd, 0)  # a hang-up is reported in any case
    return bool(found.poll(0))


def _settle(memory_limit: int) -> None:
    """Leave Ctrl-C to the parent, die with it, and bound the memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        with contextlib.suppress(OSError):  # if memory runs out, the kernel ends this process first
            Path("/proc/self/oom_score_adj").write_text("500")
    if memory_limit:
        _, most = resource.getrlimit(resource.RLIMIT_AS)  # the user's own limit may be smaller
        limit = memory_limit if most == resource.RLIM_INFINITY else min(memory_limit, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
