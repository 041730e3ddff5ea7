"""Record logs: append-only JSON lines.

Three kinds of line: `{"environment": {...}, "hash": ...}` and `{"task": {...}, "hash": ...}` once
per run, and records, which name both by their hashes (docs/semantics/records.md). Ansor v0.6 lines
are recognised by their keys `i`, `r` and `v`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.environment import fingerprint, fingerprint_hash
from autosched.measure.log_lines import log_lines
from autosched.measure.result import MeasureResult, short
from autosched.measure.whole_lines import kept_elsewhere, write_fitting, write_whole
from autosched.measure.workload_keys import WorkloadKeys
from autosched.output_file import FileKind, is_kind, require_replaceable
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task
from autosched.words import count, seconds_text, visible

SCHEMA = 2
_KEYS = {"schema": int, "steps": list, "result": dict}
_EMPTY: dict[str, Any] = {"search": {}, "environment": "", "time": ""}  # may be left out
_NAMES = {int: "an integer", dict: "an object", list: "a list", str: "text"}


class RecordsError(ConfigError):
    """What was measured cannot be written."""


class NewerRecordError(ConfigError):
    """A record of a schema that this program does not know."""


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One measured candidate, with all that is needed to rebuild it."""

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
        """Whether it was measured within Ansor's limits: not in the space `autosched`."""
        return self.search.get("space") != "autosched"

    def to_json(self, task: str = "") -> dict[str, Any]:
        """Its line of the file, which names its task by `task_hash` (`task`, where it is known)."""
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
        """The record of a line; `tasks` are those of the lines before it, by their hashes.

        Records of schema 1 hold their task themselves, and `tasks` gains it. Raises ConfigError
        saying what is missing or wrong when `data` is not a record.
        """
        _require(data, _KEYS)
        if data["schema"] > SCHEMA:
            raise NewerRecordError(
                f"record schema {data['schema']} is newer than this program's {SCHEMA}; upgrade it"
            )
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
    """The name and the kind of target; the key where a file of the user's would tell them."""
    workload = task.get("workload")
    if isinstance(workload, Mapping) and "python" not in workload and not task.get("inputs"):
        with suppress(ConfigError):
            rebuilt = Task.from_json(task)
            return f"{rebuilt.name} on {rebuilt.target.kind}"
    return f"task {task.get('key')}"


def task_hash(task: dict[str, Any]) -> str:
    """16 hex digits that name a task's entry, its target included, in the records of a file."""
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]


def _task_of(entry: Any, tasks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(entry, str):
        task = tasks.get(entry)
        if task is None:
            raise ConfigError(f"a record of task {entry}, whose own line is not before it")
        return task
    _require({"task": entry}, {"task": dict})
    own: dict[str, Any] = entry
    _require_key(own, "record")
    known = tasks.get(own["key"])
    if known is None or known != own:
        tasks[own["key"]] = known = own
    return known  # one object for all of its records


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

    `environments` and `tasks` are those of lines of their own, by their hashes. `newer` is the
    sentence of the first line of a later schema.
    """

    records: list[Record] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    newer: str = ""

    def __repr__(self) -> str:
        held = {"record": self.records, "task": self.tasks, "problem": self.problems}
        return f"<log contents: {', '.join(count(len(v), noun) for noun, v in held.items())}>"


class RecordLog:
    """Appends records to `path`; each line is written whole, under a lock.

    A file that is there and holds no records is not touched, or with `overwrite` begun anew. One
    that is deleted meanwhile is written again; one that another took the place of gets what this
    log wrote. `beside` is what its environment says beside this machine's fingerprint: of GPUs.
    `hosts` are the fingerprints of nodes of a cluster, by the names that results have: records then
    belong to the environment of their node. It may grow meanwhile.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        overwrite: bool = False,
        beside: Mapping[str, Any] | None = None,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.path = Path(path)
        self._beside = dict(beside or {})
        self._hosts = hosts or {}
        self._overwrite = overwrite
        self._file = -1  # kept open: what is deleted can be read as long as it is
        self._close: weakref.finalize[..., RecordLog] | None = None
        self._first = 0  # where the first line of this log begins
        self._heads: set[str] = set()  # of the environments and tasks that this log wrote

    def append(self, records: Sequence[Record] = ()) -> None:
        """Write the records, stamped with this run's environment and time.

        Without records it writes the environment alone, so that a file that cannot be written is
        known before anything is measured.

        Raises ConfigError when the file cannot be written or is one of another kind. On a full
        disk it keeps the records that fit, and the message says where the others are.
        """
        self._write(self.environment, [self.stamped(r) for r in records], partly=True)

    def close(self) -> None:
        """Let go of the file; who writes again opens it again."""
        self._let_go()

    def _let_go(self) -> None:
        if self._close is not None:
            self._close()
            self._close, self._file = None, -1

    @property
    def environment(self) -> dict[str, dict[str, Any]]:
        """Those of this run, each under its hash: this machine's, or those of a cluster's nodes."""
        if not self._hosts:
            return self._own
        return {fingerprint_hash(each): each for each in map(dict, self._hosts.values())}

    @cached_property
    def _own(self) -> dict[str, dict[str, Any]]:
        environment = {**fingerprint(), **self._beside}
        return {fingerprint_hash(environment): environment}

    def stamped(self, record: Record) -> Record:
        """The record with the time and the environment of where it was measured."""
        node = self._hosts.get(record.result.host)
        environment = next(iter(self.environment)) if node is None else fingerprint_hash(dict(node))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return replace(record, environment=environment, time=now)

    @contextmanager
    def locked(
        self,
        environments: Mapping[str, Mapping[str, Any]] | None = None,
        records: Sequence[Record] = (),
    ) -> Iterator[int]:
        """Inside, no other program writes to the file; its size in bytes.

        Raises RecordsError when the file cannot be written. Where it was deleted, what it held is
        then written elsewhere, and these records, which belong to the environments, too.
        """
        try:
            self._open()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield os.lseek(self._file, 0, os.SEEK_END)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            problem = f"cannot write the record file {self.path}: {error.strerror}"
            kept = self._deleted_kept(environments or {}, records)
            raise RecordsError("; ".join(filter(None, (problem, kept)))) from error
        except ConfigError as error:
            kept = self._deleted_kept(environments or {}, records)
            raise RecordsError("; ".join(filter(None, (str(error), kept)))) from None

    def claim(
        self, task: Mapping[str, Any], states: Sequence[str]
    ) -> tuple[set[str], list[tuple[tuple[Step, ...], str]]]:
        """What others measure or have measured; of a log that asks nobody, nothing (RunLog)."""
        return set(), []

    def note(self, record: Record) -> None:
        """What is known of a candidate while its batch is measured; not kept here (RunLog)."""

    def copy(self, contents: LogContents) -> None:
        """Write records of other files as they are, with their environments and times.

        Raises ConfigError when the file cannot be written or is one of another kind.
        """
        self._write(contents.environments, contents.records)

    def _write(
        self,
        environments: Mapping[str, Mapping[str, Any]],
        records: Sequence[Record],
        *,
        partly: bool = False,
    ) -> None:
        """Write what is new to the file, as whole lines: all, or none on an error.

        With `partly` those that fit stay. Raises RecordsError when the file cannot be written.
        """
        with self.locked(environments, records if partly else ()) as size:
            self._write_at(size, environments, records, partly)

    def _write_at(
        self,
        size: int,
        environments: Mapping[str, Mapping[str, Any]],
        records: Sequence[Record],
        partly: bool,
    ) -> None:
        """As `_write`, to the open file, which has that size."""
        if size <= self._first:  # a new file, or somebody emptied it
            self._heads.clear()
        if not self._heads:
            self._first = size
        heads, lines = _lines(environments, records)
        new = [head for head in heads if head not in self._heads]
        texts = [*(heads[head] for head in new), *lines]
        written, problem = len(texts), ""
        if partly:
            written, problem = write_fitting(self._file, texts)
        else:
            write_whole(self._file, "".join(texts))
        self._heads.update(new[:written])
        if problem:
            left = lines[max(0, written - len(new)) :]
            kept = kept_elsewhere(self.path, list(heads.values()), left)[0] if left else ""
            where = f"cannot write the record file {self.path}"
            raise RecordsError("; ".join(filter(None, (f"{where}: {problem}", kept))))

    def _deleted(self) -> bool:
        """Whether the open file no longer has the name."""
        try:
            return self._file >= 0 and not is_at(self._file, self.path)
        except OSError:
            return False

    def _deleted_kept(
        self, environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
    ) -> str:
        """Write what the deleted file held, and the records, elsewhere; a sentence about that.

        An empty text where nobody deleted it.
        """
        if not self._deleted():
            return ""
        taken = self.path.is_file() and self.path.stat().st_size > 0  # its place, by another
        held = _text_from(self._file, self._first if taken else 0)
        heads, lines = _lines(environments, records)
        if not held and not lines:
            return ""
        sentence, kept = kept_elsewhere(self.path, list(heads.values()), lines, held)
        if kept:
            self._let_go()
            self._heads.clear()
        return sentence

    def _open(self) -> None:
        """Open the file that has the name now; a new one gets what is lost with the one before."""
        before = self._file
        if before >= 0 and is_at(before, self.path):
            return
        overwrite = self._overwrite and before < 0
        require_replaceable(self.path, FileKind.RECORDS, overwrite=overwrite)
        if overwrite and not is_kind(self.path, FileKind.RECORDS):
            self.path.unlink()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._first = self._first if before < 0 else self._carried_over(before, file)
        except BaseException:
            os.close(file)  # the one before still has all
            raise
        self._let_go()
        self._file, self._close = file, weakref.finalize(self, os.close, file)

    def _carried_over(self, before: int, file: int) -> int:
        """Write all of a file that was deleted to a new one, to another one what this log wrote.

        Returns where that begins.
        """
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        write_whole(file, _text_from(before, self._first if size else 0))
        return size


def _lines(
    environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
) -> tuple[dict[str, str], list[str]]:
    """The lines that records name, by their hashes, and those of the records."""
    tasks = {id(record.task): record.task for record in records}
    hashes = {key: task_hash(task) for key, task in tasks.items()}
    heads = head_lines(environments, {hashes[key]: task for key, task in tasks.items()})
    lines = [line_of(record.to_json(hashes[id(record.task)])) for record in records]
    return {head: line_of(line) for head, line in heads.items()}, lines


def _text_from(file: int, start: int) -> str:
    """What an open file holds from that byte on."""
    os.lseek(file, start, os.SEEK_SET)
    with open(file, encoding="utf-8", errors="replace", closefd=False) as held:
        return held.read()


def is_at(file: int, path: Path) -> bool:
    """Whether the open file still is the one that has the name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def head_lines(
    environments: Mapping[str, Mapping[str, Any]], tasks: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The lines that records refer to, by their hashes."""
    return {
        **{key: {"environment": value, "hash": key} for key, value in environments.items()},
        **{key: {"task": value, "hash": key} for key, value in tasks.items()},
    }


def line_of(data: Mapping[str, Any]) -> str:
    """One line of a file."""
    return json.dumps(data, separators=(",", ":")) + "\n"


def read_log(path: Path | str, keys: WorkloadKeys | None = None) -> LogContents:
    """Everything in `path`: autosched records and Ansor v0.6 lines, mixed or not.

    `keys` names the computations of Ansor's lines whose workload keys are not built in.
    A line that cannot be read, such as a torn last one, is skipped and reported in `problems`.
    Raises ConfigError when the file itself cannot be read.

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
    """The records of `path` one at a time, none of them kept.

    `contents` gains the environments, tasks and problems met on the way. Raises as `read_log`.
    """
    path = Path(path)
    for number, line in log_lines(path, contents.problems):
        record = record_of(path, number, line, contents, keys)
        if record is not None:
            yield record


def record_of(
    path: Path, number: int, line: str, contents: LogContents, keys: WorkloadKeys | None
) -> Record | None:
    """The record of line `number`; None where it holds none, and `contents` gains what it does."""
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
    """The JSON of a line. Half of a pair of surrogates, which no text can hold, becomes `?`."""
    data = json.loads(line)
    if "\\ud" in line.lower():
        data = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
    return data


def _take(data: Any, contents: LogContents, keys: WorkloadKeys | None) -> Record | None:
    """The record that a line holds; None for an environment or task, which `contents` gains."""
    if not isinstance(data, dict):
        raise ConfigError(f"not a record: expected an object, found {short(data)}")
    if "i" in data and "r" in data:
        task, steps, result, when = ansor_log.parse(data, keys)
        return Record(task, steps, result, time=when)
    if "steps" not in data:
        for key, known in (("environment", contents.environments), ("task", contents.tasks)):
            if key in data:
                _require(data, {key: dict, "hash": str})
                if key == "task":
                    _require_key(data[key], "task")
                known[data["hash"]] = data[key]
                return None
    return Record.from_json(data, contents.tasks)
