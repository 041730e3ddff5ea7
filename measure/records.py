"""Record logs: append-only JSON lines, one whole record a line.

Two kinds of line: `{"environment": {...}, "hash": ...}` once per run, and records
(docs/semantics/records.md). Ansor v0.6 lines are recognised by their keys `i`, `r` and `v`.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.environment import fingerprint, fingerprint_hash
from autosched.measure.result import MeasureResult, short
from autosched.measure.workload_keys import WorkloadKeys
from autosched.output_file import FileKind, is_kind, require_replaceable
from autosched.state.steps import Step, steps_from_json, steps_to_json

SCHEMA = 1
_KEYS = {"schema": int, "task": dict, "steps": list, "result": dict}
_NAMES = {int: "an integer", dict: "an object", list: "a list"}


@dataclass(frozen=True, slots=True)
class Record:
    """One measured candidate, with all that is needed to rebuild it."""

    task: dict[str, Any]
    steps: tuple[Step, ...]
    result: MeasureResult
    search: dict[str, Any] = field(default_factory=dict)
    environment: str = ""
    time: str = ""

    def to_json(self) -> dict[str, Any]:
        """The line of the file, but for environment and time, which RecordLog adds."""
        return {
            "schema": SCHEMA,
            "task": self.task,
            "steps": steps_to_json(self.steps),
            "result": self.result.to_json(),
            "search": self.search,
            "environment": self.environment,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """Raises ConfigError saying what is missing or wrong when `data` is not a record."""
        for key, kind in _KEYS.items():
            if type(data.get(key)) is not kind:
                raise ConfigError(
                    f"not a record: {key}: expected {_NAMES[kind]}, found {short(data.get(key))}"
                )
        if data["schema"] > SCHEMA:
            raise ConfigError(
                f"record schema {data['schema']} is newer than this program's {SCHEMA}; upgrade it"
            )
        if not isinstance(data["task"].get("key"), str):
            raise ConfigError("not a record: the key task.key is missing")
        return cls(
            data["task"],
            steps_from_json(data["steps"]),
            MeasureResult.from_json(data["result"]),
            data.get("search") or {},
            data.get("environment") or "",
            data.get("time") or "",
        )


@dataclass(slots=True)
class LogContents:
    """What a file held: records in order, and a sentence for every line that was skipped."""

    records: list[Record]
    environments: dict[str, dict[str, Any]]
    problems: list[str]


class RecordLog:
    """Appends records to `path`; each line is written whole, under a lock, and flushed.

    A file that is there and holds no records is not touched, or with `overwrite` begun anew.
    """

    def __init__(self, path: Path | str, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._environment = ""
        self._overwrite = overwrite
        self._known = False

    def append(self, records: Sequence[Record] = ()) -> None:
        """Write the records, stamped with this run's environment and time.

        Without records it writes the environment alone, so that a file that cannot be written is
        known before anything is measured.

        Raises ConfigError when the file cannot be written or is one of another kind.
        """
        lines: list[dict[str, Any]] = []
        if not self._environment:
            environment = fingerprint()
            self._environment = fingerprint_hash(environment)
            lines.append({"environment": environment, "hash": self._environment})
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for record in records:
            lines.append({**record.to_json(), "environment": self._environment, "time": now})
        if lines:
            self._write(lines)

    def copy(self, contents: LogContents) -> None:
        """Write records of other files as they are, with their environments and times.

        Raises ConfigError when the file cannot be written or is one of another kind.
        """
        environments = [{"environment": e, "hash": h} for h, e in contents.environments.items()]
        self._write([*environments, *(record.to_json() for record in contents.records)])

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        try:
            self._require_records()
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if file.seek(0, 2) and _last_byte(file) != b"\n":
                    text = "\n" + text  # a torn line must not swallow this one
                file.write(text.encode())
                file.flush()
        except OSError as error:
            raise ConfigError(
                f"cannot write the record file {self.path}: {error.strerror}"
            ) from error

    def _require_records(self) -> None:
        """Before the first line is written: that what is there is a record file."""
        if self._known:
            return
        require_replaceable(self.path, FileKind.RECORDS, overwrite=self._overwrite)
        if not is_kind(self.path, FileKind.RECORDS):
            self.path.unlink()
        self._known = True


def _last_byte(file: Any) -> bytes:
    file.seek(-1, 2)
    last: bytes = file.read(1)
    return last


def read_log(path: Path | str, keys: WorkloadKeys | None = None) -> LogContents:
    """Everything in `path`: autosched records and Ansor v0.6 lines, mixed or not.

    `keys` names the computations of Ansor's lines whose workload keys are not built in.
    A line that cannot be read, such as a torn last one, is skipped and reported in `problems`.
    Raises ConfigError when the file itself cannot be read.
    """
    contents = LogContents([], {}, [])
    contents.records.extend(stream_log(path, contents, keys))
    return contents


def stream_log(
    path: Path | str, contents: LogContents, keys: WorkloadKeys | None = None
) -> Iterator[Record]:
    """The records of `path` one at a time, none of them kept.

    `contents` gains the environments and problems met on the way. Raises as `read_log`.
    """
    path = Path(path)
    for number, line in _lines(path):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            cut = "" if line.endswith("\n") else " (cut short: its run was ended while writing)"
            contents.problems.append(f"{path}:{number}: not a whole JSON object{cut}; skipped")
            continue
        try:
            record = _take(data, contents, keys)
        except ConfigError as error:
            contents.problems.append(f"{path}:{number}: {error}; skipped")
            continue
        if record is not None:
            yield record


def _take(data: Any, contents: LogContents, keys: WorkloadKeys | None) -> Record | None:
    """The record that a line holds; None for an environment, which `contents` gains."""
    if not isinstance(data, dict):
        raise ConfigError(f"not a record: expected an object, found {short(data)}")
    if "i" in data and "r" in data:
        task, steps, result, when = ansor_log.parse(data, keys)
        return Record(task, steps, result, time=when)
    if "environment" in data and "steps" not in data:
        contents.environments[str(data.get("hash", ""))] = data["environment"]
        return None
    return Record.from_json(data)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith(("#", " ")):
                    yield number, line
    except FileNotFoundError as error:
        raise ConfigError(f"record file {path} does not exist") from error
    except OSError as error:
        raise ConfigError(f"cannot read the record file {path}: {error.strerror}") from error
