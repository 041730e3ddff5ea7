"""The results of command-line calls, and types of fixtures that make them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autosched.measure.records import Record
from autosched.measure.result import Failure
from autosched.state.steps import Step


@dataclass
class Outcome:
    """The exit status and both output streams of a command."""

    status: int
    out: str
    err: str


Cli = Callable[..., Outcome]


def default_interrupts() -> None:
    """Before a command starts: SIGINT ends it, also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class MakeRecord(Protocol):
    """Makes one record of the 16x16x16 matmul."""

    def __call__(
        self,
        seconds: float = ...,
        steps: tuple[Step, ...] = ...,
        failure: Failure | None = None,
    ) -> Record: ...
