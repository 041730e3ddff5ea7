"""Seconds in which this process could run, which limits are of."""

from __future__ import annotations

from time import monotonic

LOOK_SECONDS = 0.25
"""How long a wait may last until the clock is looked at again."""

_LONGEST = 0.5  # of a gap between two looks; a longer one counts as this


class RunningClock:
    """Seconds since it was made, without those in which nothing of this process ran.

    A process is stopped with its children by a paused container or virtual machine, by a cluster
    that suspends a job, by `kill -STOP`: what it waits for had no more time than itself. Who waits
    looks at the clock every `LOOK_SECONDS`; of a longer gap half a second counts, also where the
    process was only busy meanwhile.
    """

    def __init__(self) -> None:
        self._seen = monotonic()
        self._seconds = 0.0
        self.stood_still = False
        """Whether a gap was longer than what counts of one."""

    def __call__(self) -> float:
        """The seconds; this is a look."""
        now = monotonic()
        gap, self._seen = now - self._seen, now
        self.stood_still |= gap > _LONGEST
        self._seconds += min(gap, _LONGEST)
        return self._seconds
