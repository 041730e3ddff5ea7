"""The objective that a run of several tasks minimises: by default the weighted sum of times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError
from autosched.user_file import load_object, watched

Objective = Callable[[list[float]], float]
"""A function of the best time of each task in seconds, in the order of the tasks."""

_EXPECTED = "a function of the list of the tasks' best times in seconds"


def own_objective(given: Any, where: str) -> Objective | None:
    """The function that `given` is, or that `file.py:name` holds (the file is run); None for None.

    Raises ConfigError that begins with `where`.
    """
    if given is None:
        return None
    if isinstance(given, str):
        _, given = load_object(given, where, "function")
    if not callable(given) or isinstance(given, type):
        raise ConfigError(
            f"{where}: expected {_EXPECTED}, or file.py:name of one, {arguments.found(given)}"
        )
    function: Objective = given
    return function


def objective_of(
    costs: Sequence[float], weights: Sequence[float], function: Objective | None
) -> float:
    """`function` of the costs in seconds; without one the sum of the costs times their weights.

    Raises ConfigError when the function fails or returns anything but a finite number.
    """
    if function is None:
        return sum(weight * cost for weight, cost in zip(weights, costs, strict=True))
    with watched("objective"):
        found: Any = function(list(costs))
    try:
        value = math.nan if isinstance(found, str | bytes | bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(
            f"objective: expected a finite number for the times {list(costs)} in seconds, "
            f"{arguments.found(found)}"
        )
    return value
