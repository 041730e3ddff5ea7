"""`autosched lower`: the lowering pipeline, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.cli.chosen import chosen, task_of
from autosched.cli.config import load_config
from autosched.cli.console import plain
from autosched.driver import SCHEDULE_OPS, apply_steps, pipeline_of, schedule_ops
from autosched.errors import ConfigError
from autosched.measure.workload_keys import Computation, WorkloadKeys
from autosched.state.steps import Step
from autosched.task import Task
from autosched.transform.framework.context import Instrument, PassContext
from autosched.transform.framework.instruments import PassTiming, PrintAfter
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import Sequential
from autosched.transform.framework.user_passes import UserPasses
from autosched.transform.pipeline import PASSES


def run(
    config: Path,
    record: str | None,
    print_after: str | None,
    passes: str | None,
    *,
    time_passes: bool,
) -> None:
    """Lower the workload (or a recorded candidate of it) and print what is asked for."""
    task = load_config(config).task()
    pipeline = pipeline_of(task.target) if passes is None else parse_passes(passes, PASSES)
    _check_name(print_after, [SCHEDULE_OPS.name, *(p.name for p in pipeline)])
    timing, instruments = PassTiming(), list[Instrument]()
    if print_after is not None:
        names = () if print_after == "all" else (print_after,)
        instruments.append(PrintAfter(names, plain))
    instruments.append(timing)  # last, so that the time of printing is not the pass's
    start = time.perf_counter()
    schedule, tensors = apply_steps(task.dag, _steps(record, task), task.layout)
    replayed = time.perf_counter() - start
    with PassContext(instruments=instruments):
        func = Sequential(pipeline, "lower")(schedule_ops(schedule, tensors))
        times = [("apply_steps", replayed), *timing.times()]
    if print_after is None and not time_passes:
        plain(repr(func))
    if time_passes:
        for name, seconds in (*times, ("total", sum(seconds for _, seconds in times))):
            plain(f"{seconds * 1e3:9.3f} ms  {name}")


def _check_name(print_after: str | None, names: Sequence[str]) -> None:
    known = [name for name in dict.fromkeys(names) if name != UserPasses.name]
    if print_after not in (None, "all", *known):
        raise ConfigError(
            f"--print-after {print_after!r}: expected all or one of {', '.join(known)}"
        )


def _steps(record: str | None, task: Task) -> tuple[Step, ...]:
    """The steps of the record FILE:N, which must be of the same computation and kind of target."""
    if record is None:
        return ()
    path, colon, number = record.rpartition(":")
    if not colon or not number.isdigit():
        raise ConfigError(f"--record {record!r}: expected FILE:N, e.g. matmul.jsonl:0")
    keys = WorkloadKeys(other=Computation.of("the configuration", task))
    found = chosen(Path(path), int(number), "--record N:", keys)[0]
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
