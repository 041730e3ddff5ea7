"""`autosched replay`: rebuild recorded candidates, check them and time them again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosched.cli.chosen import chosen, task_of
from autosched.cli.console import out, print_json, rate_text, seconds_text
from autosched.target import cpu_target
from autosched.task import Task
from measure.measurer import Measurer
from measure.records import Record


def run(path: Path, choice: int | str, *, check: bool, as_json: bool) -> None:
    """Replay records; exits with 3 when one fails."""
    rows = []
    records = chosen(path, choice)
    with Measurer.create(check="all" if check else "none") as measurer:
        for record in records:
            row = _replay(measurer, record)
            rows.append(row)
            if not as_json:
                _print(row)
    if as_json:
        print_json({"records": str(path), "replayed": rows})
    if any(row["error"] for row in rows):
        sys.exit(3)


def _replay(measurer: Measurer, record: Record) -> dict[str, Any]:
    task = task_of(record)
    if record.task["target"]["kind"] == "cpu" and not task.target.cpu:
        task = _on_this_machine(task)
    result = measurer.measure(task, [record.steps])[0]
    recorded = record.result.cost if record.result.valid else None
    return {
        "workload": task.name,
        "recorded_seconds": recorded,
        "seconds": result.cost if result.valid else None,
        "ratio": result.cost / recorded if result.valid and recorded else None,
        "flops_per_second": task.dag.flop_count / result.cost if result.valid else None,
        "checked": result.checked,
        "error": None if result.failure is None else result.failure.to_json(),
    }


def _on_this_machine(task: Task) -> Task:
    """A foreign record's task with the code generation settings of this machine."""
    here = cpu_target()
    return replace(task, target=replace(here, hardware=task.target.hardware))


def _print(row: dict[str, Any]) -> None:
    if row["error"]:
        error = row["error"]
        out.print(
            f"{row['workload']}: failed in {error['stage']} ({error['kind']}): {error['message']}",
            markup=False,
        )
        return
    text = f"{row['workload']}: {seconds_text(row['seconds'])}"
    if row["recorded_seconds"] is not None:
        text += f", recorded {seconds_text(row['recorded_seconds'])}, ratio {row['ratio']:.2f}"
    rate = rate_text(row["flops_per_second"])
    checked = "checked against NumPy" if row["checked"] else "not checked"
    out.print(", ".join(part for part in (text, rate, checked) if part), markup=False)
