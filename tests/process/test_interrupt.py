"""Ctrl-C waits for what must happen wholly or not at all."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from autosched.process.interrupt import (
    ENDING_SIGNALS,
    interrupt_arrived,
    interrupts_held,
    interrupts_taken,
)


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


def test_what_is_taken_inside_of_what_is_held() -> None:
    """Before and behind the part that is taken, interruptions wait for it, or for the end."""
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("begun")
        with pytest.raises(KeyboardInterrupt), interrupts_taken():
            done.append("not reached")
        with pytest.raises(KeyboardInterrupt), interrupts_taken():
            done.append("taken")
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("not reached")
        with interrupts_taken():
            done.append("nothing left")
        os.kill(os.getpid(), signal.SIGINT)
        done.append("ended")
    assert done == ["begun", "taken", "nothing left", "ended"]
    for number in ENDING_SIGNALS:
        assert signal.getsignal(number) is signal.default_int_handler


def test_what_is_held_inside_of_what_is_taken() -> None:
    done = []
    with interrupts_held():
        with pytest.raises(KeyboardInterrupt), interrupts_taken(), interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("written")
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt_arrived() and not interrupt_arrived()
        done.append("heeded")
    assert done == ["written", "heeded"]
    with interrupts_taken():  # without anything held
        done.append("as ever")
    assert not interrupt_arrived()
