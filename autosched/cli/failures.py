"""`autosched failures`: group the failures of a record file, or print a program to repeat one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from autosched.cli.console import plain, print_json, say, warning
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.show import python_of
from autosched.errors import ConfigError
from autosched.measure.failure_groups import FailureGroups
from autosched.measure.records import LogContents, Record, stream_log
from autosched.session.reading import tell_problems
from autosched.session.this_cpu import for_this_cpu
from autosched.task import Task
from autosched.words import count, in_shell, last_line, visible


def run(
    path: Path, *, repro: int | None = None, as_json: bool = False, workloads: Sequence[str] = ()
) -> None:
    """Print the groups, largest first, or with `repro` a program for that record."""
    keys = workload_keys(workloads)
    contents = LogContents()
    groups = FailureGroups()
    wanted: Record | None = None
    records = 0
    for index, record in enumerate(stream_log(path, contents, keys)):
        records += 1
        if index == repro:
            wanted = record
        failure = record.result.failure
        if failure is not None:
            groups.add(index, failure)
    tell_problems(path, contents, warning)
    tell_unused(keys)
    if repro is not None:
        _print_program(path, repro, wanted, records)
        return
    ordered = groups.ordered
    if as_json:
        failures = [group.to_json() for group in ordered]
        print_json({"file": str(path), "records": records, "failures": failures})
        return
    failed = sum(group.records for group in ordered)
    say(f"{path}: {failed} of {count(records, 'record')} failed")
    for group in ordered:
        plain(f"\n{group.records} x {group.failure.stage} {group.failure.kind}")
        say(last_line(group.failure.message), "    ")
        plain(f"    again: autosched failures {in_shell(path)} --repro {group.index}")


def _print_program(path: Path, index: int, record: Record | None, records: int) -> None:
    if record is None:
        there = f"; --repro {index} is not one of 0 to {records - 1}" if records else ""
        raise ConfigError(f"{path} holds {count(records, 'record')}{there}")
    failure = record.result.failure
    if failure is None:
        raise ConfigError(f"record {index} of {path} did not fail; --repro takes one that did")
    task = Task.from_json(record.task, to_run=False)
    if not task.target.is_gpu:
        task = for_this_cpu(task)
    message = visible(last_line(failure.message))
    said = json.dumps(f"{failure.stage} {failure.kind}: {message}")
    plain(
        f'"""Builds, runs and checks record {index} once more, in processes of their own."""\n\n'
        "from autosched.measure.measurer import Measurer\n"
        "from autosched.state.steps import steps_from_json\n"
        "from autosched.task import Task\n\n"
        f"task = {python_of(task)}\n"
        f"steps = steps_from_json({json.dumps(record.to_json()['steps'])})\n"
        f"print('recorded:', {said})\n"
        f'with Measurer.create(workers=1, check="all", target="{task.target.kind}") as measurer:\n'
        "    (result,) = measurer.measure(task, [steps])\n"
        "if (failed := result.failure) is None:\n"
        "    print(f'now: valid, {result.cost:.3g} s')\n"
        "else:\n"
        "    print(f'now: {failed.stage} {failed.kind}: {failed.message}')"
    )
