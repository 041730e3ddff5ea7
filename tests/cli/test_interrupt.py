"""Ctrl-C in the command line."""

import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from types import FrameType
from weakref import ReferenceType

import pytest

from autosched.cli.interrupt import interrupts_end, interrupts_leave, interrupts_raise


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handlers as they were, afterwards."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


class Node:
    """Something that can be referred to weakly."""


def interrupted_in_a_callback(_: ReferenceType[Node]) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _turn in range(100):  # the handler runs here
        time.sleep(0)


def test_an_interrupt_in_a_callback_comes_again() -> None:
    interrupts_leave()
    interrupts_raise()
    node = Node()
    reference = weakref.ref(node, interrupted_in_a_callback)
    with pytest.raises(KeyboardInterrupt):
        del node
        assert reference() is None
        time.sleep(30)


def test_another_exception_in_a_callback_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    interrupts_leave()
    interrupts_raise()
    node = Node()
    reference = weakref.ref(node, lambda _: 1 // 0)
    del node
    assert reference() is None
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_handler_of_a_program_stays() -> None:
    def own(number: int, frame: FrameType | None) -> None:
        pass

    signal.signal(signal.SIGINT, own)
    interrupts_leave()
    interrupts_raise()
    interrupts_end()
    assert signal.getsignal(signal.SIGINT) is own
    assert sys.unraisablehook is sys.__unraisablehook__
