"""Handling of Ctrl-C: it ends the process at once, unless a command can save something.

While such a command runs, SIGTERM and SIGHUP (a closed terminal) act like Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from autosched.lost_interrupt import again_if_lost
from autosched.process.interrupt import ENDING_SIGNALS


def interrupts_leave() -> None:
    """From now on Ctrl-C ends the process at once, with status 130.

    A KeyboardInterrupt during imports could come out as any other error. Does nothing if interrupts
    are ignored, as in background jobs.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def interrupts_raise() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt; if Python would lose it, again a little later.

    SIGTERM and SIGHUP do the same, unless something else was chosen for them.
    """
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = again_if_lost
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def interrupts_end() -> None:
    """From now on Ctrl-C does nothing, because the process is about to exit with its own status.

    Only after `interrupts_leave`: a program that uses the command line as a library keeps its own
    handler.
    """
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) in (_leave, _raise):
            signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
