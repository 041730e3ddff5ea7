"""`autosched records`: convert and summarise record files."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from autosched.cli.console import plain, rate_text, seconds_text, warn
from autosched.errors import ConfigError
from autosched.task import Task
from measure import ansor_log
from measure.records import LogContents, Record, RecordLog, read_log

FORMATS = ("ansor-v0.6", "autosched")


def convert(source: Path, output: Path, to: str) -> None:
    """Write the records of `source` in the other format to `output`, which must not exist."""
    if to not in FORMATS:
        raise ConfigError(f"--to {to!r}: expected one of {', '.join(FORMATS)}")
    contents = _read(source)
    if output.exists():
        raise ConfigError(f"{output} exists; give another name with -o")
    if to == "autosched":
        RecordLog(output).append(contents.records, keep_time=True)
    else:
        try:
            output.write_text("".join(_ansor_line(r) + "\n" for r in contents.records))
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror}") from error
    warn(f"{len(contents.records)} records written to {output}")


def _ansor_line(record: Record) -> str:
    when = int(datetime.fromisoformat(record.time).timestamp()) if record.time else 0
    return ansor_log.format_line(record.task, record.steps, record.result, when)


def info(source: Path) -> None:
    """Print what a record file holds, task by task."""
    contents = _read(source)
    tasks = dict.fromkeys(r.task["key"] for r in contents.records)
    lines = f"{source}: {len(contents.records)} records of {len(tasks)} tasks"
    plain(f"{lines}, {len(contents.problems)} lines skipped")
    for key in tasks:
        records = [r for r in contents.records if r.task["key"] == key]
        task = Task.from_json(records[0].task)
        valid = [r for r in records if r.result.valid]
        plain(f"\n{task.name} on {task.target.kind}  (task {key})")
        plain(f"    {len(records)} candidates, {len(valid)} valid")
        if valid:
            cost = min(r.result.cost for r in valid)
            rate = rate_text(task.dag.flop_count / cost)
            plain(f"    best {seconds_text(cost)}  {rate}")
        failures = Counter(
            f"{r.result.failure.stage} {r.result.failure.kind}"
            for r in records
            if r.result.failure is not None
        )
        for kind, count in failures.most_common():
            plain(f"    {count} failed: {kind}")


def _read(source: Path) -> LogContents:
    contents = read_log(source)
    for problem in contents.problems:
        warn(f"warning: {problem}")
    return contents
