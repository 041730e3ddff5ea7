"""The report of several tasks that were tuned together: a table or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autosched.cli.console import plain, print_json, seconds_text, warn
from autosched.cli.task_table import TaskTable
from autosched.cli.tune_report import show_reasons, summary
from autosched.cli.yardsticks import Yardsticks
from autosched.search.task_scheduler import ScheduleResult
from autosched.words import in_shell

_NO_PEER = "tasks that are tuned together are not compared with NumPy"


def report_many(
    result: ScheduleResult,
    table: TaskTable,
    path: Path,
    peaks: Mapping[str, float | None],
    *,
    as_json: bool,
) -> None:
    """Print a table of the tasks, or everything as JSON."""
    if as_json:
        print_json(_summary(result, table, path, peaks))
        return
    table.runs.update((task.task.key, task.progress) for task in result.tasks)
    plain(table.text())
    for task in result.tasks:
        show_reasons(task)
    if all(task.best is not None for task in result.tasks):
        plain(f"weighted sum of the best times: {seconds_text(result.objective)}")
    done = max(1, sum(task.progress.done for task in result.tasks))
    outside = sum(task.progress.outside_measuring for task in result.tasks) / done
    plain(f"trials    {done} in all, {outside:.2f} s of each outside measuring")
    plain(f"records   {path}")
    plain(f"next      autosched replay {in_shell(path)}")
    if result.reason != "all trials were used":
        warn(f"stopped: {result.reason}")


def _summary(
    result: ScheduleResult, table: TaskTable, path: Path, peaks: Mapping[str, float | None]
) -> dict[str, Any]:
    tasks = [
        {
            "name": name,
            **summary(task, path, Yardsticks(peaks.get(task.task.key), missing=_NO_PEER)),
            "weight": weight,
        }
        for task, name, weight in zip(result.tasks, table.names, table.weights, strict=True)
    ]
    complete = all(task.best is not None for task in result.tasks)
    return {
        "tasks": tasks,
        "objective_seconds": result.objective if complete else None,
        "records": str(path),
        "interrupted": result.interrupted,
        "reason": result.reason,
    }
