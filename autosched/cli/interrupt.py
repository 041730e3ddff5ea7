"""What Ctrl-C does: it ends the process at once, except where a command can save something.

There SIGTERM and SIGHUP, a closed terminal, do the same.
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

    A KeyboardInterrupt while modules are imported may come out as any other error. Does nothing
    where interrupts are ignored, as in background jobs.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def interrupts_raise() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, a little later where it would be ignored.

    So do SIGTERM and SIGHUP, where nobody chose what they do.
    """
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = again_if_lost
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def interrupts_end() -> None:
    """From now on Ctrl-C does nothing: the process is about to end with its own status.

    Only where `interrupts_leave` was called: a program that uses the command line as a library
    keeps its own handler.
    """
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) in (_leave, _raise):
            signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
