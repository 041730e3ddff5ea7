"""Functions of the best times of several tasks that a run can make small, for tasks.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def geometric_mean(seconds: Sequence[float]) -> float:
    """That of all times."""
    return math.exp(sum(math.log(s) for s in seconds) / len(seconds))


def squares(seconds: Sequence[float]) -> float:
    """Their sum."""
    return sum(s * s for s in seconds)


OBJECTIVES: dict[str, Callable[[Sequence[float]], float]] = {
    "geometric_mean": geometric_mean,
    "slowest": max,
    "squares": squares,
}
