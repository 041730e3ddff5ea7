"""What a command of the command line leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autosched.measure.records import Record
from autosched.measure.result import Failure
from autosched.state.steps import Step


@dataclass
class Outcome:
    """Its exit status and both streams."""

    status: int
    out: str
    err: str


Cli = Callable[..., Outcome]


class MakeRecord(Protocol):
    """One record of the 16x16x16 matmul."""

    def __call__(
        self,
        seconds: float = ...,
        steps: tuple[Step, ...] = ...,
        failure: Failure | None = None,
    ) -> Record: ...
