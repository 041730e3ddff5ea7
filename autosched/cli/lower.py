"""`autosched lower`: the lowering pipeline, stage by stage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from autosched.cli.chosen import chosen, task_of
from autosched.cli.config import load_config
from autosched.cli.console import plain
from autosched.driver import apply_steps, pipeline_of
from autosched.errors import ConfigError
from autosched.state.steps import Step
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func


def run(config: Path, record: str | None, print_after: str | None, *, time_passes: bool) -> None:
    """Lower the workload (or a recorded candidate of it) and print what is asked for."""
    task = load_config(config).task()
    pipeline = pipeline_of(task.target)
    names = ["ScheduleOps", *(p.name for p in pipeline)]
    if print_after not in (None, "all", *names):
        known = ", ".join(dict.fromkeys(names))
        raise ConfigError(f"--print-after {print_after!r}: expected all or one of {known}")
    start = time.perf_counter()
    schedule, tensors = apply_steps(task.dag, _steps(record, task), task.layout)
    func = schedule_to_prim_func(schedule, tensors)
    times = [time.perf_counter() - start]
    if print_after in ("all", "ScheduleOps"):
        plain(f"# after ScheduleOps\n{func!r}\n")
    for transform in pipeline:
        start = time.perf_counter()
        before, func = func, transform(func)
        times.append(time.perf_counter() - start)
        if print_after in ("all", transform.name):
            changed = "" if func is not before else " (unchanged)"
            plain(f"# after {transform.name}{changed}")
            if func is not before or print_after != "all":
                plain(f"{func!r}\n")
    if print_after is None and not time_passes:
        plain(repr(func))
    if time_passes:
        for name, seconds in zip(names, times, strict=True):
            plain(f"{seconds * 1e3:9.3f} ms  {name}")
        plain(f"{sum(times) * 1e3:9.3f} ms  total")


def _steps(record: str | None, task: Task) -> tuple[Step, ...]:
    """The steps of the record FILE:N, which must be of the same computation and kind of target."""
    if record is None:
        return ()
    path, colon, number = record.rpartition(":")
    if not colon or not number.isdigit():
        raise ConfigError(f"--record {record!r}: expected FILE:N, e.g. matmul.jsonl:0")
    found = chosen(Path(path), int(number), "--record N:")[0]
    other = task_of(found)
    if _computation(other) != _computation(task):
        raise ConfigError(
            f"--record {record}: it is a candidate of {other.name} on {other.target.kind}, the "
            f"configuration is {task.name} on {task.target.kind}"
        )
    return found.steps


def _computation(task: Task) -> tuple[dict[str, Any], str]:
    """What steps are made for: layouts are the configuration's."""
    workload = task.workload.to_json()
    workload.pop("layout_free", None)
    return workload, task.target.kind
