"""`autosched lower`: show the lowering pipeline, stage by stage."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli.asked import Asked
from autosched.cli.chosen import chosen, task_of
from autosched.cli.config import Config
from autosched.cli.console import plain, warn, warning
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.profile import run as profile_record
from autosched.cli.tune_settings import settings_of
from autosched.driver import (
    SCHEDULE_OPS,
    apply_steps,
    lower_for_features,
    lower_to_kernels,
    pipeline_of,
    schedule_ops,
)
from autosched.errors import ConfigError, ScheduleError
from autosched.lowering import NO_LOWERING
from autosched.measure.workload_keys import Computation, WorkloadKeys
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task
from autosched.transform.framework.context import Instrument, PassContext, Program
from autosched.transform.framework.instruments import PassTiming, PrintAfter, program_text
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import Pass, Sequential
from autosched.transform.framework.user_passes import UserPasses
from autosched.transform.pipeline import DEVICE_PIPELINE, PASSES, host_pipeline


def run(
    asked: Asked,
    record: str | None,
    print_after: str | None,
    passes: str | None,
    *,
    time_passes: bool,
    host: bool = False,
    target: str | None = None,
) -> None:
    """Lower the workload (or a recorded candidate of it) and print what is asked for.

    For a GPU, lowering goes down to the host function and its kernels. Without a record a candidate
    is drawn, because loops that are not bound to threads give no kernel. `target` replaces that of
    the configuration. With `host` lowering ends with the function that takes packed arguments,
    without kernels.
    """
    if host and passes is not None:
        raise ConfigError("--host and --passes cannot be used together; leave one of them out")
    config = asked.config(target)
    task = config.task()
    if passes is None:
        pipeline = pipeline_of(task.target, lenient=True)
    else:
        pipeline = parse_passes(passes, PASSES)
        if task.lowering:
            warn(
                "note: --passes runs only these passes; `lowering` of the configuration is ignored"
            )
            task = replace(task, lowering=NO_LOWERING)
    to_kernels = task.target.is_gpu and passes is None
    device = DEVICE_PIPELINE if to_kernels else ()
    packing = host_pipeline(task.target.kind) if host else ()
    _check_name(print_after, task, (*pipeline, *device, *packing))
    steps = _drawn(config, task) if record is None and to_kernels else _steps(record, task)
    timing, instruments = PassTiming(), list[Instrument]()
    if print_after is not None:
        names = () if print_after == "all" else (print_after,)
        instruments.append(PrintAfter(names, plain))
    instruments.append(timing)  # last, so that a pass's time does not include printing
    start = time.perf_counter()
    schedule, tensors = apply_steps(task.dag, steps, task.layout)
    replayed = time.perf_counter() - start
    name = task.function_name if task.target.is_gpu else "main"
    program: Program
    with PassContext(instruments=instruments), task.lowering.context():
        program = func = Sequential(pipeline, "lower")(schedule_ops(schedule, tensors, name))
        if to_kernels:
            program = lower_to_kernels(func)
        if host:
            program = Sequential(packing, "host")(program)
        times = [("apply_steps", replayed), *timing.times()]
    if print_after is None and not time_passes:
        plain(program_text(program))
    if time_passes or print_after == "all":
        for name, seconds in (*times, ("total", sum(seconds for _, seconds in times))):
            plain(f"{seconds * 1e3:9.3f} ms  {name}")


def profile(
    record: str,
    depth: int,
    serial: bool,
    workloads: Sequence[str],
    unused: Mapping[str, object],
) -> None:
    """Run a recorded candidate with its loops timed, see `cli/profile.py`.

    Raises ConfigError if one of the arguments `unused`, which only affect lowering, was given.
    """
    for name, value in unused.items():
        if value is not None:
            raise ConfigError(f"--profile runs a candidate as it was recorded; leave out {name}")
    keys = workload_keys(workloads)
    profile_record(record, depth, serial=serial, keys=keys)
    tell_unused(keys)


def _check_name(print_after: str | None, task: Task, every: Sequence[Pass]) -> None:
    """ConfigError unless `print_after` is `all`, a pass of `every`, or one of the user's."""
    if print_after in task.lowering.disabled_pass:
        raise ConfigError(
            f"--print-after {print_after}: this pass does not run, because the configuration "
            "disables it under lowering: disabled_pass"
        )
    own = [made.name for _, made in task.lowering.loaded]
    names = dict.fromkeys([SCHEDULE_OPS.name, *(p.name for p in every), *own])
    known = [name for name in names if name != UserPasses.name]
    if print_after is not None and print_after not in ("all", *known):
        close = difflib.get_close_matches(print_after, known, 1)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"--print-after {print_after!r}: expected all or one of {', '.join(known)}{hint}"
        )


def _steps(record: str | None, task: Task) -> tuple[Step, ...]:
    """The steps of the record FILE:N, which must have the same computation and kind of target."""
    if record is None:
        return ()
    path, colon, number = record.rpartition(":")
    if not colon or not number.isdecimal():
        raise ConfigError(f"--record {record!r}: expected FILE:N, e.g. matmul.jsonl:0")
    keys = WorkloadKeys(other=Computation.of("the configuration", task))
    found = chosen(Path(path), int(number), "--record N:", keys)[0]
    other = task_of(found, to_run=False)
    if _computation(other) != _computation(task):
        same = _computation(other)[0] == _computation(task)[0]
        raise ConfigError(
            f"--record {record}: it is a candidate of {other.name} on {other.target.kind}, but the "
            f"configuration is {task.name} on {task.target.kind}"
            f"{f'; give --target {other.target.kind}' if same else ''}"
        )
    return found.steps


def _drawn(config: Config, task: Task) -> tuple[Step, ...]:
    """A candidate within the limits of the GPU, drawn with the configuration's seed."""
    options = settings_of(config).options()
    space = SearchSpace(task, options.search, options.sketch_rules, warning)
    found = space.sample(
        np.random.default_rng(options.seed),
        1,
        lambda each: [_is_legal(task, s, options.search.space == "ansor") for s in each],
    )
    if not found:
        raise ConfigError(
            f"{task.name}: no randomly drawn candidate is within the limits of {task.target}; "
            "autosched tune --dry-run says why, --record FILE:N lowers a recorded one"
        )
    warn(
        f"note: a candidate was drawn at random (seed {options.seed}); --record FILE:N lowers a "
        "recorded one"
    )
    return found[0]


def _is_legal(task: Task, steps: tuple[Step, ...], ansor_limits: bool) -> bool:
    try:
        lower_for_features(task.dag, steps, task.target, ansor_limits=ansor_limits)
    except ScheduleError:
        return False
    return True


def _computation(task: Task) -> tuple[dict[str, Any], str]:
    """What steps depend on, except layouts, which are taken from the configuration."""
    workload = task.workload.to_json()
    workload.pop("layout_free", None)
    return workload, task.target.kind
