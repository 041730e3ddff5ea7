"""What is known of a tuning run: while it goes on, and at its end."""

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
    """How far measuring a batch is: `build` or `run`, and how many of its candidates' worth."""

    name: str
    done: int
    total: int


@dataclass(slots=True, repr=False)
class Progress:
    """What an observer sees after every phase and batch; `part` is known while one is measured."""

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
        """Of `record` or the best; 0 when there is none."""
        record = record or self.best
        return self.task.dag.flop_count / record.result.cost if record is not None else 0.0


class Observer(Protocol):
    """Told of every change; `records` are the ones just written, if any."""

    def __call__(self, progress: Progress, records: Sequence[Record]) -> None:
        """Called after every phase and batch, and while a batch is built and run."""


@dataclass(slots=True)
class TuneResult:
    """What a run found. `best` is the fastest valid record, earlier runs' included.

    `failed` when it ended early because nothing more could be measured or written; `reason` says
    why, and results that could not be written are here all the same.
    """

    task: Task
    best: Record | None
    records: list[Record]
    progress: Progress
    interrupted: bool = False
    reason: str = "all trials were used"
    failed: bool = False
