"""The progress of a tuning run while it goes on, and its result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autosched.measure.records import Record
from autosched.search.ranking_quality import Quality
from autosched.task import Task
from autosched.words import seconds_text


@dataclass(frozen=True, slots=True)
class Part:
    """How far measuring a batch is: in `build` or `run`, with `done` of `total` candidates."""

    name: str
    done: int
    total: int


@dataclass(slots=True, repr=False)
class Progress:
    """The state of a run that an observer sees after every phase and batch.

    `trials` is the limit, `done` and `valid` count measured candidates, `round` counts batches.
    `part` is set while a batch is measured. `failures` counts failures by stage and kind, `quality`
    has that of each batch with predictions, `seconds` those spent by phase. `started` and
    `finished` are times of `time.perf_counter`.
    """

    task: Task
    trials: int
    done: int = 0
    valid: int = 0
    round: int = 0
    phase: str = "start"
    part: Part | None = None
    best: Record | None = None
    failures: Counter[str] = field(default_factory=Counter)
    quality: list[Quality] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    finished: float | None = None

    def __repr__(self) -> str:
        best = f", best {seconds_text(self.best.result.cost)}" if self.best is not None else ""
        done = f"{self.done} of {self.trials} trials, {self.valid} valid{best}"
        return f"<{self.task.name}: {done}, phase {self.phase}>"

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, until it ended."""
        return (self.finished or time.perf_counter()) - self.started

    @property
    def outside_measuring(self) -> float:
        """Seconds that were spent on anything but measuring candidates."""
        return sum(s for phase, s in self.seconds.items() if phase != "measure")

    def flops_per_second(self, record: Record | None = None) -> float:
        """The throughput of `record`, by default of the best one.

        0 when there is none, and where operations are not counted.
        """
        record = record or self.best
        return max(0.0, self.task.dag.flop_count) / record.result.cost if record else 0.0


class Observer(Protocol):
    """A callback for every change; `records` are those just written, if any."""

    def __call__(self, progress: Progress, records: Sequence[Record]) -> None:
        """Called after every phase and batch, and while a batch is built and run."""


@dataclass(slots=True)
class TuneResult:
    """The result of a run. `best` is the fastest valid record, earlier runs' included.

    `failed` is set when the run ended early because nothing more could be measured or written;
    `reason` says why. `records` includes results that could not be written.
    """

    task: Task
    best: Record | None
    records: list[Record]
    progress: Progress
    interrupted: bool = False
    reason: str = "all trials were used"
    failed: bool = False
