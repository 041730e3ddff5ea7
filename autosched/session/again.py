"""Time the winner again at the end of a run, to see whether its time is reliable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autosched.errors import AutoschedError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.measure.steady import DISTURBED, scatter, two_speeds
from autosched.task import Task

_SAME = 1.15  # steady kernels repeat within a few percent; the search itself prefers lucky times


@dataclass(frozen=True, slots=True)
class Again:
    """The result that made a candidate the best, and its result at the end of the run."""

    found: MeasureResult
    again: MeasureResult

    @property
    def seconds(self) -> float:
        """Seconds per call at the end of the run."""
        return self.again.cost

    @property
    def ratio(self) -> float:
        """The time at the end over the recorded time: above 1 the record is too good."""
        return self.again.cost / self.found.cost

    @property
    def remark(self) -> str:
        """Why the time is unreliable; an empty text when nothing speaks against it."""
        both = (self.again.seconds, self.found.seconds)
        speeds = next(filter(None, map(two_speeds, both)), None)
        most = max(map(scatter, both))
        hot = max((r.device or {}).get("throttled", 0) for r in (self.again, self.found))
        if hot:
            return f"unreliable: heat or power slowed the GPU's clocks in {hot} of its visits"
        if not 1 / _SAME <= self.ratio <= _SAME:
            why = f"it took {self.ratio:.2f} times as long at the end of the run"
        elif speeds is not None:
            why = f"its repeats have two speeds, one {speeds[1] / speeds[0]:.2f} times the other"
        elif most > DISTURBED:
            why = f"its repeats differ by a factor of {most:.2f}"
        else:
            return ""
        taken = max(r.disturbed for r in (self.again, self.found))
        if taken:
            return f"unreliable: {why}; other programs used the cores in {taken} of its visits"
        return f"unreliable: {why}; other programs use the cores, or their clock changes"

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints."""
        return {"seconds": self.seconds, "ratio": self.ratio, "remark": self.remark or None}


def timed_again(task: Task, measurer: Measurer, best: Record) -> Again | None:
    """Time the best of a task once more; None when that fails."""
    try:
        result = measurer.again(task, best.steps)
    except AutoschedError:
        return None
    return Again(best.result, result) if result.valid else None
