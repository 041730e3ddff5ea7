"""`autosched records`: convert and summarise record files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from autosched.cli.chosen import read
from autosched.cli.console import plain, print_json, rate_text, seconds_text, warn, warning
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.record_summary import Summary
from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.glance import glances
from autosched.measure.records import LogContents, Record, RecordLog
from autosched.output_file import FileKind, replacing, require_apart, require_replaceable
from autosched.session.reading import tell_problems
from autosched.session.this_cpu import UNKNOWN_CPU
from autosched.words import count

FORMATS = ("ansor-v0.6", "autosched")


def convert(
    source: Path,
    output: Path,
    to: str,
    *,
    force: bool = False,
    workloads: Sequence[str] = (),
) -> None:
    """Write the records of `source` in the other format to `output`.

    That must not exist, or with `force` is replaced, but for `source` itself.
    """
    if to not in FORMATS:
        raise ConfigError(f"--to {to!r}: expected one of {', '.join(FORMATS)}")
    contents = _read(source, workloads)
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
    cold = sum(bool(r.result.cache_flush) for r in contents.records)
    if cold and text:
        warn(f"note: {count(cold, 'record')} timed with empty caches, which Ansor v0.6 cannot say")
    warn(f"{count(len(contents.records), 'record')} written to {output}")


def _ansor_line(record: Record) -> str:
    try:
        when = int(datetime.fromisoformat(record.time).timestamp()) if record.time else 0
    except (ValueError, OverflowError):  # whatever a file says
        when = 0
    return ansor_log.format_line(record.task, record.steps, record.result, when)


def _read(source: Path, workloads: Sequence[str]) -> LogContents:
    """What `source` holds, with the computations that --workload names."""
    keys = workload_keys(workloads)
    contents = read(source, keys)
    tell_unused(keys)
    return contents


def info(source: Path, *, as_json: bool = False, workloads: Sequence[str] = ()) -> None:
    """Print what a record file holds, task by task; no record is kept in memory."""
    keys = workload_keys(workloads)
    contents = LogContents()
    summaries: dict[str, Summary] = {}
    number = 0
    for number, record in enumerate(glances(source, contents, keys), 1):
        key = record.task["key"]
        if key not in summaries:
            summaries[key] = Summary(record.task)
        summaries[key].add(number - 1, record, contents.environments)
    tell_problems(source, contents, warning)
    tell_unused(keys)
    entries = [summary.to_json() for summary in summaries.values()]
    if as_json:
        print_json(
            {
                "file": str(source),
                "records": number,
                "skipped": contents.problems,
                "tasks": entries,
            }
        )
        return
    plain(
        f"{source}: {count(number, 'record')} of {count(len(entries), 'task')}, "
        f"{count(len(contents.problems), 'line')} skipped"
    )
    for entry in entries:
        _describe(entry)


def _describe(entry: Mapping[str, Any]) -> None:
    key, best = entry["key"], entry["best"]
    title = f"{entry['name']} on {entry['target']}  (task {key})"
    if entry["problem"] is not None:
        title = f"task {key} cannot be rebuilt: {entry['problem']}"
    plain(f"\n{title}\n    {count(entry['records'], 'candidate')}, {entry['valid']} valid")
    if best is not None:
        rate = rate_text(best["flops_per_second"] or 0.0)
        how = " with empty caches" if best["cache_flush"] else ""
        here = f" on this machine ({best['cpu']})"
        where = here if best["here"] else f" on {_cpu(best)}, not this machine"
        plain(f"    best {seconds_text(best['seconds'])}  {rate}".rstrip() + how + where)
    faster = entry["faster_elsewhere"]
    if faster is not None:
        plain(f"    fastest elsewhere {seconds_text(faster['seconds'])} on {_cpu(faster)}")
    if entry["impossible"]:
        least = seconds_text(entry["least_seconds"])
        plain(f"    {entry['impossible']} not believed: no kernel takes less than {least}")
    for kind, number in entry["failures"].items():
        plain(f"    {number} failed: {kind}")


def _cpu(time: Mapping[str, Any]) -> str:
    return "an unknown CPU" if time["cpu"] == UNKNOWN_CPU else str(time["cpu"])
