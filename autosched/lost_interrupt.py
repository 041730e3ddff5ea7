"""Repeat a Ctrl-C that is lost because it is raised where Python only prints an exception."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON = 0.01  # seconds; by then the callback has returned


def again_if_lost(lost: sys.UnraisableHookArgs) -> None:
    """A `sys.unraisablehook` that sends a lost interrupt again.

    An exception in a finalizer or in a weak reference's callback is printed and forgotten.
    Expressions have such callbacks, so a Ctrl-C sometimes arrives in one. Where Ctrl-C is ignored,
    as in background jobs, SIGTERM or SIGHUP is sent instead: one of them was lost.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        heeded = [number for number in _ENDING if callable(signal.getsignal(number))]
        number = next(iter(heeded), signal.SIGINT)
        again = threading.Timer(_SOON, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


@contextmanager
def none_lost() -> Iterator[None]:
    """A context in which a Ctrl-C that would be lost is sent again.

    A program's own `sys.unraisablehook` is left alone.
    """
    if sys.unraisablehook is not sys.__unraisablehook__:
        yield
        return
    sys.unraisablehook = again_if_lost
    try:
        yield
    finally:
        sys.unraisablehook = sys.__unraisablehook__
