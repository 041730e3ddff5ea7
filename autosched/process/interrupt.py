"""Hold back Ctrl-C during work that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_holding: list[_Held] = []  # the contexts that hold signals, the innermost one last


class _Held:
    """The signals that a context has held back, unless they are `let_through`."""

    def __init__(self) -> None:
        handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
        self.earlier: dict[int, Callable[[int, FrameType | None], Any]] = {
            number: handler for number, handler in handlers.items() if callable(handler)
        }
        self.arrived: list[int] = []
        self.let_through = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler meanwhile."""
        if self.let_through:
            self.earlier[number](number, frame)
        else:
            self.arrived.append(number)

    def deliver(self) -> None:
        """Have the first of the signals that arrived take effect; the others are dropped."""
        first = self.arrived[:1]
        self.arrived.clear()
        for number in first:
            self.earlier[number](number, None)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """A context in which Ctrl-C, SIGTERM and SIGHUP take effect at its end, not before.

    For a few milliseconds of work, or around `interrupts_taken`. It has no effect outside the main
    thread, where no signal arrives, nor on a signal that is ignored or has the system's default
    action.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = _Held()
    for number in held.earlier:
        signal.signal(number, held)
    _holding.append(held)
    try:
        yield
    finally:
        _holding.remove(held)
        for number, handler in held.earlier.items():
            signal.signal(number, handler)
    held.deliver()


@contextmanager
def interrupts_taken() -> Iterator[None]:
    """A context inside `interrupts_held` in which they take effect at once.

    Those that arrived before take effect at its beginning. What catches the KeyboardInterrupt
    around it misses none, because they are held again from its end on. Without `interrupts_held` it
    has no effect.
    """
    if not _holding or threading.current_thread() is not threading.main_thread():
        yield
        return
    held = _holding[-1]
    try:
        held.let_through = True
        held.deliver()
        yield
    finally:
        held.let_through = False


def interrupt_arrived() -> bool:
    """Whether a signal is held back, which is then dropped: the caller heeds it."""
    found = any(held.arrived for held in _holding)
    for held in _holding:
        held.arrived.clear()
    return found
