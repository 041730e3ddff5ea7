"""Tell whether other processes took the cores while a kernel was timed.

Linux counts for each thread how long it could have run but had no core
(`/proc/PID/task/TID/schedstat`, the second number). A thread that is moved to another core finds
cold caches there. Clocks cannot be read on every machine; their changes show in the repeats
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

# Share of the time without a core that counts as disturbed: repeats of a steady kernel differ by a
# few percent.
_WAITED = 0.05

_MOST_THREADS = 32  # whose counters are read, 10 us each; a visit takes some 12 ms


@dataclass(frozen=True, slots=True)
class Moment:
    """The counters of this process's threads at one time.

    - `seconds`: by `time.perf_counter`.
    - `waited`: nanoseconds that each thread waited for a core, by thread id.
    - `core`: the core of the calling thread, -1 where the system does not tell.
    """

    seconds: float
    waited: Mapping[int, int]  # empty where the system does not count
    core: int

    @classmethod
    def now(cls) -> Moment:
        """Read the counters now."""
        waited = {}
        with suppress(OSError):
            threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
            for thread in sorted(threads)[:_MOST_THREADS]:  # the first is the process's own
                with suppress(OSError, ValueError, IndexError):  # it ended
                    text = Path(f"/proc/self/task/{thread}/schedstat").read_bytes()
                    waited[thread] = int(text.split()[1])
        return cls(time.perf_counter(), waited, _core_of()())

    def disturbed_since(self, before: Moment) -> bool:
        """Whether a thread waited for a core since `before`, or the calling thread was moved."""
        most = _WAITED * 1e9 * (self.seconds - before.seconds)
        waits = [now - before.waited.get(thread, now) for thread, now in self.waited.items()]
        return max(waits, default=0) > most or self.core != before.core


@cache
def _core_of() -> Callable[[], int]:
    """A function that returns the core of the calling thread; -1 where the system cannot tell."""
    found = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    return (lambda: -1) if found is None else lambda: int(found())
