"""Choose the faster of two ways to compute features of candidates, by the time that they took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

_FEW, _MANY = 8, 64
"""Fewer than _FEW candidates are never faster at once, _MANY always are: the cost of arrays is per
call rather than per row."""
_TRIED = 2  # calls of a size at once before their time counts: the first one makes plans
_SHARED = 0.7
"""The time for candidates one by one if a second process computes half of them, relative to the
time without it: it shares its core with a process that builds."""


@dataclass(slots=True)
class _Calls:
    """Calls of about one size: how many there were, and the least seconds for a computed row."""

    count: int = 0
    least: float = float("inf")


@dataclass(slots=True)
class Pace:
    """Chooses whether the rows of a list of candidates are computed at once or one by one.

    The rows are the same either way, so that no result depends on a clock.
    """

    helped: bool = False
    """Whether a second process now computes half of the candidates that go one by one."""
    _calls: defaultdict[int, _Calls] = field(default_factory=lambda: defaultdict(_Calls))
    _one: float = float("inf")

    def at_once(self, count: int) -> bool:
        """Whether `count` candidates are to be computed at once."""
        if count < _FEW or count >= _MANY:
            return count >= _MANY
        calls = self._calls[count.bit_length()]
        return calls.count < _TRIED or calls.least < (_SHARED if self.helped else 1) * self._one

    def note_at_once(self, count: int, rows: int, seconds: float) -> None:
        """Note that a call at once for `count` candidates computed `rows` of them in `seconds`."""
        calls = self._calls[count.bit_length()]
        calls.count += 1
        calls.least = min(calls.least, seconds / rows if rows else float("inf"))

    def note_one(self, seconds: float) -> None:
        """Note that candidates took `seconds` each, one by one."""
        self._one = seconds
