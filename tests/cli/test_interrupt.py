"""Ctrl-C in the command line."""

import importlib
import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from types import FrameType
from weakref import ReferenceType

import pytest

from autosched.cli import interrupt
from autosched.cli.interrupt import interrupts_end, interrupts_leave, interrupts_raise
from autosched.process.interrupt import ENDING_SIGNALS
from kit.cli import Cli


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handlers as they were, afterwards."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    earlier = {n: signal.signal(n, signal.SIG_DFL) for n in ENDING_SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in earlier.items():
        signal.signal(number, handler)


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_else_ends_a_process_interrupts_it(number: signal.Signals) -> None:
    interrupts_leave()
    assert signal.getsignal(number) is signal.SIG_DFL  # nothing can be saved yet
    interrupts_raise()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
        time.sleep(30)
    interrupts_end()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts_leave()
    interrupts_raise()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


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
    hook = sys.unraisablehook
    interrupts_leave()
    interrupts_raise()
    interrupts_end()
    assert signal.getsignal(signal.SIGINT) is own
    assert sys.unraisablehook is hook


WRITING = [
    ("build", "run", ("build", "mm.jsonl", "-o", "out")),
    ("dataset", "export", ("dataset", "export", "mm.jsonl", "-o", "x.csv")),
    ("records", "merge", ("records", "merge", "mm.jsonl", "-o", "x.jsonl")),
    ("records", "trim", ("records", "trim", "mm.jsonl", "--best", "1", "-o", "x.jsonl")),
    ("records", "convert", ("records", "convert", "mm.jsonl", "-o", "x.jsonl")),
    ("report", "run", ("report", "mm.jsonl")),
    ("arena", "run", ("arena", "mm.jsonl", "-o", "x.csv")),
    ("doctor", "run", ("doctor",)),
    ("cache", "add", ("cache", "add", "mm.jsonl")),
]


@pytest.mark.parametrize(("module", "function", "words"), WRITING)
def test_what_writes_files_for_long_can_remove_them(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, module: str, function: str, words: tuple[str, ...]
) -> None:
    command = importlib.import_module(f"autosched.cli.{module}")

    def interrupted(*_: object, **__: object) -> None:
        for number in ENDING_SIGNALS:  # Ctrl-C's is not the one that leaves
            assert signal.getsignal(number) is interrupt._raise
        raise KeyboardInterrupt

    monkeypatch.setattr(command, function, interrupted)
    interrupts_leave()
    assert cli(*words).status == 130
