"""Whether others had the cores while a kernel was timed, as the system counts it.

Linux counts for each thread how long it could have run and had no core
(`/proc/PID/task/TID/schedstat`, the second number). A thread that is moved to another core finds
cold caches there. Clocks cannot be read on every machine: their changes show in the repeats
(`steady.py`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Of the time, without a core: repeats of a steady kernel differ by a few percent.
_WAITED = 0.05

_MOST_THREADS = 32  # of which it is read, 10 us each: a visit takes some 12 ms


@dataclass(frozen=True, slots=True)
class Moment:
    """What the system has counted so far for the threads of this process."""

    seconds: float
    waited: Mapping[int, int]  # nanoseconds of each thread; none where the system does not count
    core: int

    @classmethod
    def now(cls) -> Moment:
        """This one."""
        waited = {}
        with suppress(OSError):
            threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
            for thread in sorted(threads)[:_MOST_THREADS]:  # the first is the process's own
                with suppress(OSError, ValueError, IndexError):  # it ended
                    text = Path(f"/proc/self/task/{thread}/schedstat").read_bytes()
                    waited[thread] = int(text.split()[1])
        return cls(time.perf_counter(), waited, _core_of()())

    def disturbed_since(self, before: Moment) -> bool:
        """Whether, between the two, a thread waited for a core, or this one was moved."""
        most = _WAITED * 1e9 * (self.seconds - before.seconds)
        waits = [now - before.waited.get(thread, now) for thread, now in self.waited.items()]
        return max(waits, default=0) > most or self.core != before.core


@cache
def _core_of() -> Callable[[], int]:
    """A function that tells the core of the calling thread; -1 where the system has none."""
    found = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    return (lambda: -1) if found is None else lambda: int(found())
