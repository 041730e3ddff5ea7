"""Hold back Ctrl-C during work that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """A context in which Ctrl-C, SIGTERM and SIGHUP take effect at its end, not before.

    For a few milliseconds of work. It has no effect outside the main thread, where no signal
    arrives, nor on a signal that is ignored or has the system's default action.
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
