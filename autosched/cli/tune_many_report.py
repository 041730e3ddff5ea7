"""The report on several tasks that were tuned together: a table or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autosched.cli.console import labelled, plain, print_json, say, seconds_text, warn
from autosched.cli.tune_report import next_line, show_reasons, summary
from autosched.display.task_table import TaskTable
from autosched.search.task_scheduler import ScheduleResult
from autosched.session.yardsticks import NO_PEER, Yardsticks

_UNKNOWN = Yardsticks(missing=NO_PEER)


def report_many(
    result: ScheduleResult,
    table: TaskTable,
    path: Path,
    known: Mapping[str, Yardsticks],
    others: str = "",
    *,
    own_objective: bool = False,
    as_json: bool,
) -> None:
    """Print a table of the tasks, or everything as JSON.

    `known` maps task keys to yardsticks. `others` tells what records of other CPUs were used for.
    The objective is a weighted sum of times, in seconds, unless it is the user's own.
    """
    if as_json:
        objective = "objective" if own_objective else "objective_seconds"
        found = _summary(result, table, path, known, objective)
        print_json({**found, "other_cpus": others or None})
        return
    table.runs.update((task.task.key, task.progress) for task in result.tasks)
    plain(table.text())
    for task in result.tasks:
        show_reasons(task)
        final = known.get(task.task.key, _UNKNOWN).final
        if final is not None and final.race is not None:
            say(f"race: {table.name(task.task.key)}: {final.race.text}")
        if final is not None and final.again.remark:
            warn(f"warning: {table.name(task.task.key)}: {final.again.remark}")
    if all(task.best is not None for task in result.tasks):
        if own_objective:
            plain(f"objective of the best times: {result.objective:.6g}")
        else:
            plain(f"weighted sum of the best times: {seconds_text(result.objective)}")
    done = sum(task.progress.done for task in result.tasks)
    outside = sum(task.progress.outside_measuring for task in result.tasks)
    each = f", {outside / done:.2f} s of each outside measuring" if done else ""
    labelled("trials", f"{done} in all{each}")
    if others:
        labelled("others", others)
    plain(f"records   {path}")
    if not result.failed:
        plain(next_line([task.task for task in result.tasks], path))
    if result.reason != "all trials were used":
        warn(f"stopped: {result.reason}")


def _summary(
    result: ScheduleResult,
    table: TaskTable,
    path: Path,
    known: Mapping[str, Yardsticks],
    objective: str,
) -> dict[str, Any]:
    tasks = [
        {
            "name": name,
            **summary(task, path, known.get(task.task.key, _UNKNOWN)),
            "weight": weight,
        }
        for task, name, weight in zip(result.tasks, table.names, table.weights, strict=True)
    ]
    complete = all(task.best is not None for task in result.tasks)
    return {
        "tasks": tasks,
        objective: result.objective if complete else None,
        "records": str(path),
        "interrupted": result.interrupted,
        "reason": result.reason,
    }
