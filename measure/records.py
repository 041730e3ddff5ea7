"""Record logs: append-only JSON lines.

There are three kinds of line. `{"environment": {...}, "hash": ...}` and
`{"task": {...}, "hash": ...}` are written once per run; records refer to both by their hashes
(docs/semantics/records.md). Ansor v0.6 lines are recognised by their keys `i`, `r` and `v`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.environment import fingerprint_hash
from autosched.measure.log_lines import log_lines
from autosched.measure.result import MeasureResult, short
from autosched.measure.workload_keys import WorkloadKeys
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task
from autosched.words import count, seconds_text, visible

SCHEMA = 2
_KEYS = {"schema": int, "steps": list, "result": dict}
_EMPTY: dict[str, Any] = {"search": {}, "environment": "", "time": ""}  # defaults
_NAMES = {int: "an integer", dict: "an object", list: "a list", str: "text"}


class NewerRecordError(ConfigError):
    """A record of a schema that this program does not know."""


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One measured candidate, with all that is needed to rebuild it.

    - `task`: the task's entry (Task.to_json).
    - `steps`: the transform steps of the candidate.
    - `search`: how the search came to it.
    - `environment`: the hash of the environment in which it was measured.
    - `time`: when it was recorded (UTC, ISO 8601).
    """

    task: dict[str, Any]
    steps: tuple[Step, ...]
    result: MeasureResult
    search: dict[str, Any] = field(default_factory=dict)
    environment: str = ""
    time: str = ""

    def __repr__(self) -> str:
        failure = self.result.failure
        if failure is not None:
            found = f"failed ({failure.stage} {failure.kind})"
        elif not self.result.seconds:
            found = "no time"
        else:
            checked = "checked" if self.result.checked else "not checked"
            found = f"{seconds_text(self.result.cost)}, {checked}"
        return f"<record of {_task_name(self.task)}: {found}, {count(len(self.steps), 'step')}>"

    @property
    def ansor_limits(self) -> bool:
        """Whether it was measured within Ansor's limits, not in the search space `autosched`."""
        return self.search.get("space") != "autosched"

    def to_json(self, task: str = "") -> dict[str, Any]:
        """The record's line. It refers to its task by `task`, the task's `task_hash` if empty."""
        return {
            "schema": SCHEMA,
            "task": task or task_hash(self.task),
            "steps": steps_to_json(self.steps),
            "result": self.result.to_json(),
            "search": self.search,
            "environment": self.environment,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], tasks: dict[str, dict[str, Any]]) -> Record:
        """The record of a line. `tasks` are the tasks of the lines before it, by their hashes.

        Records of schema 1 contain their task, which is added to `tasks`. Raises ConfigError,
        saying what is missing or wrong, when `data` is not a record.
        """
        if _is_later(data):
            raise NewerRecordError(
                f"record schema {data['schema']} is newer than this program's {SCHEMA}; upgrade it"
            )
        _require(data, _KEYS)
        if data["schema"] < 1:
            raise ConfigError(f"record schema: expected 1 to {SCHEMA}, found {data['schema']}")
        search, environment, time = (data.get(key) or empty for key, empty in _EMPTY.items())
        if type(search) is not dict or type(environment) is not str or type(time) is not str:
            _require(data, {key: type(empty) for key, empty in _EMPTY.items()})
        return cls(
            _task_of(data.get("task"), tasks),
            steps_from_json(data["steps"]),
            MeasureResult.from_json(data["result"]),
            search,
            environment,
            time,
        )


def _task_name(task: Mapping[str, Any]) -> str:
    """The task's name and kind of target; its key where the name would need a user's file."""
    workload = task.get("workload")
    if isinstance(workload, Mapping) and "python" not in workload and not task.get("inputs"):
        with suppress(ConfigError):
            rebuilt = Task.from_json(task, to_run=False)
            return f"{rebuilt.name} on {rebuilt.target.kind}"
    return f"task {task.get('key')}"


def target_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target in a task's entry; empty where a damaged entry has none."""
    target = task.get("target")
    return target if isinstance(target, Mapping) else {}


def task_hash(task: dict[str, Any]) -> str:
    """16 hex digits that identify a task's entry (target included) in the records of a file."""
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]


def _task_of(entry: Any, tasks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(entry, str):
        task = tasks.get(entry)
        if task is None:
            raise ConfigError(
                f"a record of task {entry}, but no line before it describes that task"
            )
        return task
    _require({"task": entry}, {"task": dict})
    own: dict[str, Any] = entry
    _require_key(own, "record")
    known = tasks.get(own["key"])
    if known is None or known != own:
        tasks[own["key"]] = known = own
    return known  # one object, shared by all of its records


def _require_key(task: dict[str, Any], kind: str) -> None:
    key = task.get("key")
    if type(key) is not str:
        raise ConfigError(f"not a {kind}: the key task.key is missing")
    if not key.isprintable():
        raise ConfigError(f"not a {kind}: task.key: expected hex digits, found {short(key)}")


def _require(data: dict[str, Any], kinds: dict[str, type]) -> None:
    for key, kind in kinds.items():
        if type(data.get(key)) is not kind:
            raise ConfigError(
                f"not a record: {key}: expected {_NAMES[kind]}, found {short(data.get(key))}"
            )


@dataclass(slots=True, repr=False)
class LogContents:
    """What a file held: records in order, and a sentence for every line that was skipped.

    - `environments`, `tasks`: the contents of such lines, by their hashes.
    - `newer`: the sentence about the first line of a later schema; empty without one.
    - `renamed`: where a line gives a hash to another environment than a line before did, the hash
      under which the later environment is in `environments` and in the records after it.
    - `fitting`: workload keys for `ansor_log.parse`.
    """

    records: list[Record] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    newer: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    fitting: set[str] = field(default_factory=set)

    def environment_of(self, name: str) -> str:
        """The key in `environments` of the environment that the lines now call `name`."""
        return self.renamed.get(name, name)

    def add_environment(self, name: str, environment: dict[str, Any]) -> None:
        """Add the environment of a line; an earlier line may have given `name` to another one."""
        self.renamed.pop(name, None)
        if self.environments.get(name, environment) != environment:
            self.renamed[name] = fingerprint_hash(environment)
        self.environments[self.environment_of(name)] = environment

    def __repr__(self) -> str:
        held = {"record": self.records, "task": self.tasks, "problem": self.problems}
        return f"<log contents: {', '.join(count(len(v), noun) for noun, v in held.items())}>"


def head_lines(
    environments: Mapping[str, Mapping[str, Any]], tasks: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The lines of environments and tasks to which records refer, by their hashes."""
    return {
        **{key: {"environment": value, "hash": key} for key, value in environments.items()},
        **{key: {"task": value, "hash": key} for key, value in tasks.items()},
    }


def line_of(data: Mapping[str, Any]) -> str:
    """One line of a record file, with its newline."""
    return json.dumps(data, separators=(",", ":")) + "\n"


def read_log(path: Path | str, keys: WorkloadKeys | None = None) -> LogContents:
    """Read everything in `path`: autosched records and Ansor v0.6 lines, mixed or not.

    `keys` gives the computations of Ansor's lines whose workload keys are not built in. A line that
    cannot be read, such as a torn last one, is skipped and reported in `problems`. Raises
    ConfigError when the file itself cannot be read.

        >>> import autosched
        >>> task = autosched.Task.from_workload("matmul", M=16, N=16, K=16)
        >>> result = autosched.tune(task, trials=4, records="mm.jsonl")
        >>> sorted({record.task["workload"]["op"] for record in read_log("mm.jsonl").records})
        ['matmul']
    """
    contents = LogContents()
    contents.records.extend(stream_log(path, contents, keys))
    return contents


def stream_log(
    path: Path | str, contents: LogContents, keys: WorkloadKeys | None = None
) -> Iterator[Record]:
    """Yield the records of `path` one at a time, without keeping them.

    `contents` gains the environments, tasks and problems of the lines. Raises as `read_log` does.
    """
    path = Path(path)
    for number, line in log_lines(path, contents.problems):
        record = record_of(path, number, line, contents, keys)
        if record is not None:
            yield record


def record_of(
    path: Path, number: int, line: str, contents: LogContents, keys: WorkloadKeys | None
) -> Record | None:
    """The record of line `number`; None for any other line, whose contents `contents` gains."""
    try:
        data = parsed(line)
    except (ValueError, RecursionError):
        cut = "" if line.endswith("\n") else " (cut short: its run was ended while writing)"
        contents.problems.append(f"{path}:{number}: not a whole JSON object{cut}; skipped")
        return None
    try:
        return _take(data, contents, keys)
    except ConfigError as error:
        problem = f"{path}:{number}: {visible(str(error))}"
        contents.problems.append(f"{problem}; skipped")
        if isinstance(error, NewerRecordError) and not contents.newer:
            contents.newer = problem
        return None


def parsed(line: str) -> Any:
    """The JSON of a line. A lone surrogate, which no text can hold, becomes `?`."""
    data = json.loads(line)
    if "\\ud" in line.lower():
        data = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
    return data


def is_later(line: str) -> bool:
    """Whether a line is a record of a later schema, whatever else it holds."""
    return _is_later(_object(line))


def is_head(line: str) -> bool:
    """Whether a line holds an environment or a task, to which later records may refer."""
    data = _object(line)
    return "hash" in data and ("environment" in data or "task" in data)


def _object(line: str) -> dict[str, Any]:
    """The JSON object of a line; empty where the line is not an object."""
    try:
        data = parsed(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _is_later(data: Mapping[str, Any]) -> bool:
    schema = data.get("schema")
    return type(schema) is int and schema > SCHEMA


def _take(data: Any, contents: LogContents, keys: WorkloadKeys | None) -> Record | None:
    """The record of a line; None for an environment or a task, which `contents` gains."""
    if not isinstance(data, dict):
        raise ConfigError(f"not a record: expected an object, found {short(data)}")
    if "i" in data and "r" in data:
        task, steps, result, when = ansor_log.parse(data, keys, contents.fitting)
        return Record(task, steps, result, time=when)
    if "steps" not in data and not _is_later(data):
        for key in ("environment", "task"):
            if key in data:
                _require(data, {key: dict, "hash": str})
                if key == "environment":
                    contents.add_environment(data["hash"], data[key])
                else:
                    _require_key(data[key], "task")
                    contents.tasks[data["hash"]] = data[key]
                return None
    record = Record.from_json(data, contents.tasks)
    if record.environment in contents.renamed:
        return replace(record, environment=contents.environment_of(record.environment))
    return record
