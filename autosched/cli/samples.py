"""Records as samples of a dataset: the connection between record files and features."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from autosched.cli.console import warning
from autosched.errors import ConfigError, ScheduleError
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.datasets.sample import Sample
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, Rows
from autosched.measure.records import LogContents, Record, stream_log, task_hash
from autosched.measure.standing import is_race, timed_among
from autosched.measure.workload_keys import WorkloadKeys
from autosched.session.believed import Doubts
from autosched.session.reading import tell_problems
from autosched.state.steps import Step, steps_to_json
from autosched.task import Task
from autosched.words import count, escaped

_AT_ONCE = 2048  # records read ahead, whose rows are computed together
_TASKS_AT_ONCE = 16  # tasks whose tables are kept
_MOST_KNOWN = 8192  # candidates whose rows are kept, 4 kB each

_Candidate = tuple[int, bool, tuple[Step, ...]]  # (id of the task, Ansor's limits, steps)


class _Ahead:
    """Records that were read ahead; the rows of all are computed when the first are needed."""

    def __init__(self, rows: Callable[[Sequence[tuple[Task, Record]]], list[Rows | None]]) -> None:
        self._rows = rows
        self.records: list[tuple[Task, Record]] = []
        self.samples: list[Sample] = []
        self._found: list[Rows | None] = []

    def rows(self, k: int) -> Rows | None:
        """The rows of record k; None for a candidate that cannot be lowered."""
        if not self._found:
            self._found = self._rows(self.records)
        return self._found[k]


class RecordSamples:
    """Iterates over every record of the files, in order; few records are kept in memory.

    Left out are records of races, because their candidates were recorded before, and records with
    times that no kernel can have. Later iterations also leave out records that a run has added
    meanwhile.

    The first iteration reports what was skipped. `environments` is filled during iteration. Raises
    ConfigError if a file holds fewer records than the first time.
    """

    def __init__(
        self, paths: Sequence[Path], features: str, keys: WorkloadKeys | None = None
    ) -> None:
        self._keys = keys
        self._paths = paths
        self._features = features
        names = Counter(path.name for path in paths)
        self._names = {
            path: escaped(path.name if names[path.name] == 1 else str(path)) for path in paths
        }
        self._tasks: dict[str, Task | None] = {}
        self._last: tuple[dict[str, Any], Task | None] = {}, None
        self._batched: dict[tuple[int, bool], BatchedFeatures] = {}  # by the identity of a task
        self._known: dict[_Candidate, Rows | None] = {}
        self._read: list[int] = []  # number of records of each file, after the first iteration
        self.environments: dict[str, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[Sample]:
        known, read = self._read, []
        for place, path in enumerate(self._paths):
            contents = LogContents(environments=self.environments)
            ahead = _Ahead(self._rows)
            doubts = Doubts()
            number = -1
            if known and path.is_fifo():  # opening it again would wait for another writer
                raise ConfigError(f"{path} is read twice; give a file instead of a pipe")
            records = stream_log(path, contents, self._keys)
            for number, record in enumerate(islice(records, known[place] if known else None)):
                task = self._task(record, contents)
                if task is None or doubts.about(record) or is_race(record):
                    continue
                failure = record.result.failure
                sample = Sample(
                    task=record.task,
                    rows=partial(ahead.rows, len(ahead.records)),
                    seconds=record.result.cost if record.result.valid else float("nan"),
                    failure="" if failure is None else f"{failure.stage} {failure.kind}",
                    environment=record.environment,
                    source=self._names[path],
                    record=number,
                    steps=partial(_steps_text, record),
                    timed_among=timed_among(record, contents.environments),
                )
                ahead.records.append((task, record))
                ahead.samples.append(sample)
                if len(ahead.samples) == _AT_ONCE:
                    yield from ahead.samples
                    ahead = _Ahead(self._rows)
            yield from ahead.samples
            read.append(number + 1)
            if not known:
                tell_problems(path, contents, warning)
                doubts.tell(path, warning)
            elif read[place] < known[place]:
                raise ConfigError(
                    f"{path} is read twice: it held {count(known[place], 'record')}, then "
                    f"{read[place]}; run this again"
                )
        self._read = read

    def _task(self, record: Record, contents: LogContents) -> Task | None:
        """The record's task; None, reported once, if this installation does not know it."""
        entry, task = self._last
        if record.task is entry:  # most records have the task of the previous one
            return task
        name = task_hash(record.task)  # tasks of machines with different caches share a key
        if name not in self._tasks:
            try:
                self._tasks[name] = Task.from_json(record.task, to_run=False)
            except ConfigError as error:
                self._tasks[name] = None
                key = record.task["key"]
                contents.problems.append(f"records of task {key} are left out: {error}")
        self._last = record.task, self._tasks[name]
        return self._tasks[name]

    def _rows(self, records: Sequence[tuple[Task, Record]]) -> list[Rows | None]:
        """The rows of the records' candidates; each candidate is computed only once."""
        names = [(id(task), record.ansor_limits, record.steps) for task, record in records]
        new: dict[_Candidate, tuple[Task, Record]] = {}
        for name, each in zip(names, records, strict=True):
            if name not in self._known:
                new.setdefault(name, each)
        worked_out = dict(zip(new, self._worked_out(list(new.values())), strict=True))
        rows = {name: self._known.get(name) for name in names} | worked_out
        self._known |= worked_out
        for name in list(self._known)[:-_MOST_KNOWN]:
            del self._known[name]
        return [rows[name] for name in names]

    def _worked_out(self, records: Sequence[tuple[Task, Record]]) -> list[Rows | None]:
        """The rows of the candidates, computed per task at once where possible."""
        found: list[Rows | None] = [None] * len(records)
        by_task: dict[tuple[int, bool], list[int]] = {}
        for k, (task, record) in enumerate(records):
            legal = record.result.failure is None  # lowering tells whether others are legal
            if legal and self._features == ANSOR:
                by_task.setdefault((id(task), record.ansor_limits), []).append(k)
            else:
                found[k] = self._one(task, record)
        for key, those in by_task.items():
            batched = self._batched.get(key)
            if batched is None:
                if len(self._batched) == _TASKS_AT_ONCE:
                    self._batched.clear()
                task = records[those[0]][0]
                batched = BatchedFeatures(task.dag, task.target, ansor_limits=key[1])
                self._batched[key] = batched
            rows = batched.rows_of([records[k][1].steps for k in those])
            for k, own in zip(those, rows, strict=True):
                found[k] = own
        return found

    def _one(self, task: Task, record: Record) -> Rows | None:
        try:
            limits = record.ansor_limits
            return rows_of_steps(task.dag, record.steps, task.target, self._features, limits)
        except ScheduleError:
            return None


def _steps_text(record: Record) -> str:
    return json.dumps(steps_to_json(record.steps), separators=(",", ":"))
