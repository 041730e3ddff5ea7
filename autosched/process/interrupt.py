"""Ctrl-C held back while something happens that must not be cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end, so that the block runs to its end.

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
