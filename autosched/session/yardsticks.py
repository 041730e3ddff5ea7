"""Compare the best kernel with the machine's peak and with NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import AutoschedError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.process.interrupt import interrupts_taken
from autosched.session.peer import Peer, peer_of
from autosched.session.race import Final
from autosched.task import Task
from autosched.words import last_line

_ON_GPU = "kernels of a GPU are not compared with NumPy"
NO_PEER = "tasks that are tuned together are not compared with NumPy"


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """The machine's peak (operations a second), NumPy, and the race that the best has won.

    `missing` says why there is no comparison with NumPy; it is empty when there is one.
    """

    peak: float | None = None
    peer: Peer | None = None
    missing: str = ""
    final: Final | None = None


def compare(task: Task, measurer: Measurer, best: Record, final: Final | None) -> Yardsticks:
    """Compare the best of a task. Ctrl-C or a failure ends this with what is known by then."""
    if task.target.is_gpu:
        return Yardsticks(missing=_ON_GPU, final=final)
    peak = peer = None
    missing = ""
    try:
        with interrupts_taken():
            peak = measurer.peak(task, task.dag.flop_count / best.result.cost)
            peer = peer_of(task, measurer, best)
    except AutoschedError as error:
        reason = last_line(str(error))
        missing = f"timing failed: {reason}; run it again when the cores are free"
    except KeyboardInterrupt:
        missing = "interrupted"
    return Yardsticks(peak, peer, missing, final)


def compare_alone(task: Task, measurer: Measurer, best: Record, final: Final | None) -> Yardsticks:
    """The comparison of a task that is tuned together with others: without NumPy."""
    peak = measurer.peak(task, task.dag.flop_count / best.result.cost)
    return Yardsticks(peak, missing=NO_PEER, final=final)
