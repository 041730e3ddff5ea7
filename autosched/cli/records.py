"""`autosched records`: convert and summarise record files."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from autosched.cli.chosen import read
from autosched.cli.console import plain, rate_text, seconds_text, warn
from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.records import Record, RecordLog
from autosched.output_file import FileKind, replacing, require_apart, require_replaceable
from autosched.task import Task
from autosched.words import count

FORMATS = ("ansor-v0.6", "autosched")


def convert(source: Path, output: Path, to: str, *, force: bool = False) -> None:
    """Write the records of `source` in the other format to `output`.

    That must not exist, or with `force` is replaced, but for `source` itself.
    """
    if to not in FORMATS:
        raise ConfigError(f"--to {to!r}: expected one of {', '.join(FORMATS)}")
    contents = read(source)
    if not contents.records:
        raise ConfigError(f"{source} holds no records")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; give another name with -o, or --force to replace it")
    require_apart([("the output", output)], [("the file that is read", source)])
    require_replaceable(output, FileKind.RECORDS, overwrite=force)
    text = "" if to == "autosched" else "".join(_ansor_line(r) + "\n" for r in contents.records)
    try:
        with replacing(output) as partial:
            if text:
                partial.write_text(text)
            else:
                RecordLog(partial).copy(contents)
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
    warn(f"{count(len(contents.records), 'record')} written to {output}")


def _ansor_line(record: Record) -> str:
    when = int(datetime.fromisoformat(record.time).timestamp()) if record.time else 0
    return ansor_log.format_line(record.task, record.steps, record.result, when)


def info(source: Path) -> None:
    """Print what a record file holds, task by task."""
    contents = read(source)
    tasks = dict.fromkeys(r.task["key"] for r in contents.records)
    plain(
        f"{source}: {count(len(contents.records), 'record')} of {count(len(tasks), 'task')}, "
        f"{count(len(contents.problems), 'line')} skipped"
    )
    for key in tasks:
        _describe(key, [r for r in contents.records if r.task["key"] == key])


def _describe(key: str, records: list[Record]) -> None:
    valid = [r for r in records if r.result.valid]
    try:
        task = Task.from_json(records[0].task)
        title = f"{task.name} on {task.target.kind}  (task {key})"
        operations = task.dag.flop_count
    except ConfigError as error:
        title, operations = f"task {key} cannot be rebuilt: {error}", 0.0
    plain(f"\n{title}\n    {count(len(records), 'candidate')}, {len(valid)} valid")
    if valid:
        cost = min(r.result.cost for r in valid)
        plain(f"    best {seconds_text(cost)}  {rate_text(operations / cost)}".rstrip())
    failures = Counter(
        f"{r.result.failure.stage} {r.result.failure.kind}"
        for r in records
        if r.result.failure is not None
    )
    for kind, number in failures.most_common():
        plain(f"    {number} failed: {kind}")
