"""Records as samples of a dataset: the bridge between record files and features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from autosched.cli.chosen import read
from autosched.errors import ScheduleError
from autosched.task import Task
from features.dataset import Sample
from features.lowering import features_of_steps


def samples(paths: Sequence[Path]) -> Iterator[Sample]:
    """Every record of the files, in order; what cannot be lowered has no rows."""
    tasks: dict[str, Task] = {}
    for path in paths:
        for record in read(path).records:
            key = record.task["key"]
            task = tasks.get(key)
            if task is None:
                task = tasks[key] = Task.from_json(record.task)
            try:
                rows = features_of_steps(task.dag, record.steps, task.target)
            except ScheduleError:
                rows = None
            failure = record.result.failure
            yield Sample(
                task=record.task,
                rows=rows,
                seconds=record.result.cost if record.result.valid else float("nan"),
                failure="" if failure is None else f"{failure.stage} {failure.kind}",
            )
