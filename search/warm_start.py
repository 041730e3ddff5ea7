"""Train a model on records of other tasks before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from autosched.errors import AutoschedError
from autosched.features.sets import TUNING
from autosched.measure.records import Record
from autosched.measure.standing import timed_among
from autosched.search.featurize import Helper, task_featurizer, tell_python
from autosched.search.learned import learned_from
from autosched.search.learner import Learner
from autosched.task import Task
from autosched.words import count


@dataclass(frozen=True, slots=True)
class WarmStart:
    """How many records of how many tasks were learned from, and why others were not usable."""

    records: int
    tasks: int
    problems: tuple[str, ...]


def warm_start(
    learner: Learner,
    records: Sequence[Record],
    kind: str,
    helper: Helper | None = None,
    features: str = TUNING,
    environments: Mapping[str, Mapping[str, Any]] | None = None,
    warning: Callable[[str], None] = tell_python,
) -> WarmStart:
    """Add to `learner` the records of every task on a `kind` of target (cpu, cuda).

    Throughputs are relative to the best of their own task on the same machine (`environments` are
    those of the records), so times of other machines do no harm. Of many records of a task a sample
    is taken. A task that cannot be rebuilt here, or is of another kind of target, is reported.
    `warning` is called for bugs of autosched that cost candidates or time.
    """

    def origin(record: Record) -> tuple[str, str]:
        return str(record.task["key"]), timed_among(record, environments)

    used, problems = 0, []
    tasks: set[str] = set()
    for (key, place), group in groupby(sorted(records, key=origin), key=origin):
        mine = list(group)
        try:
            task = Task.from_json(mine[0].task, to_run=False)
            if task.target.kind != kind:
                other = f"for {task.target.kind}, not {kind}"
                problems.append(f"{count(len(mine), 'record')} of {task.name}: {other}")
                continue
            mine = [mine[k] for k in learned_from([record.result.cost for record in mine])]
            limits = all(record.ansor_limits for record in mine)
            featurize = task_featurizer(task, helper, features, limits, warning)
            rows = featurize([record.steps for record in mine])
        except AutoschedError as error:
            problems.append(f"{count(len(mine), 'record')} of task {key}: {error}")
            continue
        costs = [record.result.cost for record in mine]
        learner.add(f"warm start {key} {place}", rows, costs)
        usable = sum(r is not None and c < float("inf") for r, c in zip(rows, costs, strict=True))
        if usable < len(mine):
            problems.append(
                f"{len(mine) - usable} of {len(mine)} records of {task.name} failed or are illegal"
            )
        used += usable
        tasks |= {key} if usable else set()
    return WarmStart(used, len(tasks), tuple(problems))
