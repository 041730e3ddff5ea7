"""Picking records out of a file, for the commands that look at candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autosched.cli.console import count, warn
from autosched.errors import ConfigError
from autosched.measure.records import LogContents, Record, read_log
from autosched.target import cpu_target
from autosched.task import Task

_SHOWN = 3


def read(path: Path) -> LogContents:
    """What `path` holds; the lines that were skipped are reported."""
    contents = read_log(path)
    report_problems(path, contents)
    return contents


def report_problems(path: Path, contents: LogContents) -> None:
    """Warn of the lines of `path` that were skipped."""
    for problem in contents.problems[:_SHOWN]:
        warn(f"warning: {problem}")
    if len(contents.problems) > _SHOWN:
        warn(f"warning: {count(len(contents.problems) - _SHOWN, 'more line')} of {path} skipped")


def chosen(path: Path, choice: int | str, option: str = "--index") -> list[Record]:
    """The records that `best`, `all` (valid ones) or an index means; problems are reported.

    `option`: what the user gave the index with.

    Raises ConfigError when the file holds none.
    """
    records = read(path).records
    if not records:
        raise ConfigError(
            f"{path} holds no records; expected a file that `autosched tune` or Ansor v0.6 wrote"
        )
    if isinstance(choice, int):
        if not -len(records) <= choice < len(records):
            raise ConfigError(
                f"{path} holds {count(len(records), 'record')}; {option} {choice} is not one of "
                f"0 to {len(records) - 1}"
            )
        return [records[choice]]
    valid = [r for r in records if r.result.valid]
    if not valid:
        reason = next((r.result.failure.message for r in records if r.result.failure), "no times")
        raise ConfigError(
            f"{path}: none of its {count(len(records), 'record')} is valid, for example: "
            f"{last_line(reason)}; choose one with --index"
        )
    if choice == "all":
        return valid
    best: dict[str, Record] = {}
    for record in valid:
        key = record.task["key"]
        if key not in best or record.result.cost < best[key].result.cost:
            best[key] = record
    if len(best) > 1:
        warn(f"note: {path} holds {len(best)} tasks; the best of each is taken")
    return list(best.values())


def task_of(record: Record) -> Task:
    """The task of a record, rebuilt."""
    return Task.from_json(record.task)


def on_this_machine(task: Task) -> Task:
    """`task` with this machine's code generation settings, where it was recorded on another.

    The hardware parameters stay: the candidate was made for them. Raises ConfigError for a task
    that is not for a CPU.
    """
    if task.target.is_gpu:
        raise ConfigError(f"{task.name} was recorded for CUDA; only CPU candidates can be run here")
    target, here = task.target, cpu_target()
    if (target.triple, target.cpu, target.features) == (here.triple, here.cpu, here.features):
        return task
    if target.cpu:
        warn(f"note: recorded for {target}, rebuilt for this machine's {here}")
    return replace(task, target=replace(here, hardware=target.hardware))


def last_line(message: str) -> str:
    """The line of an error message that says what went wrong."""
    return (message.strip().splitlines() or ["no message"])[-1]
