"""Group record files into runs: the records of one task, one machine and one way of timing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import ConfigError
from autosched.measure.records import LogContents, Record, task_hash
from autosched.measure.standing import is_race, takes_over
from autosched.measure.workload_keys import WorkloadKeys
from autosched.session.applying import Applying
from autosched.session.believed import believed
from autosched.session.reading import each_once, read_records
from autosched.session.this_cpu import UNKNOWN_CPU, cpu_name
from autosched.session.this_gpu import is_of_this_machine
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.workloads.workload import shape_of

_MOST = 1e9  # limit of scores and seconds: hostile files hold numbers beyond any float


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured candidate: its record, the record's index in the file, and its cost in seconds."""

    record: Record
    index: int
    cost: float

    @property
    def valid(self) -> bool:
        """Whether the candidate has a time."""
        return self.cost < inf

    @property
    def predicted(self) -> float | None:
        """The score for which it was chosen, where the record tells one."""
        score = self.record.search.get("predicted")
        if not isinstance(score, int | float) or isinstance(score, bool):
            return None
        return float(score) if 0 < score < _MOST else None


@dataclass
class Run:
    """The records of one file and task, measured on one `device` with one `flush` of caches.

    `here` says whether the device is of this machine. `trials` are in the order of the file, each
    candidate once. `best` is the best record after the races in the file. `task` is None where it
    cannot be rebuilt, and `problem` says why. `spent` are seconds by phase. `file` is the name of
    the source on the page.
    """

    source: Path
    entry: Mapping[str, Any]
    task: Task | None
    problem: str
    device: str
    here: bool
    flush: int
    trials: list[Trial] = field(default_factory=list)
    best: Record | None = None
    races: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    environments: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    file: str = ""

    @property
    def name(self) -> str:
        """The name of the task, for people."""
        if self.task is not None:
            return " ".join(self.task.name.split())
        return f"task {self.entry.get('key', 'without a key')}"

    @property
    def machine(self) -> str:
        """The name of the device, for people."""
        return "unknown machine" if self.device == UNKNOWN_CPU else self.device

    @property
    def timed(self) -> str:
        """What the name of the device lacks to tell runs apart; empty where caches were warm."""
        return ", empty caches" if self.flush else ""

    @cached_property
    def flops(self) -> float:
        """Operations of a call; 0 where they are not counted."""
        return 0.0 if self.task is None else max(0.0, self.task.dag.flop_count)

    @cached_property
    def bytes(self) -> int:
        """Bytes of all inputs and outputs: each must be read or written at least once."""
        if self.task is None:
            return 0
        sizes = ((shape_of(tensor), tensor.dtype.numpy.itemsize) for tensor in self.task.tensors)
        return sum(int(np.prod(shape, dtype=object)) * size for shape, size in sizes)

    @property
    def valid(self) -> list[Trial]:
        """The trials that have a time."""
        return [trial for trial in self.trials if trial.valid]

    def rate(self, seconds: float) -> float:
        """Operations a second, or calls a second where operations are not counted."""
        return (self.flops or 1.0) / seconds


def read_runs(
    paths: Sequence[Path], warning: Tell, keys: WorkloadKeys | None = None
) -> tuple[list[Run], int]:
    """The runs of all files, in the order of their first records, and how many lines were skipped.

    `warning` is called for lines that were skipped and for times that are not believed.
    Raises ConfigError when a file cannot be read or holds no records, or none is believed.
    """
    runs: list[Run] = []
    skipped = 0
    paths = each_once(paths, warning)
    for path in paths:
        contents = read_records(path, warning, keys)
        if not contents.records:
            raise ConfigError(
                f"{path} holds no records; expected a file that `autosched tune` or Ansor v0.6 "
                "wrote"
            )
        skipped += len(contents.problems)
        runs += _runs_of(path, contents, warning)
    names = Counter(path.name for path in paths)
    for run in runs:
        run.file = run.source.name if names[run.source.name] == 1 else str(run.source)
    if not runs:
        raise ConfigError(
            f"{', '.join(map(str, paths))}: every recorded time is impossible for a kernel, so "
            "there is nothing to report"
        )
    return runs, skipped


def _runs_of(path: Path, contents: LogContents, warning: Tell) -> list[Run]:
    found: dict[tuple[str, str, bool, int], Run] = {}
    tasks: dict[str, tuple[Task | None, str]] = {}
    machines: dict[tuple[int, str], tuple[str, bool]] = {}
    usable = Applying()
    numbers = {id(record): index for index, record in enumerate(contents.records)}
    for record in believed(path, contents.records, warning):
        machine = machines.get((id(record.task), record.environment))
        if machine is None:
            device = cpu_name(record, contents.environments)
            machine = device, is_of_this_machine(record, contents.environments)
            machines[id(record.task), record.environment] = machine
        key = str(record.task["key"])
        flush = record.result.cache_flush if record.result.valid else 0
        run = found.get((key, *machine, flush))
        if run is None:
            name = task_hash(record.task)  # the task's key does not tell apart machines' caches
            task, problem = tasks.get(name) or tasks.setdefault(name, _task(record.task))
            run = Run(path, record.task, task, problem, *machine, flush)
            found[key, *machine, flush] = run
        leads = record.result.valid and takes_over(record, run.best)
        if not leads or usable(record):
            _add(run, record, numbers[id(record)], contents.environments)
    usable.tell(path, warning)
    return _with_failures(list(found.values()))


def _task(entry: Mapping[str, Any]) -> tuple[Task | None, str]:
    try:
        return Task.from_json(entry, to_run=False), ""
    except ConfigError as error:
        return None, str(error)


def _add(
    run: Run, record: Record, index: int, environments: Mapping[str, Mapping[str, Any]]
) -> None:
    spent = record.search.get("spent")
    for name, seconds in spent.items() if isinstance(spent, dict) else ():
        if type(seconds) in (int, float) and 0 <= seconds < _MOST:
            run.spent[str(name)] = run.spent.get(str(name), 0.0) + seconds
    if record.environment in environments:
        run.environments.setdefault(record.environment, environments[record.environment])
    if record.result.valid and takes_over(record, run.best):
        run.best = record
    again = is_race(record)
    run.races += again
    if not again or (record.result.valid and not _has_time(run, record)):
        run.trials.append(Trial(record, index, record.result.cost))


def _has_time(run: Run, record: Record) -> bool:
    """Whether a trial times the record's candidate; not if its line was damaged or deleted."""
    return any(trial.valid and trial.record.steps == record.steps for trial in run.trials)


def _with_failures(runs: list[Run]) -> list[Run]:
    """Move runs without a time into a run of their task and device that has times.

    The records of failures do not tell whether caches would have been emptied.
    """
    kept: list[Run] = []
    for run in runs:
        same = [r for r in runs if r.entry["key"] == run.entry["key"] and r.device == run.device]
        timed = [r for r in same if r.best is not None and r.here == run.here]
        if run.best is not None or not timed:
            kept.append(run)
            continue
        timed[0].trials = sorted([*timed[0].trials, *run.trials], key=lambda trial: trial.index)
    return kept
