"""What the best kernel is compared with: NumPy's own operation, timed in the same process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autosched.driver import build_steps
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.task import Task

# Upper over lower quartile of the repeats. On two cores, 21 comparisons of three kernels: 1.36 to
# 2.23 with both cores taken by others, at most 1.32 with one or none. One that is taken all the
# time is not noticed: it makes every repeat slower alike.
_DISTURBED = 1.3

_OPERATORS = ("matmul", "batch_matmul")
_TYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Peer:
    """Median seconds per call of NumPy and of our kernel, timed in turns.

    `scatter`: the upper over the lower quartile of the repeats, of the one where it is larger.
    OpenBLAS's threads wait for each other in a loop, so that other programs slow NumPy down several
    times as much as our kernel.
    """

    name: str
    numpy_seconds: float
    kernel_seconds: float
    scatter: float = 1.0

    @classmethod
    def of(cls, name: str, theirs: Sequence[float], ours: Sequence[float]) -> Peer:
        """From the repeats of both."""
        scatter = max(float(np.divide(*np.quantile(v, [0.75, 0.25]))) for v in (theirs, ours))
        return cls(name, float(np.median(theirs)), float(np.median(ours)), scatter)

    @property
    def share(self) -> float:
        """Our speed over NumPy's: above 1 we are faster."""
        return self.numpy_seconds / self.kernel_seconds

    @property
    def disturbed(self) -> bool:
        """True when other programs were at work, so that the share means little."""
        return self.scatter > _DISTURBED

    @property
    def text(self) -> str:
        text = f"{self.share:.2f} of {self.name} (OpenBLAS), timed in turns in one process"
        return f"{text}; unreliable: others use the cores" if self.disturbed else text

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share, "disturbed": self.disturbed}


def without_peer(task: Task) -> str | None:
    """Why NumPy has nothing to compare the task's kernels with; None when it has.

    OpenBLAS knows float32 and float64; of other types NumPy's `matmul` is a plain loop.
    """
    workload = task.workload.to_json()
    if workload.get("op") not in _OPERATORS:
        return f"only the operators {' and '.join(_OPERATORS)} are"
    if workload["args"]["dtype"] not in _TYPES:
        return f"only {' and '.join(_TYPES)} are"
    return None


def peer_of(task: Task, measurer: Measurer, best: Record) -> Peer | None:
    """Time the best kernel and NumPy's `matmul` in turns.

    None where `without_peer` has a reason. Raises MeasureError when timing fails.
    """
    if without_peer(task) is not None:
        return None
    artifact = build_steps(task.dag, best.steps, task.target, layout=task.layout).to_bytes()
    return Peer.of("numpy.matmul", *measurer.runner.compare_with_numpy(task, artifact))
