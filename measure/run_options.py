"""The options of a run: how long to measure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched import arguments
from autosched.measure.flush import all_caches, parse_flush

MIN_REPEAT_MS = 10.0
"""Milliseconds for a candidate that stays to the end.

With 16 ms the winners were no better known, and 64 trials of a matmul of 512 took 1.1 times as long
(docs/searching.md).
"""
_LEAST_REFERENCE_SECONDS = 10.0  # least limit of a reference, where that of calls is short
_TIMES_OF_A_CALL = 6.0  # limit of a reference in limits of a call: NumPy may be slower
_LEAST_LIMIT = 1.0  # seconds; the least limit of a call by `patience`
_NEVER = 1e9  # times slower than the best: drops no candidate
_RACE_REPEATS = 3  # per visit, so that a disturbance affects only one of them


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long to measure.

    A batch is a race. In each of `visits` visits every candidate that is left is timed in `repeats`
    blocks, which together take about `min_repeat_ms` / `visits` milliseconds.

    - `timeout`: seconds after which a call that does not return is ended.
    - `give_up`: a candidate that many times slower than the best of the batch is not visited again.
    - `halving`: only the better half goes on after every second visit (measure/halving.py).
    - `hopeless`: a candidate whose first call is that many times slower than the best known keeps
      that call as its only repeat. If the call took less than 50 ms, a second one must be as slow.
    - `patience`: a call is also ended after that many times the best known time, but not before 1
      second.
    - `reference_timeout`: seconds for the NumPy reference; None for six times `timeout`, but at
      least 10 s. Making the inputs has the same limit, but at least a minute.
    - `cache_flush`: empty the caches before each call, which is then timed alone. True writes a
      buffer of twice the caches' size, a number one of so many bytes.

    Raises ConfigError for a value of a wrong type or size.
    """

    timeout: float = 10.0
    min_repeat_ms: float = MIN_REPEAT_MS
    repeats: int = 3
    visits: int = 4
    give_up: float = 1.5
    halving: bool = True
    hopeless: float = 3.0
    patience: float = 50.0
    reference_timeout: float | None = None
    cache_flush: bool | int = False

    def __post_init__(self) -> None:
        for name in ("timeout", "min_repeat_ms"):
            arguments.positive(f"measure.{name}", getattr(self, name))
        for name in ("give_up", "hopeless", "patience"):
            arguments.number(f"measure.{name}", getattr(self, name), least=float("-inf"))
        for name in ("repeats", "visits"):
            arguments.integer(f"measure.{name}", getattr(self, name), 1)
        arguments.flag("measure.halving", self.halving)
        if self.reference_timeout is not None:
            arguments.positive("measure.reference_timeout", self.reference_timeout)
        parse_flush(self.cache_flush)

    def limit(self, best: float) -> float:
        """Seconds after which a call is ended when the best known time is `best`."""
        return min(self.timeout, max(_LEAST_LIMIT, self.patience * best))

    @property
    def flush_bytes(self) -> int:
        """The size of the buffer that empties the caches; 0 where they are not emptied."""
        flush = parse_flush(self.cache_flush)
        return all_caches() if flush is True else int(flush)

    @property
    def reference_limit(self) -> float:
        """Seconds after which the NumPy reference is given up."""
        if self.reference_timeout is not None:
            return self.reference_timeout
        return max(_LEAST_REFERENCE_SECONDS, _TIMES_OF_A_CALL * self.timeout)


def race_options(options: RunOptions, visits: int, seconds: float) -> RunOptions:
    """The options of a race: `visits` visits of about `seconds` each; no candidate is dropped."""
    total = 1e3 * visits * seconds
    never = replace(options, give_up=_NEVER, hopeless=_NEVER, patience=_NEVER, halving=False)
    return replace(never, visits=visits, repeats=_RACE_REPEATS, min_repeat_ms=total)
