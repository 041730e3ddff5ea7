"""The recorded candidates of a task as a space to search, with known features and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import AutoschedError, ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import TUNING
from autosched.measure.gpu_environment import gpu_names
from autosched.measure.records import Record
from autosched.measure.standing import timed_among
from autosched.search.featurize import Helper, task_featurizer
from autosched.state.steps import Step
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count

LEAST = 2
"""The fewest candidates of a task: with fewer there is nothing to choose."""
_OPERATORS = ("op", "expr", "python")
"""The keys of a workload that name its operator, which is the same in tasks of other sizes."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one task that were measured on one machine.

    `programs` are their feature rows, one array (stores, columns) each; `seconds` their times per
    call, positive and finite: (programs,). `machine` tells the pools of one task apart; empty for
    the only pool of a task. `kind` is that of the target, cpu or cuda.
    """

    task: str
    operator: str
    programs: list[FeatureRows]
    seconds: npt.NDArray[np.float64]
    machine: str = ""
    kind: str = "cpu"

    @property
    def name(self) -> str:
        """The name of the pool in tables: the task, and the machine if there is one."""
        return f"{self.task} on {self.machine}" if self.machine else self.task

    @property
    def throughputs(self) -> npt.NDArray[np.float64]:
        """The throughputs relative to the fastest, in (0, 1]: (programs,)."""
        found: npt.NDArray[np.float64] = self.seconds.min() / self.seconds
        return found


def pools_of(
    records: Iterable[Record],
    warning: Tell,
    features: str = TUNING,
    helper: Helper | None = None,
    environments: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Pool]:
    """Make a pool for each task, machine and way of timing of the records, in their order.

    `environments` are those of the records; they tell machines apart. Failures are left out, as in
    a search. If a candidate was measured several times, its last record counts, which is that of
    its race. `warning` is called for what cannot be used. Raises ConfigError when nothing can.
    """
    groups: dict[tuple[str, str], dict[tuple[Step, ...], Record]] = {}
    for record in records:
        if record.result.valid:
            origin = str(record.task["key"]), timed_among(record, environments)
            groups.setdefault(origin, {})[record.steps] = record
    pools: list[Pool] = []
    machines: list[str] = []
    for (key, _), latest in groups.items():
        mine = list(latest.values())
        try:
            task = Task.from_json(mine[0].task, to_run=False)
            limits = all(record.ansor_limits for record in mine)
            featurize = task_featurizer(task, helper, features, limits, warning)
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
        if len(usable) < len(mine):
            warning(
                f"{task.name}: {len(mine) - len(usable)} of {count(len(mine), 'candidate')} left "
                "out: they cannot be lowered"
            )
        workload = task.workload.to_json()
        operator = str(next(workload[kind] for kind in _OPERATORS if kind in workload))
        programs = [program for program, _ in usable]
        seconds = np.array([s for _, s in usable])
        pools.append(Pool(_name(task), operator, programs, seconds, kind=task.target.kind))
        machines.append(_machine(mine[0], task, environments or {}))
    if not pools:
        raise ConfigError("no task with candidates to choose from; give records of tuning runs")
    return _told_apart(pools, machines)


def _name(task: Task) -> str:
    """The name of the task; for an expression with its sizes and type, which the name lacks."""
    workload = task.workload.to_json()
    if "expr" not in workload:
        return task.name
    sizes = [f"{name} {'x'.join(map(str, shape))}" for name, shape in workload["shapes"].items()]
    return f"{task.name} with {', '.join([*sizes, str(workload['dtype'])])}"


def _machine(record: Record, task: Task, environments: Mapping[str, Mapping[str, Any]]) -> str:
    environment = environments.get(record.environment, {})
    names = gpu_names(environment) or (environment.get("cpu") or task.target.cpu or "unknown",)
    flush = ", empty caches" if record.result.cache_flush else ""
    return ", ".join(map(str, names)) + flush


def _told_apart(pools: Sequence[Pool], machines: Sequence[str]) -> list[Pool]:
    """The pools; those of one task get the names of their machines, equal names a number."""
    several = Counter(pool.task for pool in pools)
    seen: Counter[tuple[str, str]] = Counter()
    named = []
    for pool, machine in zip(pools, machines, strict=True):
        seen[pool.task, machine] += 1
        number = seen[pool.task, machine]
        label = machine if number == 1 else f"{machine} ({number})"
        named.append(replace(pool, machine=label) if several[pool.task] > 1 else pool)
    return named
