"""Picking records out of a file, for the commands that look at candidates."""

from __future__ import annotations

from pathlib import Path

from autosched.cli.console import warn
from autosched.errors import ConfigError
from autosched.task import Task
from measure.records import Record, read_log


def chosen(path: Path, choice: int | str) -> list[Record]:
    """The records that `best`, `all` (valid ones) or an index means; problems are reported.

    Raises ConfigError when the file holds none.
    """
    contents = read_log(path)
    for problem in contents.problems:
        warn(f"warning: {problem}")
    records = contents.records
    if not records:
        raise ConfigError(f"{path} holds no records")
    if isinstance(choice, int):
        if not -len(records) <= choice < len(records):
            raise ConfigError(
                f"{path} holds {len(records)} records; --index {choice} is not one of 0 to "
                f"{len(records) - 1}"
            )
        return [records[choice]]
    valid = [r for r in records if r.result.valid]
    if not valid:
        kinds = sorted({r.result.failure.message for r in records if r.result.failure})
        raise ConfigError(f"{path}: none of its {len(records)} records is valid: {kinds[0]}")
    if choice == "all":
        return valid
    keys = {r.task["key"] for r in valid}
    if len(keys) > 1:
        warn(f"note: {path} holds {len(keys)} tasks; the best of each is taken")
    return [
        min((r for r in valid if r.task["key"] == key), key=lambda r: r.result.cost)
        for key in dict.fromkeys(r.task["key"] for r in valid)
    ]


def task_of(record: Record) -> Task:
    """The task of a record, rebuilt."""
    return Task.from_json(record.task)
