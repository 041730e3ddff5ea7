"""`autosched show`: one candidate in one of its forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from autosched.cli.chosen import chosen, task_of
from autosched.cli.console import out, plain
from autosched.driver import lower_steps
from autosched.errors import ConfigError
from autosched.target import Target, cpu_target
from autosched.task import Task
from measure.records import Record


def run(path: Path, choice: int | str, form: str) -> None:
    """Print the chosen record (each task's best one) as `form`."""
    show = FORMS.get(form)
    if show is None:
        raise ConfigError(f"--as {form!r} is unknown, expected one of {', '.join(FORMS)}")
    for record in chosen(path, choice):
        show(task_of(record), record)


def _loops(task: Task, record: Record) -> None:
    plain(task.dag.infer_bound_of(record.steps).to_str())


def _steps(task: Task, record: Record) -> None:
    for step in record.to_json()["steps"]:
        plain(json.dumps(step))


def _te(task: Task, record: Record) -> None:
    from autosched.state.python_schedule import python_schedule

    plain(python_schedule(task.dag, record.steps))


def _tir(task: Task, record: Record) -> None:
    plain(repr(lower_steps(task.dag, record.steps, task.target)))


def _llvm(task: Task, record: Record) -> None:
    from autosched.codegen.llvm import emit_llvm

    target = _host(task)
    plain(emit_llvm(lower_steps(task.dag, record.steps, target), target))


def _asm(task: Task, record: Record) -> None:
    from autosched.codegen.llvm import assembly, emit_llvm

    target = _host(task)
    text = emit_llvm(lower_steps(task.dag, record.steps, target), target)
    plain(assembly(text, target))


def _features(task: Task, record: Record) -> None:
    from rich.table import Table

    from features.lowering import features_of_steps
    from features.names import FEATURE_NAMES, GROUPS

    rows = features_of_steps(task.dag, record.steps, task.target)
    position = {name: k for k, name in enumerate(FEATURE_NAMES)}
    for group, names in GROUPS.items():
        table = Table("feature", *(f"store {k}" for k in range(len(rows))), title=group)
        for name in names:
            column = position[name]
            if rows[:, column].any():
                table.add_row(name, *(f"{v:.6g}" for v in rows[:, column]))
        out.print(table)


def _host(task: Task) -> Target:
    """The target itself, or this machine where the record says nothing of its CPU."""
    if task.target.is_gpu:
        raise ConfigError("llvm and asm are forms of CPU candidates; this record is for CUDA")
    return task.target if task.target.cpu else cpu_target()


FORMS: dict[str, Callable[[Task, Record], None]] = {
    "loops": _loops,
    "steps": _steps,
    "te": _te,
    "tir": _tir,
    "llvm": _llvm,
    "asm": _asm,
    "features": _features,
}
