"""Ctrl-C waits for what must happen wholly or not at all."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from autosched.process.interrupt import interrupts_held


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests run as a background job."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def test_an_interruption_waits_for_what_must_not_be_cut() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("written")
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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
