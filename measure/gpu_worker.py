"""The worker process of a GPU, which is asked to stop before it is killed.

Killing a process while its kernels run is hard on the driver, and a new process costs seconds. So a
late process gets some more time to answer, and a process that must end is asked first.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping

from autosched.errors import MeasureError
from autosched.process.worker import KILL_SECONDS, Worker

GRACE_SECONDS = 2.0


class GpuWorker(Worker):
    """A worker that gets `grace_seconds` to answer late, or to end by itself, before it is killed.

    A process that answered late has dropped all kernels and is kept. A `gentle` worker is never
    killed; if it hangs, it counts as stuck. It still ends with this process.
    """

    def __init__(
        self,
        factory: str,
        *,
        environment: Mapping[str, str] | None = None,
        kill_seconds: float = KILL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        gentle: bool = False,
    ) -> None:
        self._grace_seconds = grace_seconds
        self._gentle = gentle
        self._hangs = False
        super().__init__(factory, environment=environment, kill_seconds=kill_seconds)

    def stop(self) -> None:
        """Ask the process to end, and kill it when it does not."""
        if self._process is not None and not self._hangs:
            self.send(None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace_seconds)
        self._hangs = False
        super().stop()

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        if not self._gentle:
            super()._kill(process)

    def _late(self, timeout: float, stage: str) -> MeasureError:
        if self._answers():
            message = f"no answer within {timeout:g} s; it came later"
            return MeasureError(message, stage=stage, kind="timeout")
        self._hangs = True
        return super()._late(timeout, stage)

    def _answers(self) -> bool:
        """Whether the late reply arrives and the process then drops its kernels."""
        deadline = time.monotonic() + self._grace_seconds
        self.send(("drop",))
        for _ in range(2):
            try:
                if not self.answers(max(0.0, deadline - time.monotonic())):
                    return False
                ok, reply = self._reply()
                device = None if ok else reply[3]
                if device is not None and device[1]:  # its context is dead, so it ends
                    return False
            except Exception:  # it died, or that is no reply
                return False
        return bool(ok)
