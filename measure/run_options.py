"""How long to measure: the options of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched import arguments
from autosched.measure.flush import all_caches, parse_flush

MIN_REPEAT_MS = 10.0
"""Of a candidate that stays to the end: with 16, winners were no better known, and 64 trials of a
matmul of 512 took 1.1 times as long (docs/searching.md)."""
_LEAST_REFERENCE_SECONDS = 10.0  # the limit of calls may be short where kernels are fast
_TIMES_OF_A_CALL = 6.0  # a reference without a limit of its own: NumPy may be slower than kernels
_LEAST_LIMIT = 1.0  # seconds: of a call that is slower than all known ones
_NEVER = 1e9  # times slower than the best
_RACE_REPEATS = 3  # in a visit: a disturbance meets one of them


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long to measure.

    A batch is a race: in each of `visits` visits every candidate that is left has its turn, for
    `repeats` blocks that take together about `min_repeat_ms` / `visits` milliseconds. One that is
    `give_up` times slower than the best of the batch is not visited again, and with `halving` only
    the better half goes on after every second visit (measure/halving.py). One whose first call is
    `hopeless` times slower than the best known (and a second call, if that took less than 50 ms)
    keeps that call as its only repeat. `timeout` (seconds) ends a call that does not return, and so
    does `patience` times the best known time, if that is over 1 s.
    `reference_timeout` (seconds) is the limit of the NumPy reference, None six times `timeout` but
    at least 10 s; making inputs has it too, and a minute at least. `cache_flush` empties the caches
    before each call, which is then timed alone: True writes a buffer of twice their size, a number
    one of so many bytes.
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
        """Seconds after which a call is ended, the best known time being `best`."""
        return min(self.timeout, max(_LEAST_LIMIT, self.patience * best))

    @property
    def flush_bytes(self) -> int:
        """The size of the buffer that empties the caches; 0 when they are left as they are."""
        flush = parse_flush(self.cache_flush)
        return all_caches() if flush is True else int(flush)

    @property
    def reference_limit(self) -> float:
        """Seconds after which the NumPy reference is given up."""
        if self.reference_timeout is not None:
            return self.reference_timeout
        return max(_LEAST_REFERENCE_SECONDS, _TIMES_OF_A_CALL * self.timeout)


def race_options(options: RunOptions, visits: int, seconds: float) -> RunOptions:
    """These options with so many visits of about so many seconds; none gives up."""
    total = 1e3 * visits * seconds
    never = replace(options, give_up=_NEVER, hopeless=_NEVER, patience=_NEVER, halving=False)
    return replace(never, visits=visits, repeats=_RACE_REPEATS, min_repeat_ms=total)
