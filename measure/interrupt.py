"""Exceptions that end a batch early (Ctrl-C, a lost GPU) and carry the results until then."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import MeasureError
from autosched.measure.result import MeasureResult, RunResult

LOST = "lost"
"""The kind of errors after which nothing more can be measured."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C while a batch ran. `results` holds the repeats and the failure of each candidate."""

    def __init__(self, results: Sequence[RunResult]) -> None:
        super().__init__("interrupted while running candidates")
        self.results = tuple(results)


class MeasureInterrupted(KeyboardInterrupt):
    """Ctrl-C while a batch was measured.

    `results` has one entry per candidate, None where nothing is known.
    """

    def __init__(self, results: Sequence[MeasureResult | None]) -> None:
        super().__init__("interrupted while measuring")
        self.results = tuple(results)


class RunLostError(MeasureError):
    """Nothing can be run any more. `results` holds the repeats and the failure of each candidate.

    `index` is the candidate that was under way, whether it is to blame or not.
    """

    def __init__(
        self, message: str, results: Sequence[RunResult] = (), index: int | None = None
    ) -> None:
        super().__init__(message, stage="run", kind=LOST)
        self.results = tuple(results)
        self.index = index


class MeasureLostError(MeasureError):
    """Nothing can be measured any more. `results` has None where nothing is known."""

    def __init__(self, message: str, results: Sequence[MeasureResult | None]) -> None:
        super().__init__(message, stage="run", kind=LOST)
        self.results = tuple(results)
