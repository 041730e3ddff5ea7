"""The best candidates of each task and machine in record files, which are read as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.glance import Glance, glances
from autosched.measure.plausible import least_of
from autosched.measure.records import LogContents, Record, stream_log
from autosched.measure.standing import is_race
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.machine import Machine, Machines
from autosched.records.ranking import Place, Ranking
from autosched.records.writing import require_any
from autosched.session.applying import Applying
from autosched.session.reading import each_once, tell_problems
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count

_FINALISTS = 8  # fewest candidates kept: the winner of a race has an earlier record among them


@dataclass(slots=True, repr=False)
class Group:
    """The records of a task whose times can be compared: of one machine, timed in one way.

    `cache_flush` are the bytes that were written before each call to empty the caches.
    `candidates` counts those measured, `valid` those of them with a time that can be believed,
    `impossible` the records whose time cannot. `times` maps each candidate, by `number_of`, to its
    least time, where that was asked for.
    """

    entry: TaskEntry
    machine: Machine
    cache_flush: int
    ranking: Ranking
    environment: dict[str, Any]
    candidates: int = 0
    valid: int = 0
    impossible: int = 0
    times: dict[int, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        cold = ", with empty caches" if self.cache_flush else ""
        found = f"{count(self.candidates, 'candidate')}, {self.valid} valid"
        return f"<{self.entry.name} on {self.machine.text}{cold}: {found}>"


@dataclass(repr=False)
class TaskEntry:
    """A task of record files, of any machine.

    `entry` is the task as records hold it, `groups` are its records by machine and bytes of cache
    flush. `problem` says why the task cannot be rebuilt.
    """

    entry: dict[str, Any]
    groups: dict[tuple[Machine, int], Group] = field(default_factory=dict)
    problem: str = ""

    def __repr__(self) -> str:
        return f"<{self.name}: {count(len(self.groups), 'group')} of records>"

    @property
    def key(self) -> str:
        """The key of the task: 16 hex digits."""
        return str(self.entry["key"])

    @cached_property
    def task(self) -> Task | None:
        """The task, rebuilt; None where it cannot be, for the reason `problem`."""
        try:
            return Task.from_json(self.entry, to_run=False)
        except ConfigError as error:
            self.problem = str(error)
            return None

    @property
    def name(self) -> str:
        """The name for people; the key where the task cannot be rebuilt."""
        return self.task.name if self.task is not None else f"task {self.key}"

    @property
    def operations(self) -> float:
        """Floating-point operations of a call; 0 where they are not counted."""
        return max(0.0, self.task.dag.flop_count) if self.task is not None else 0.0

    @cached_property
    def least_seconds(self) -> float:
        """Seconds that every kernel of the task takes at least."""
        return least_of(self.entry)

    def ordered(self) -> list[Group]:
        """The groups, those of this machine first, then those with warm caches."""
        return sorted(self.groups.values(), key=lambda g: (not g.machine.here, g.cache_flush))


@dataclass
class Standings:
    """The `most` best candidates of each task and machine in record files, by task.

    No other record is kept, however long the files are; with `times`, the time of each candidate.
    """

    most: int
    times: bool = False
    tasks: dict[str, TaskEntry] = field(default_factory=dict)
    records: int = 0
    skipped: list[str] = field(default_factory=list)
    _doubted: set[str] = field(default_factory=set)
    _applying: Applying = field(default_factory=Applying)

    def read(self, path: Path, warning: Tell, keys: WorkloadKeys | None = None) -> LogContents:
        """Add the records of a file and return its contents; `warning` gets skipped lines.

        `keys` as for `read_log`. Raises ConfigError when the file cannot be read.
        """
        contents, machines = LogContents(), Machines()
        read = stream_log if self.times else glances
        for index, found in enumerate(read(path, contents, keys)):
            self._add(path, index, found, contents, machines)
            self.records += 1
        tell_problems(path, contents, warning)
        self.skipped += contents.problems
        self._tell_doubted(path, warning)
        self._applying.tell(path, warning)
        return contents

    def _add(
        self,
        path: Path,
        index: int,
        found: Record | Glance,
        contents: LogContents,
        machines: Machines,
    ) -> None:
        key = found.task["key"]
        entry = self.tasks.get(key)
        if entry is None:
            entry = self.tasks[key] = TaskEntry(found.task)
        flush = found.cache_flush if isinstance(found, Glance) else found.result.cache_flush
        where = machines.of(found, contents.environments), flush
        group = entry.groups.get(where)
        if group is None:
            ranking = Ranking(max(self.most, _FINALISTS))
            environment = contents.environments.get(found.environment, {})
            group = entry.groups[where] = Group(entry, *where, ranking, environment)
        if isinstance(found, Glance):
            cost = found.least_cost
            if cost >= entry.least_seconds and group.ranking.is_too_slow(cost):
                group.candidates += 1
                group.valid += 1
                return
            found = found.whole()
        self._add_whole(group, found, path, index)

    def _add_whole(self, group: Group, record: Record, path: Path, index: int) -> None:
        again, result = is_race(record), record.result
        group.candidates += not again
        if result.valid and result.cost < group.entry.least_seconds:
            group.impossible += 1
        elif result.valid and self._may_rank(group, record) and not self._applying(record):
            pass
        elif result.valid:
            group.valid += not again
            group.ranking.add(record, path, index, self.records)
            if self.times:
                number = number_of(record)
                group.times[number] = min(result.cost, group.times.get(number, result.cost))

    def _may_rank(self, group: Group, record: Record) -> bool:
        """Whether the record may be one of the `most` best."""
        if self.most == 1 or is_race(record):
            return group.ranking.may_lead(record)
        return not group.ranking.is_too_slow(record.result.cost)

    def _tell_doubted(self, path: Path, warning: Tell) -> None:
        for key, task in self.tasks.items():
            doubted = sum(group.impossible for group in task.groups.values())
            if doubted and key not in self._doubted:
                self._doubted.add(key)
                warning(
                    f"{path}: {count(doubted, 'record')} of {task.name} not believed: no kernel "
                    f"of it takes less than {task.least_seconds:.3g} s"
                )


def number_of(record: Record) -> int:
    """A number that stands for the candidate of a record."""
    return hash(record.steps)


def read_standings(
    sources: Sequence[Path],
    most: int,
    warning: Tell,
    keys: WorkloadKeys | None,
    *,
    times: bool = False,
) -> Standings:
    """The standings of the files together, which are read in turn, each once; see `each_once`.

    Raises ConfigError when a file cannot be read, or none of them holds a record.
    """
    found = Standings(most, times)
    for path in each_once(sources, warning):
        found.read(path, warning, keys)
    require_any(sources, found.records)
    return found


def ranked(group: Group, most: int) -> list[Place]:
    """The best candidates of a group, the best first."""
    return group.ranking.ranked()[:most]
