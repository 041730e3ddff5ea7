"""`autosched records`: create record files from others, and summarise them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched import records
from autosched.cli.console import plain, print_json, rate_text, say, seconds_text, warn, warning
from autosched.cli.files import called, require_files, require_records, written_to
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.record_summary import Summary
from autosched.errors import ConfigError
from autosched.measure.glance import glances
from autosched.measure.records import LogContents
from autosched.records.convert import FORMATS
from autosched.session.applying import Applying
from autosched.session.reading import tell_problems
from autosched.session.this_cpu import machine_text
from autosched.words import count

_INDENT = "    "


def merge(
    sources: Sequence[Path], output: Path, *, force: bool = False, workloads: Sequence[str] = ()
) -> None:
    """Write the records of all files to `output`."""
    require_records(*sources)
    require_files(("--output", output))
    keys = workload_keys(workloads)
    with written_to(output, ".jsonl") as file:
        done = records.merge(sources, file, force=force, keys=keys, warning=warning)
    tell_unused(keys)
    repeated = f" ({done.repeated} repeated, written once)" if done.repeated else ""
    warn(
        f"{count(done.records, 'record')} of {count(done.files, 'file')} written to "
        f"{called(output)}{repeated}"
    )


def trim(
    source: Path, output: Path, best: int, *, force: bool = False, workloads: Sequence[str] = ()
) -> None:
    """Write the `best` best candidates of each task to `output`."""
    require_records(source)
    require_files(("--output", output))
    keys = workload_keys(workloads)
    with written_to(output, ".jsonl") as file:
        done = records.trim(source, file, best=best, force=force, keys=keys, warning=warning)
    tell_unused(keys)
    warn(f"{done.records} of {count(done.read, 'record')} written to {called(output)}")


def convert(
    source: Path,
    output: Path,
    to: str,
    *,
    force: bool = False,
    workloads: Sequence[str] = (),
) -> None:
    """Write the records of `source` in another format, or in the current schema, to `output`."""
    if to not in FORMATS:
        raise ConfigError(f"--to {to!r}: expected one of {', '.join(FORMATS)}")
    require_records(source)
    require_files(("--output", output))
    keys = workload_keys(workloads)
    with written_to(output, ".jsonl") as file:
        done = records.convert(source, file, to, force=force, keys=keys, warning=warning)
    tell_unused(keys)
    if done.cold and to != "autosched":
        cold = count(done.cold, "record")
        warn(f"note: {cold} timed with empty caches, which the format of Ansor v0.6 cannot express")
    if done.rewritten and to != "autosched":
        rewritten = count(done.rewritten, "record")
        warn(
            f"note: {rewritten} with layout_rewrite: insert-transform-stage, which Ansor v0.6 "
            "writes for every CPU task; reading them back gives layout_rewrite: none"
        )
    warn(f"{count(done.records, 'record')} written to {called(output)}")


def info(source: Path, *, as_json: bool = False, workloads: Sequence[str] = ()) -> None:
    """Print the contents of a record file, task by task; no record is kept in memory."""
    keys = workload_keys(workloads)
    contents = LogContents()
    summaries: dict[str, Summary] = {}
    usable = Applying()
    number = 0
    for number, record in enumerate(glances(source, contents, keys), 1):
        key = record.task["key"]
        if key not in summaries:
            summaries[key] = Summary(record.task, usable)
        summaries[key].add(number - 1, record, contents.environments)
    tell_problems(source, contents, warning)
    usable.tell(source, warning)
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
    say(
        f"{source}: {count(number, 'record')} of {count(len(entries), 'task')}, "
        f"{count(len(contents.problems), 'line')} skipped"
    )
    for entry in entries:
        _describe(entry)


def _accuracy(best: Mapping[str, Any]) -> str:
    """`, largest relative error 3e-07`; empty if it is not known."""
    error = best["largest_error"]
    if error is None:
        return ""
    return f", largest relative error {error:.0e}" if error else ", outputs equal the reference"


def _describe(entry: Mapping[str, Any]) -> None:
    key, best = entry["key"], entry["best"]
    title = f"{entry['name']} on {entry['target']}  (task {key})"
    if entry["problem"] is not None:
        title = f"task {key} cannot be rebuilt: {entry['problem']}"
    plain("")
    say(title)
    say(f"{count(entry['records'], 'candidate')}, {entry['valid']} valid", _INDENT)
    if best is not None:
        rate = rate_text(best["flops_per_second"] or 0.0)
        how = " with empty caches" if best["cache_flush"] else ""
        here = f" on this machine ({best['cpu']})"
        where = here if best["here"] else f" on {_machine(entry, best)}, not this machine"
        text = f"best {seconds_text(best['seconds'])}  {rate}".rstrip()
        say(text + how + where + _accuracy(best), _INDENT)
    faster = entry["faster_elsewhere"]
    if faster is not None:
        where = _machine(entry, faster)
        say(f"fastest elsewhere {seconds_text(faster['seconds'])} on {where}", _INDENT)
    if entry["impossible"]:
        least = seconds_text(entry["least_seconds"])
        say(f"{entry['impossible']} not believed: no kernel takes less than {least}", _INDENT)
    for kind, number in entry["failures"].items():
        say(f"{number} failed: {kind}", _INDENT)


def _machine(entry: Mapping[str, Any], time: Mapping[str, Any]) -> str:
    return machine_text(time["cpu"], entry["target"])
