"""What the best kernel is compared with: NumPy's own operation, timed in the same process."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from autosched.driver import build_steps
from autosched.task import Task
from measure.measurer import Measurer
from measure.records import Record


@dataclass(frozen=True, slots=True)
class Peer:
    """Seconds per call of NumPy and of our kernel, timed in turns."""

    name: str
    numpy_seconds: float
    kernel_seconds: float

    @property
    def share(self) -> float:
        """Our speed over NumPy's: above 1 we are faster."""
        return self.numpy_seconds / self.kernel_seconds

    @property
    def text(self) -> str:
        return f"{self.share:.2f} of {self.name} (OpenBLAS), timed in turns in one process"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share}


def peer_of(task: Task, measurer: Measurer, best: Record) -> Peer | None:
    """Time the best kernel and NumPy's `matmul` in turns.

    None when NumPy has no such operation, or only a slow one (OpenBLAS knows float32 and float64).
    """
    workload = task.workload.to_json()
    if workload.get("op") not in ("matmul", "batch_matmul") or task.target.is_gpu:
        return None
    if workload["args"]["dtype"] not in ("float32", "float64"):
        return None
    artifact = build_steps(task.dag, best.steps, task.target, layout=task.layout).to_bytes()
    numpy_seconds, kernel_seconds = measurer.runner.compare_with_numpy(task, artifact)
    return Peer("numpy.matmul", numpy_seconds, kernel_seconds)
