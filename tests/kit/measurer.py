"""Stand-ins for measurement: times are derived from the candidates; nothing is built or run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.measure.check import Seen
from autosched.measure.interrupt import MeasureInterrupted
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import Target
from autosched.task import Task

Steps = tuple[Step, ...]
Told = Callable[[str, int, int], None]

CRASH = Failure("run", "crash", "signal 11")
PATIENT = 300.0  # seconds for a build or call that must succeed, however busy the machine is


def seconds_from(data: bytes) -> float:
    """A time between 1 microsecond and 66 ms that depends on `data` alone."""
    return 1e-6 * (1 + int.from_bytes(hashlib.sha256(data).digest()[:2], "big"))


def seconds_of(steps: Steps) -> float:
    """A time that depends on the candidate alone."""
    return seconds_from(json.dumps(steps_to_json(steps)).encode())


def noise(scale: float, seed: int = 0) -> Callable[[], float]:
    """Factors around 1; one in ten visits takes twice the time."""
    rng = np.random.default_rng(seed)
    return lambda: float(np.exp(scale * rng.standard_normal()) * (1 + (rng.random() < 0.1)))


def failure_of(result: MeasureResult) -> Failure:
    """The failure of a result, which must have one."""
    assert result.failure is not None
    return result.failure


def cost_of(record: Record | None) -> float:
    """The cost of a best record, which must exist."""
    assert record is not None
    return record.result.cost


@dataclass
class StubMeasurer:
    """Stands in for `Measurer`, and for the class: `create` makes another with the same settings.

    `seconds` gives the time of a candidate. In each batch the first candidate and then every
    `bad`-th one fails. The batch after `interrupt_after` others raises KeyboardInterrupt. The batch
    after `cut_short_after` others raises MeasureInterrupted with all but its last two results. At
    the end of a run every time is multiplied by `later`, and in races also by `noise`. Without
    `noise` nothing is raced, so that times that happen to be close (they depend on the machine)
    change nothing. `batches` has the candidates of each batch so far, `heats` those of each race.
    """

    seconds: Callable[[Steps], float] = seconds_of
    bad: int = 0
    interrupt_after: int | None = None
    cut_short_after: int | None = None
    later: float = 1.0
    noise: Callable[[], float] | None = None
    heats: list[list[Steps]] = field(default_factory=list)
    batches: list[list[Steps]] = field(default_factory=list)
    cluster: None = None
    on_known: Callable[[int, MeasureResult], None] | None = None

    @property
    def measured(self) -> list[Steps]:
        """The candidates of all batches."""
        return [steps for batch in self.batches for steps in batch]

    def create(self, **_: Any) -> StubMeasurer:
        return replace(self, batches=[], heats=[])

    def __enter__(self) -> StubMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def require(self, targets: Sequence[Target]) -> None:
        pass

    def gpu(self) -> dict[str, Any] | None:
        return None

    def environment(self) -> dict[str, Any]:
        return {}

    def start(self, task: Task) -> None:
        pass

    def begin(self, task: Task, batch: Sequence[Steps] = ()) -> None:
        pass

    def reference(self, task: Task) -> None:
        pass

    def close(self) -> None:
        pass

    def peak(self, task: Task, reached: float = 0.0) -> float:
        return 1e9

    def build(self, task: Task, batch: Sequence[Steps]) -> list[bytes | None]:
        texts = [json.dumps(steps_to_json(steps)).encode() for steps in batch]
        return [None if self.noise is None else text for text in texts]

    def verified(self, task: Task, artifact: bytes) -> Failure | Seen | None:
        return None

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[MeasureResult]:
        """For each visit the time of a candidate, times `later` and times `noise`."""
        batch = [steps_from_json(json.loads(artifact)) for artifact in artifacts]
        self.heats.append(batch)
        assert self.noise is not None
        costs = [self.later * self.seconds(steps) for steps in batch]
        return [MeasureResult(tuple(c * self.noise() for _ in range(visits))) for c in costs]

    def again(self, task: Task, steps: Steps) -> MeasureResult:
        return MeasureResult((self.later * self.seconds(steps),))

    def measure(
        self,
        task: Task,
        batch: Sequence[Steps],
        best: float = float("inf"),
        progress: Told | None = None,
    ) -> list[MeasureResult]:
        if len(self.batches) == self.interrupt_after:
            raise KeyboardInterrupt
        self.batches.append(list(batch))
        if progress is not None:
            progress("build", len(batch), len(batch))
        results = [self.one(steps, k) for k, steps in enumerate(batch)]
        if self.cut_short_after is not None and len(self.batches) > self.cut_short_after:
            raise MeasureInterrupted([*results[:-2], None, None])
        return results

    def one(self, steps: Steps, k: int) -> MeasureResult:
        """The result of candidate `k` of its batch."""
        if self.bad and k % self.bad == 0:
            return MeasureResult((), CRASH)
        return MeasureResult((self.seconds(steps),), checked=True)
