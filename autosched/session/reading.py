"""Record files as the front doors read them: what was skipped is told, what is foreign refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.records import LogContents, Record, read_log
from autosched.task import Task
from autosched.words import count

Tell = Callable[[str], None]
_SHOWN = 3


def read_records(path: Path, warning: Tell) -> LogContents:
    """What `path` holds; `warning` is told of lines that were skipped.

    Raises ConfigError when the file cannot be read.
    """
    contents = read_log(path)
    tell_problems(path, contents, warning)
    return contents


def tell_problems(path: Path, contents: LogContents, warning: Tell) -> None:
    """Tell of the first lines of `path` that were skipped, and how many more there are."""
    for problem in contents.problems[:_SHOWN]:
        warning(problem)
    if len(contents.problems) > _SHOWN:
        warning(f"{count(len(contents.problems) - _SHOWN, 'more line')} of {path} skipped")


def earlier_records(
    path: Path | None, tasks: Sequence[Task], warning: Tell, remedy: str
) -> dict[str, list[Record]]:
    """The records of each task in `path`, by the task's key; none where there is no file.

    Raises ConfigError, which ends with `remedy`, when the file holds only other tasks' records.
    """
    if path is None or not path.is_file():
        return {}
    contents = read_records(path, warning)
    mine: dict[str, list[Record]] = {task.key: [] for task in tasks}
    for record in contents.records:
        if record.task["key"] in mine:
            mine[record.task["key"]].append(record)
    if contents.records and not any(mine.values()):
        if len(tasks) > 1:
            raise ConfigError(f"{path} holds records of other tasks only. {remedy}")
        raise ConfigError(
            f"{path} holds records of another task ({identity(contents.records[0].task)}); "
            f"expected {identity(tasks[0].to_json())}. {remedy}"
        )
    return mine


def identity(entry: dict[str, Any]) -> str:
    """All that makes a task differ from another: workload, kind of target, threads, hardware."""
    try:
        task = Task.from_json(entry)
    except ConfigError:
        return str(entry["workload"])
    hardware = task.target.hardware.as_list()
    return f"{task.name} on {task.target.kind}, {task.target.threads} threads, limits {hardware}"


def unused(path: Path) -> Path:
    """`path`, or the first of name-2, name-3 ... that does not exist."""
    number = 2
    candidate = path
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate
