"""`autosched show`: one candidate in one of its forms."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from autosched.cli.chosen import chosen, task_of
from autosched.cli.console import out, plain, seconds_text, warn
from autosched.driver import lower_steps
from autosched.errors import CompileError, ConfigError, ScheduleError
from autosched.target import Target, cpu_target
from autosched.task import Task
from measure.records import Record


def run(path: Path, choice: int | str, form: str) -> None:
    """Print the chosen record (each task's best one) as `form`.

    Exits with 3 when a candidate has no such form because it is illegal.
    """
    show = FORMS.get(form)
    if show is None:
        raise ConfigError(f"--as {form!r} is unknown, expected one of {', '.join(FORMS)}")
    records = chosen(path, choice)
    failed = False
    for number, record in enumerate(records):
        task = task_of(record)
        if len(records) > 1:
            mark = ";" if form == "llvm" else "#"
            plain(f"{chr(10) if number else ''}{mark} {_title(task, record)}")
        try:
            show(task, record)
        except (ScheduleError, CompileError) as error:
            failed = True
            warn(f"{_title(task, record)}: {error}")
    if failed:
        sys.exit(3)


def _title(task: Task, record: Record) -> str:
    """`matmul(M=4, N=4, K=4) on cpu, 1.2 ms`."""
    time = seconds_text(record.result.cost) if record.result.valid else "failed"
    return f"{task.name} on {task.target.kind}, {time}"


def _loops(task: Task, record: Record) -> None:
    plain(task.dag.infer_bound_of(record.steps).to_str())


def _steps(task: Task, record: Record) -> None:
    for step in record.to_json()["steps"]:
        plain(json.dumps(step))


def _te(task: Task, record: Record) -> None:
    from autosched.state.python_schedule import python_schedule

    plain(python_schedule(task.dag, record.steps))


def _tir(task: Task, record: Record) -> None:
    plain(repr(lower_steps(task.dag, record.steps, _host(task))))


def _llvm(task: Task, record: Record) -> None:
    from autosched.codegen.llvm import emit_llvm

    target = _host(_cpu_only(task))
    plain(emit_llvm(lower_steps(task.dag, record.steps, target), target))


def _asm(task: Task, record: Record) -> None:
    from autosched.codegen.llvm import assembly, emit_llvm

    target = _host(_cpu_only(task))
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
        with out.capture() as text:
            out.print(table)
        plain(text.get())


def _cpu_only(task: Task) -> Task:
    if task.target.is_gpu:
        raise ConfigError(
            f"llvm and asm are forms of CPU candidates; {task.name} was recorded for CUDA"
        )
    return task


def _host(task: Task) -> Target:
    """The target itself, or this machine where an Ansor record says nothing of its CPU."""
    return task.target if task.target.is_gpu or task.target.cpu else cpu_target()


FORMS: dict[str, Callable[[Task, Record], None]] = {
    "loops": _loops,
    "steps": _steps,
    "te": _te,
    "tir": _tir,
    "llvm": _llvm,
    "asm": _asm,
    "features": _features,
}
