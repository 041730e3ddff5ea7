"""Sample the clocks of a GPU while it is timed, in a thread of the parent.

The samples of each visit, a turn in which one candidate is timed, are summarised. A visit during
which heat or power supply held the clocks down says little about a kernel.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.measure.nvml import GpuState

# nvmlClocksEventReasons: hardware slowdown, software and hardware thermal, power brake. A power cap
# (4) is normal for matrix products on large GPUs.
THROTTLED = 0x08 | 0x20 | 0x40 | 0x80
REASONS = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
_PERIOD = 0.05
_KEPT = 4096  # samples, of some minutes


@dataclass(frozen=True, slots=True)
class Clocks:
    """What was read of a GPU during one visit; None where the GPU does not report a value.

    - `reasons`: the bits of REASONS, why the clocks were not higher.
    """

    sm_mhz_min: int | None = None
    sm_mhz_mean: float | None = None
    memory_mhz: int | None = None
    celsius: int | None = None
    watts: float | None = None
    reasons: int | None = None

    @classmethod
    def of(cls, states: Sequence[GpuState]) -> Clocks:
        """Lowest and mean SM clock, lowest memory clock, highest temperature and power; reasons."""
        sm = [s.sm_mhz for s in states if s.sm_mhz is not None]
        memory = [s.memory_mhz for s in states if s.memory_mhz is not None]
        celsius = [s.celsius for s in states if s.celsius is not None]
        watts = [s.watts for s in states if s.watts is not None]
        reasons: int | None = None
        for state in states:
            if state.reasons is not None:
                reasons = (reasons or 0) | state.reasons
        mean = round(sum(sm) / len(sm), 1) if sm else None
        return cls(
            min(sm, default=None),
            mean,
            min(memory, default=None),
            max(celsius, default=None),
            max(watts, default=None),
            reasons,
        )

    @property
    def throttled(self) -> bool:
        """Whether something other than the kernel held the clocks down."""
        return bool((self.reasons or 0) & THROTTLED)


def reason_names(reasons: int) -> list[str]:
    """The names of the bits that are set."""
    return [name for bit, name in REASONS.items() if reasons & bit]


def to_json(visits: Sequence[Clocks]) -> dict[str, Any]:
    """One list for each value that any visit reported, with an entry for each visit."""
    names = Clocks.__dataclass_fields__
    columns = {name: [getattr(visit, name) for visit in visits] for name in names}
    return {name: column for name, column in columns.items() if any(v is not None for v in column)}


class Sampler:
    """Read a GPU every 50 ms from `begin` to `end`, in a thread that sleeps between visits."""

    def __init__(self, read: Callable[[], GpuState]) -> None:
        self._read = read
        self._states: deque[GpuState] = deque(maxlen=_KEPT)
        self._timing, self._kick = threading.Event(), threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, daemon=True, name="clocks of a GPU")
        self._thread.start()

    def begin(self) -> float:
        """Begin a visit. Returns the time that `end` needs."""
        now = time.monotonic()
        self._timing.set()
        self._kick.set()
        return now

    def end(self, begun: float) -> Clocks:
        """End the visit and summarise its samples; if there are none, the GPU is read now."""
        self._timing.clear()
        states = [state for state in tuple(self._states) if state.at >= begun]
        return Clocks.of(states or [self._read()])

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._timing.set()
        self._kick.set()
        self._thread.join()

    def _loop(self) -> None:
        while True:
            self._timing.wait()
            if self._closed:
                return
            self._states.append(self._read())
            self._kick.wait(_PERIOD)
            self._kick.clear()
