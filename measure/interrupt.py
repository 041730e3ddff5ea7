"""Ctrl-C while results are at stake: held back, or carrying what was measured until then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from autosched.measure.result import MeasureResult, RunResult


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C while a batch ran. `results` are the repeats and failures until then."""

    def __init__(self, results: Sequence[RunResult]) -> None:
        super().__init__("interrupted while running candidates")
        self.results = tuple(results)


class MeasureInterrupted(KeyboardInterrupt):
    """Ctrl-C during a batch. `results` has an entry per candidate, None where nothing is known."""

    def __init__(self, results: Sequence[MeasureResult | None]) -> None:
        super().__init__("interrupted while measuring")
        self.results = tuple(results)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end, so that what stands inside happens wholly.

    For a few milliseconds of work. Changes nothing outside the main thread, where no Ctrl-C
    arrives, and where Ctrl-C is ignored or left to the system.
    """
    earlier = signal.getsignal(signal.SIGINT)
    if not callable(earlier) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held = False

    def hold(number: int, frame: object) -> None:
        nonlocal held
        held = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
    if held:
        earlier(signal.SIGINT, None)
