"""Ctrl-C held back while something happens that must not be cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C, SIGTERM or SIGHUP inside takes effect at the end, so that the block runs to its end.

    For a few milliseconds of work. Changes nothing outside the main thread, where no signal
    arrives, nor a signal that is ignored or left to the system.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    earlier = {number: handler for number, handler in handlers.items() if callable(handler)}
    held: list[int] = []
    for number in earlier:
        signal.signal(number, lambda found, _: held.append(found))
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    for found in held[:1]:
        earlier[signal.Signals(found)](found, None)
