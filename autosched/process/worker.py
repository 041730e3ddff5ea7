"""A worker process: a fresh interpreter that answers requests, with a time limit on each."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from autosched.errors import AutoschedError, MeasureError, ScheduleError

# OpenBLAS's threads otherwise spin for about 27 ms after each call and take a core from the kernel
# that runs next: matmul kernels measured in turns with NumPy came out at half their speed.
_ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4"}

# The parent's path comes after the worker's own, and the current folder never: a module of the
# user's that has the name of one in the standard library or an installed package is not run.
_START = """
import sys
end = sys.argv.index("--")
sys.path += [path for path in sys.argv[1:end] if path not in sys.path]
from autosched.process.worker import serve
serve(sys.argv[end + 1], *map(int, sys.argv[end + 2:]))
"""

# A handler turns a request into a reply; `handler_factory()` makes one in the worker.
Handler = Callable[[Any], Any]


class Worker:
    """A process that serves `factory` ("module:function"); replaced when it hangs or dies.

    The interpreter starts afresh and imports only what the factory needs, so the caller's main
    script is never run again and its threads are never forked.
    """

    def __init__(self, factory: str, *, memory_limit: int = 0) -> None:
        self._factory = factory
        self._memory_limit = memory_limit
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection
        self.start()

    def start(self) -> None:
        """Start the process, ending an earlier one. Returns before it is ready."""
        self.stop()
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-c", _START, *(p for p in sys.path if p), "--"),
                    *(self._factory, str(there.fileno()), str(self._memory_limit)),
                ],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C on the terminal is the parent's
                env={**_ENVIRONMENT, **os.environ},
            )
        self.connection = Connection(here.detach())

    def stop(self) -> None:
        """End the process at once. Does nothing when there is none."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None
        self.connection.close()

    def send(self, request: Any) -> None:
        """Send a request; its reply comes through `receive`, and so does a crash."""
        with contextlib.suppress(OSError):
            self.connection.send(request)

    def receive(self, timeout: float, stage: str) -> Any:
        """The reply. Raises MeasureError (timeout, crash or the worker's own) after a restart."""
        if not self.connection.poll(timeout):
            self.start()
            raise MeasureError(
                f"no answer within {timeout:g} s; the process was ended",
                stage=stage,
                kind="timeout",
            )
        try:
            ok, reply = self.connection.recv()
        except (EOFError, OSError):
            raise self._crashed(stage) from None
        if ok:
            return reply
        kind, message, where = reply
        raise MeasureError(message, stage=where or stage, kind=kind)

    def call(self, request: Any, timeout: float, stage: str) -> Any:
        """Send and receive."""
        self.send(request)
        return self.receive(timeout, stage)

    def _crashed(self, stage: str) -> MeasureError:
        assert self._process is not None
        code = self._process.wait()
        self.start()
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        kind = "memory" if code == -9 else "crash"
        return MeasureError(f"the process died with {how}", stage=stage, kind=kind)


def serve(factory: str, fd: int, memory_limit: int) -> None:
    """The worker's main loop: answer until the other side closes."""
    _settle(memory_limit)
    connection = Connection(fd)
    module, _, name = factory.partition(":")
    handler: Handler = getattr(importlib.import_module(module), name)()
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        try:
            reply = (True, handler(request))
        except MeasureError as error:
            reply = (False, (error.kind, str(error), error.stage))
        except ScheduleError as error:
            reply = (False, ("illegal", str(error), "lower"))
        except MemoryError as error:
            reply = (False, ("memory", str(error) or "out of memory", None))
        except AutoschedError as error:
            reply = (False, ("error", str(error), None))
        except Exception:  # a bug: reported with its traceback, never swallowed
            reply = (False, ("error", traceback.format_exc(), None))
        try:
            connection.send(reply)
        except OSError:  # the parent is gone
            return


def _settle(memory_limit: int) -> None:
    """Leave Ctrl-C to the parent, die with it, and bound the memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if memory_limit:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
