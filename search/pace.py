"""Which of two ways to work out features is faster for a few candidates, by what they took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

_FEW, _MANY = 8, 64
"""Fewer are never faster at once, as many always are: arrays have a price a call, not a row."""
_TRIED = 2  # calls of one size at once before their price counts: the first makes its plans
_SHARED = 0.7
"""Of the seconds of candidates one by one, with a second process that does its half of them: it
shares its core with a process that builds."""


@dataclass(slots=True)
class _Calls:
    """Calls of about one size: how many there were, and the least seconds for a row that came."""

    count: int = 0
    least: float = float("inf")


@dataclass(slots=True)
class Pace:
    """Chooses for lists of candidates whether they are worked out at once.

    Their rows are the same either way, so that no result depends on a clock.
    """

    helped: bool = False
    """Whether a second process takes a half of those that go one by one, as of now."""
    _calls: defaultdict[int, _Calls] = field(default_factory=lambda: defaultdict(_Calls))
    _one: float = float("inf")

    def at_once(self, count: int) -> bool:
        """Whether `count` candidates are to be worked out at once."""
        if count < _FEW or count >= _MANY:
            return count >= _MANY
        calls = self._calls[count.bit_length()]
        return calls.count < _TRIED or calls.least < (_SHARED if self.helped else 1) * self._one

    def note_at_once(self, count: int, rows: int, seconds: float) -> None:
        """A call for `count` took so long and left all but `rows` of them."""
        calls = self._calls[count.bit_length()]
        calls.count += 1
        calls.least = min(calls.least, seconds / rows if rows else float("inf"))

    def note_one(self, seconds: float) -> None:
        """One by one, candidates took `seconds` each."""
        self._one = seconds
