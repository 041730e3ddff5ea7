"""A clock of the seconds in which this process could run, for time limits."""

from __future__ import annotations

from time import monotonic

LOOK_SECONDS = 0.25
"""How long a wait may last until the clock is looked at again."""

_LONGEST = 0.5  # seconds that count of a gap between two looks at most


class RunningClock:
    """The seconds since it was made, without those in which this process was stopped.

    A paused container or virtual machine, a cluster that suspends a job, or `kill -STOP` stops a
    process together with its children: those that it waits for had no more time than itself. A
    caller that waits looks at the clock every `LOOK_SECONDS`. Of a longer gap half a second counts,
    even if the process was only busy meanwhile.
    """

    def __init__(self) -> None:
        self._seen = monotonic()
        self._seconds = 0.0
        self.stood_still = False
        """Whether a gap between two looks was longer than what counts of it."""

    def __call__(self) -> float:
        """Look at the clock: the seconds so far."""
        now = monotonic()
        gap, self._seen = now - self._seen, now
        self.stood_still |= gap > _LONGEST
        self._seconds += min(gap, _LONGEST)
        return self._seconds
