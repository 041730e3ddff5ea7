"""The recorded candidates of a task as a space to search: features and times, all known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import AutoschedError, ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import TUNING
from autosched.measure.records import Record
from autosched.measure.standing import timed_among
from autosched.search.featurize import Helper, task_featurizer
from autosched.state.steps import Step
from autosched.task import Task
from autosched.words import count

Tell = Callable[[str], None]
LEAST = 2
"""Candidates of a task below which there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one task that were measured on one machine.

    `programs` are their feature rows, one array (stores, columns) each; `seconds` their times a
    call, positive and finite: (programs,).
    """

    task: str
    operator: str
    programs: list[FeatureRows]
    seconds: npt.NDArray[np.float64]

    @property
    def throughputs(self) -> npt.NDArray[np.float64]:
        """Relative to the fastest, in (0, 1]: (programs,)."""
        found: npt.NDArray[np.float64] = self.seconds.min() / self.seconds
        return found


def pools_of(
    records: Iterable[Record],
    warning: Tell,
    features: str = TUNING,
    helper: Helper | None = None,
    environments: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Pool]:
    """A pool for each task, machine and way of timing that the records tell of, in their order.

    `environments` are those of the records, which tell machines apart. Failures are left out, as in
    a search; of a candidate that was measured several times the last record counts, which is that
    of its race. What cannot be used is told to `warning`. Raises ConfigError when nothing can.
    """
    groups: dict[tuple[str, str], dict[tuple[Step, ...], Record]] = {}
    for record in records:
        if record.result.valid:
            origin = str(record.task["key"]), timed_among(record, environments)
            groups.setdefault(origin, {})[record.steps] = record
    pools = []
    for (key, _), latest in groups.items():
        mine = list(latest.values())
        try:
            task = Task.from_json(mine[0].task)
            limits = all(record.ansor_limits for record in mine)
            featurize = task_featurizer(task, helper, features, limits)
            rows = featurize([record.steps for record in mine])
        except AutoschedError as error:
            warning(f"{count(len(mine), 'candidate')} of task {key} left out: {error}")
            continue
        usable = [
            (r, record.result.cost) for r, record in zip(rows, mine, strict=True) if r is not None
        ]
        if len(usable) < LEAST:
            warning(
                f"{task.name} left out: {count(len(usable), 'usable candidate')}, "
                f"at least {LEAST} are needed"
            )
            continue
        operator = str(task.workload.to_json().get("op", task.name))
        programs = [program for program, _ in usable]
        pools.append(Pool(task.name, operator, programs, np.array([s for _, s in usable])))
    if not pools:
        raise ConfigError("no task with candidates to choose from; give records of tuning runs")
    return pools
