"""Read record files for commands and functions: warn of skipped lines, refuse other tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError
from autosched.measure.records import LogContents, Record, read_log, target_of
from autosched.measure.run_options import RunOptions
from autosched.measure.standing import is_race
from autosched.measure.workload_keys import WorkloadKeys
from autosched.session.applying import applying
from autosched.session.believed import believed
from autosched.session.this_cpu import Place, cpu_name, measured_here
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import count, visible

_SHOWN = 3


def read_records(path: Path, warning: Tell, keys: WorkloadKeys | None = None) -> LogContents:
    """The contents of the file `path`; `warning` is called for lines that were skipped.

    `keys` names the computations of Ansor's lines whose workload keys are not built in.
    Raises ConfigError when the file cannot be read.
    """
    contents = read_log(path, keys)
    tell_problems(path, contents, warning)
    return contents


def record_files(name: str, given: Any) -> tuple[Path, ...]:
    """The paths that the argument `name` gives: one or a list of them. Raises ConfigError."""
    paths = arguments.file_paths(name, given, "record file")
    if not paths:
        raise ConfigError(f"{name}: expected at least one record file, found none")
    return paths


def each_once(paths: Sequence[Path], warning: Tell) -> list[Path]:
    """The files of `paths`, in order; `warning` is called for a file that is given again.

    That may be by the same path, another one, or a link. Reading it twice would count its
    candidates twice.
    """
    found: dict[object, Path] = {}
    for path in paths:
        identity = _identity(path)
        first = found.get(identity)
        if first is None:
            found[identity] = path
        else:
            again = "is given twice" if first == path else f"is the same file as {first}"
            warning(f"{path} {again}; it is read once")
    return list(found.values())


def _identity(path: Path) -> object:
    """A key that tells a file from others; the path of a file that does not exist."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # a name with a zero byte
        return path
    return status.st_dev, status.st_ino


def is_same_file(one: Path, other: Path | None) -> bool:
    """Whether both paths lead to the same existing file."""
    return other is not None and _identity(one) == _identity(other) != one


def tell_problems(path: Path, contents: LogContents, warning: Tell) -> None:
    """Call `warning` for the first skipped lines of `path`, and for the number of others."""
    for problem in contents.problems[:_SHOWN]:
        warning(problem)
    if len(contents.problems) > _SHOWN:
        warning(f"{count(len(contents.problems) - _SHOWN, 'more line')} of {path} skipped")


@dataclass(frozen=True, slots=True)
class Earlier:
    """The records of a run's tasks that its file holds already.

    `here` were measured on this machine's CPU, by the task's key: the run continues from them.
    `elsewhere` were measured on the `cpus`: a model may learn from them, but their times are not
    this machine's. `otherwise` were taken with another `measure.cache_flush`: times with empty and
    with warm caches cannot be compared. `environments` are those of the file. `foreign` counts the
    candidates of other tasks in it, `again` those that timed out after less time than this run
    allows, which may be measured again.
    """

    here: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    elsewhere: Sequence[Record] = ()
    cpus: Sequence[str] = ()
    otherwise: Sequence[Record] = ()
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    foreign: int = 0
    again: int = 0

    @property
    def known(self) -> int:
        """How many candidates the run continues from; the winner of a race counts once."""
        return sum(map(_candidates, self.here.values()))

    @property
    def others(self) -> str:
        """`12 records of another CPU (znver5) train the model only`; empty when there are none."""
        return "; ".join(filter(None, (self._elsewhere(), self._otherwise(), self._foreign())))

    @property
    def ended_sooner(self) -> str:
        """`8 candidates may be tried again: ...`; empty where there are none."""
        if not self.again:
            return ""
        return (
            f"{count(self.again, 'candidate')} may be tried again: measure.timeout_s was shorter "
            "when they took too long"
        )

    def _foreign(self) -> str:
        return f"{count(self.foreign, 'record')} of other tasks left alone" if self.foreign else ""

    def _otherwise(self) -> str:
        number = _candidates(self.otherwise)
        if not number:
            return ""
        verb = "trains" if number == 1 else "train"
        how = "timed with another measure.cache_flush"
        return f"{count(number, 'record')} {how} {verb} the model only"

    def _elsewhere(self) -> str:
        number = _candidates(self.elsewhere)
        if not number:
            return ""
        on_gpu = target_of(self.elsewhere[0].task).get("kind") == "cuda"
        device = "GPU" if on_gpu else "CPU"
        another = f"another {device}" if len(self.cpus) == 1 else f"other {device}s"
        verb = "trains" if number == 1 else "train"
        names = ", ".join(self.cpus)
        return f"{count(number, 'record')} of {another} ({names}) {verb} the model only"


def _candidates(records: Sequence[Record]) -> int:
    """The number of candidates of the records: the winner of a race, with two, counts once."""
    return sum(not is_race(record) for record in records)


def earlier_records(
    path: Path | None,
    tasks: Sequence[Task],
    warning: Tell,
    remedy: str,
    keys: WorkloadKeys | None = None,
    run: RunOptions | None = None,
    gpu: str | None = None,
    place: Place | None = None,
) -> Earlier:
    """The records of the tasks in `path`; none where there is no file.

    `keys` are as for `read_records`; `run` says how this run measures. `gpu` is the name of this
    machine's GPU, if tasks for CUDA are measured and it is known. `place` says where the run
    measures if that is not here. Raises ConfigError, which ends with `remedy`, when the file holds
    only records of other tasks.
    """
    if path is None or not path.is_file():
        return Earlier()
    contents = read_records(path, warning, keys)
    run = RunOptions() if run is None else run
    here: dict[str, list[Record]] = {task.key: [] for task in tasks}
    elsewhere: list[Record] = []
    otherwise: list[Record] = []
    cpus: dict[str, None] = {}
    mine_only = (record for record in contents.records if record.task["key"] in here)
    for record in believed(path, mine_only, warning):
        mine = here[record.task["key"]]
        if record.result.valid and record.result.cache_flush != run.flush_bytes:
            otherwise.append(record)
        elif measured_here(record, contents.environments, gpu, place):
            mine.append(record)
        else:
            elsewhere.append(record)
            cpus.setdefault(cpu_name(record, contents.environments))
    if contents.records and not any(record.task["key"] in here for record in contents.records):
        if len(tasks) > 1:
            raise ConfigError(f"{path} holds records of other tasks only. {remedy}")
        other, own = contents.records[0].task, tasks[0].to_json()
        held, expected = identity(other), identity(own)
        if held == expected:
            parts = ("workload", "inputs", "lowering")
            differing = [part for part in parts if other.get(part) != own.get(part)]
            expected = f"the same with other {' and '.join(differing) or 'settings'}"
        raise ConfigError(
            f"{path} holds records of another task ({held}); expected {expected}. {remedy}"
        )
    if contents.records and all("ansor" in record.task for record in contents.records):
        warning(
            f"{path} is a log of Ansor's: this run's records are added in autosched's own form, "
            "which Ansor does not read; `autosched records convert --to ansor-v0.6` writes its form"
        )
    foreign = _candidates([r for r in contents.records if r.task["key"] not in here])
    kept = {key: _not_ended_sooner(mine, run) for key, mine in here.items()}
    again = sum(_unknown(mine, kept[key]) for key, mine in here.items())
    kept = {task.key: applying(task, kept[task.key], warning) for task in tasks}
    return Earlier(kept, elsewhere, tuple(cpus), otherwise, contents.environments, foreign, again)


def _not_ended_sooner(records: Sequence[Record], run: RunOptions) -> list[Record]:
    """The records without timeouts after less time than this run allows: these tell it nothing."""
    limit = run.limit(min((record.result.cost for record in records), default=math.inf))
    return [
        record
        for record in records
        if (failure := record.result.failure) is None
        or (failure.stage, failure.kind) != ("run", "timeout")
        or record.result.total_seconds >= limit
    ]


def _unknown(records: Sequence[Record], kept: Sequence[Record]) -> int:
    """How many candidates of `records` have no record among the `kept`."""
    return len({record.steps for record in records} - {record.steps for record in kept})


def identity(entry: dict[str, Any]) -> str:
    """All that tells tasks apart, as text: workload, kind of target, threads, hardware.

    The text of `not_rebuilt` if the task cannot be rebuilt.
    """
    try:
        task = Task.from_json(entry, to_run=False)
    except ConfigError:
        return not_rebuilt(entry)
    hardware = task.target.hardware.as_list()
    threads = count(task.target.threads, "thread")
    return f"{task.name} on {task.target.kind}, {threads}, limits {hardware}"


def unused(path: Path) -> Path:
    """`path`, or the first of name-2, name-3 ... that does not exist."""
    number = 2
    candidate = path
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate


def not_rebuilt(entry: dict[str, Any]) -> str:
    """The workload of a task that cannot be rebuilt, or its key where it has none."""
    return visible(str(entry.get("workload") or f"task {entry['key']}"))
