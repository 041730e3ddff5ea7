"""`autosched replay`: rebuild recorded candidates, check them and time them again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosched.cli.chosen import chosen, on_this_gpu, on_this_machine
from autosched.cli.console import print_json, rate_text, say, seconds_text, warn
from autosched.cli.named import tell_unused, workload_keys
from autosched.measure.check import Seen
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.run_options import RunOptions
from autosched.measure.steady import interval
from autosched.task import Task
from autosched.words import last_line

# A single candidate can get the time of a batch, so that a disturbance matters little.
_THOROUGH = RunOptions(min_repeat_ms=1000.0, visits=24)


def run(
    path: Path,
    choice: int | str,
    *,
    check: bool,
    share: bool = False,
    as_json: bool,
    workloads: Sequence[str] = (),
) -> None:
    """Replay records, CUDA ones on this machine's GPU; exit with 3 if one fails."""
    rows = []
    keys = workload_keys(workloads)
    records = chosen(path, choice, keys=keys)
    tell_unused(keys)
    tasks = {key: Task.from_json(task) for key, task in _tasks(records).items()}
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        kind = tasks[record.task["key"]].target.kind
        groups.setdefault((kind, record.result.cache_flush), []).append(record)
    for (kind, flush), mine in groups.items():
        with Measurer.create(
            workers=1,
            options=replace(_THOROUGH, cache_flush=flush),
            check="all" if check else "none",
            target=kind,
            share=share,
        ) as measurer:
            rebuilt = {key: _here(tasks[key], measurer) for key in _tasks(mine)}
            measurer.require([task.target for task in rebuilt.values()])
            for task in rebuilt.values():
                measurer.reference(task)
            for record in mine:
                row = _replay(measurer, rebuilt[record.task["key"]], record)
                rows.append(row)
                if not as_json:
                    _print(row)
    if as_json:
        print_json({"records": str(path), "replayed": rows})
    if any(row["error"] for row in rows):
        sys.exit(3)


def _tasks(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """The task entries of the records, by key."""
    return {record.task["key"]: record.task for record in records}


def _here(task: Task, measurer: Measurer) -> Task:
    """The task with this machine's settings. Raises ConfigError if there is no GPU for it."""
    facts = measurer.gpu()
    return on_this_machine(task) if facts is None else on_this_gpu(task, facts)


def _replay(measurer: Measurer, task: Task, record: Record) -> dict[str, Any]:
    result = measurer.measure(task, [record.steps])[0]
    rate = task.dag.flop_count / result.cost
    recorded = record.result.cost if record.result.valid else None
    low, high = interval(record.result.seconds) if recorded else (0.0, 0.0)
    return {
        "workload": task.name,
        "recorded_seconds": recorded,
        "seconds": result.cost if result.valid else None,
        "ratio": result.cost / recorded if result.valid and recorded else None,
        "recorded_interval": [low, high] if recorded else None,
        "inside": low <= result.cost <= high if result.valid and recorded else None,
        "flops_per_second": rate if result.valid and rate > 0 else None,
        "cache_flush": result.cache_flush,
        "checked": result.checked,
        "check": None if result.seen is None else result.seen.to_json(),
        "error": None if result.failure is None else result.failure.to_json(),
    }


def _print(row: dict[str, Any]) -> None:
    if row["error"]:
        error = row["error"]
        say(
            f"{row['workload']}: failed in {error['stage']} ({error['kind']}): "
            f"{last_line(error['message'])}"
        )
        return
    text = f"{row['workload']}: {seconds_text(row['seconds'])}"
    if row["recorded_seconds"] is not None:
        text += f", recorded {seconds_text(row['recorded_seconds'])}, ratio {row['ratio']:.2f}"
        low, high = map(seconds_text, row["recorded_interval"])
        where = "inside" if row["inside"] else "outside"
        text += f", {where} the recorded interval ({low} to {high})"
    if row["cache_flush"]:
        text += ", with empty caches"
    rate = rate_text(row["flops_per_second"] or 0.0)
    checked = "checked against NumPy" if row["checked"] else "not checked"
    seen = None if row["check"] is None else Seen.from_json(row["check"])
    if seen is not None:
        checked += f" ({seen.text})"
    say(", ".join(part for part in (text, rate, checked) if part))
    if seen is not None and seen.warning:
        warn(f"warning: {row['workload']}: {seen.warning}")
