"""What the best kernel is held against: the machine's peak and NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.cli.peer import Peer, peer_of
from autosched.errors import AutoschedError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.task import Task
from autosched.words import last_line


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """The machine's peak (operations a second) and NumPy.

    `missing` says why there is no comparison with NumPy; it is empty when there is one.
    """

    peak: float | None = None
    peer: Peer | None = None
    missing: str = ""


def compare(task: Task, measurer: Measurer, best: Record) -> Yardsticks:
    """What is known of the best when Ctrl-C or a failure cuts this short: tuning is complete."""
    peak = peer = None
    missing = ""
    try:
        peak = measurer.peak(task)
        peer = peer_of(task, measurer, best)
    except AutoschedError as error:
        reason = last_line(str(error))
        missing = f"timing failed: {reason}; run it again when the cores are free"
    except KeyboardInterrupt:
        missing = "interrupted"
    return Yardsticks(peak, peer, missing)
