"""Interrupts that Python prints and forgets come again."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from autosched.lost_interrupt import again_if_lost, none_lost

LOST: Any = SimpleNamespace(exc_value=KeyboardInterrupt())
LONG = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def same_signals_after() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("heeded", SIGNALS)
def test_a_lost_interrupt_comes_again_as_a_signal_that_is_heeded(heeded: signal.Signals) -> None:
    """Ctrl-C is ignored in background jobs; what was lost there is SIGTERM or SIGHUP."""
    for number in SIGNALS:
        signal.signal(number, interrupt if number == heeded else signal.SIG_IGN)
    again_if_lost(LOST)
    with pytest.raises(KeyboardInterrupt):
        threading.Event().wait(LONG)


def test_none_is_lost_inside_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Killing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, interrupt)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with pytest.raises(KeyboardInterrupt), none_lost():
        Killing()
        threading.Event().wait(LONG)
