"""Compare the best kernel with what NumPy's users would call, or with plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autosched.errors import MeasureError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.steady import DISTURBED, scatter
from autosched.state.steps import Step
from autosched.task import Task

_SLOWER = 0.95
"""Below this share of a peer's speed the report warns; steady repeats scatter by less."""

PLAIN_LOOPS = "the loops without a schedule, compiled"


@dataclass(frozen=True, slots=True)
class Peer:
    """Median seconds per call of NumPy (or what `name` says) and of our kernel, timed in turns.

    `scatter` is the upper over the lower quartile of the repeats, the larger one of both.
    OpenBLAS's threads wait for each other in a busy loop, so that other programs slow NumPy down
    several times as much as our kernel. `cache_flush` are the bytes written before each call.
    """

    name: str
    numpy_seconds: float
    kernel_seconds: float
    scatter: float = 1.0
    cache_flush: int = 0

    @classmethod
    def of(
        cls, name: str, theirs: Sequence[float], ours: Sequence[float], cache_flush: int = 0
    ) -> Peer:
        """Make a comparison from the repeats of both, in seconds."""
        most = max(scatter(theirs), scatter(ours))
        return cls(name, float(np.median(theirs)), float(np.median(ours)), most, cache_flush)

    @property
    def share(self) -> float:
        """Our speed over NumPy's: above 1 we are faster."""
        return self.numpy_seconds / self.kernel_seconds

    @property
    def disturbed(self) -> bool:
        """Whether other programs were at work, so that the share means little."""
        return self.scatter > DISTURBED

    @property
    def text(self) -> str:
        """The line of the report, with a warning where the times scatter."""
        text = f"{self.share:.2f} times the speed of {self.name}, timed in turns in one process"
        if self.cache_flush:
            text += ", each call with empty caches"
        return f"{text}; unreliable: other programs use the cores" if self.disturbed else text

    @property
    def warning(self) -> str | None:
        """A warning when our kernel is the slower one; None otherwise."""
        if self.share >= _SLOWER or self.disturbed:
            return None
        return f"the best is slower than {self.name}; more trials may find a faster one (--trials)"

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints: all fields, `share` and `disturbed`."""
        return {**asdict(self), "share": self.share, "disturbed": self.disturbed}


def peer_of(task: Task, measurer: Measurer, best: Record) -> Peer:
    """Time the best kernel in turns with what NumPy's users would call.

    Where NumPy has nothing, the kernel is timed in turns with the compiled loops before any
    schedule. Raises MeasureError when timing fails, or those loops are not built in the time that
    candidates have.
    """
    version = task.workload.numpy_version()
    unscheduled: list[tuple[Step, ...]] = [] if version else [()]
    artifact, *rest = measurer.build(task, [best.steps, *unscheduled])
    if artifact is None:
        raise MeasureError("the best candidate could not be built again", stage="compile")
    if None in rest:
        raise MeasureError(f"{PLAIN_LOOPS}, could not be built", stage="compile")
    plain = rest[0] if rest else None
    flush = measurer.runner.options.flush_bytes
    times = measurer.compare_with_numpy(task, artifact, plain)
    return Peer.of(version.name if version else PLAIN_LOOPS, *times, flush)
