"""Ctrl-C waits for what must happen wholly or not at all."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from autosched.process.interrupt import ENDING_SIGNALS, interrupts_held


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Signals raise KeyboardInterrupt, also where the tests run as a background job."""
    earlier = {n: signal.signal(n, signal.default_int_handler) for n in ENDING_SIGNALS}
    yield
    for number, handler in earlier.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_an_interruption_waits_for_what_must_not_be_cut(number: signal.Signals) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), number)
        done.append("written")
    assert done == ["written"]
    assert signal.getsignal(number) is signal.default_int_handler


def test_nothing_is_held_where_no_interruption_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold() -> None:
        with interrupts_held():
            handlers.append(signal.getsignal(signal.SIGINT))

    handlers: list[object] = []
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hold()
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert handlers[1] is signal.SIG_IGN


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="disk full"), interrupts_held():
        raise ValueError("disk full")
