"""`autosched tune A.yaml B.yaml ...`: several tasks in one run and one record file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.cli.chosen import read
from autosched.cli.config import Config
from autosched.cli.console import count, plain, print_json, seconds_text, warn
from autosched.cli.model import ModelFlags, make_learner, save_model
from autosched.cli.progress import make_observer
from autosched.cli.task_table import TaskTable, short_names
from autosched.cli.tune import (
    EXIT_INTERRUPTED,
    EXIT_NOTHING_VALID,
    Overrides,
    Yardsticks,
    show_reasons,
    summary,
    tune_options,
    unused,
)
from autosched.errors import ConfigError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record, RecordLog
from autosched.search.allocation import STRATEGIES, AllocationOptions
from autosched.search.featurize import Helper
from autosched.search.task_scheduler import ScheduleOptions, ScheduleResult, TaskScheduler
from autosched.task import Task

_NO_PEER = "tasks that are tuned together are not compared with NumPy"


@dataclass(frozen=True, slots=True)
class ManyFlags:
    """Flags that only several tasks have a use for."""

    strategy: str = "gradient"
    weights: str | None = None

    def of(self, configs: Sequence[Config]) -> list[float]:
        """The weight of each task. ConfigError when a flag is wrong, also for one task."""
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"--strategy {self.strategy!r}: expected one of {', '.join(STRATEGIES)}"
            )
        if self.weights is None:
            return [config.weight for config in configs]
        try:
            weights = [float(part) for part in self.weights.split(",")]
        except ValueError:
            weights = []
        if len(weights) != len(configs) or not all(0 < w < float("inf") for w in weights):
            expected = count(len(configs), "positive number")
            raise ConfigError(
                f"--weights {self.weights!r}: expected {expected} with commas between, one for "
                "each configuration"
            )
        return weights


def run_many(
    configs: Sequence[Config],
    overrides: Overrides,
    model: ModelFlags,
    many: ManyFlags,
    *,
    fresh: bool,
    as_json: bool,
) -> None:
    """Tune all tasks together. Ends the process with interface.md's status."""
    _same_settings(configs)
    tasks = [config.task() for config in configs]
    options = [tune_options(config, overrides) for config in configs]
    weights = many.of(configs)
    path = overrides.records or _records_path(configs)
    path = unused(path) if fresh else path
    earlier = _earlier(path, tasks)
    first = configs[0]
    schedule = ScheduleOptions(
        trials=overrides.trials or sum(o.trials for o in options),
        batch=options[0].batch,
        seed=options[0].seed,
        time_budget_s=overrides.time_budget or first.search.time_budget_s,
        allocation=AllocationOptions(many.strategy),
    )
    names = short_names([config.name for config in configs])
    table = TaskTable([task.key for task in tasks], names, weights)
    helper = Helper()
    try:
        learner = make_learner(first.cost_model, model, schedule.seed, tasks[0].target.kind, helper)
        if not as_json:
            known = sum(map(len, earlier.values()))
            note = f", continuing from {known} records" if known else ""
            warn(f"tuning {len(tasks)} tasks, {schedule.trials} trials{note}:")
            for name, task in zip(names, tasks, strict=True):
                warn(f"  {name}: {task.name} on {task.target}")
        section = first.measure
        with (
            Measurer.create(
                workers=section.workers,
                build_timeout=section.build_timeout_s,
                options=section.run_options(),
                check=section.check,
            ) as measurer,
            make_observer(
                quiet=as_json, trials=schedule.trials, table=table, peak_of=measurer.peak
            ) as observer,
        ):
            scheduler = TaskScheduler(
                list(zip(tasks, options, strict=True)),
                schedule,
                measurer,
                RecordLog(path),
                earlier,
                observer,
                weights=weights,
                learner=learner,
                helper=helper,
            )
            result = scheduler.run()
            peaks: dict[str, float | None] = {}
            with contextlib.suppress(KeyboardInterrupt):  # the tuning itself is complete
                if as_json and not result.interrupted:
                    peaks.update((task.key, measurer.peak(task)) for task in tasks)
        save_model(learner, first.cost_model, model)
    finally:
        helper.close()
    report_many(result, table, path, peaks, as_json=as_json)
    if result.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if all(task.best is None for task in result.tasks):
        sys.exit(EXIT_NOTHING_VALID)


def _same_settings(configs: Sequence[Config]) -> None:
    """One run has one cost model and one way of measuring."""
    first = configs[0]
    for config in configs[1:]:
        for key in ("cost_model", "measure"):
            if getattr(config, key) != getattr(first, key):
                raise ConfigError(
                    f"{config.name}: the section {key!r} differs from that of {first.name}; tasks "
                    "that are tuned in one run share it"
                )
        if config.target.kind != first.target.kind:
            raise ConfigError(
                f"{config.name}: target {config.target.kind} differs from {first.target.kind} of "
                f"{first.name}; tune them in separate runs"
            )


def _records_path(configs: Sequence[Config]) -> Path:
    given = {config.records for config in configs if config.records is not None}
    if len(given) == 1:
        return Path(given.pop())
    if len(given) > 1:
        raise ConfigError("the configurations name different record files; give one by --records")
    names = [config.name for config in configs]
    if len(names) > 3:
        names = [names[0], f"{len(names) - 1}-more"]
    return Path("+".join(names) + ".jsonl")


def _earlier(path: Path, tasks: Sequence[Task]) -> dict[str, list[Record]]:
    """The records of each task in `path`, by key."""
    if not path.is_file():
        return {}
    contents = read(path)
    keys = {task.key for task in tasks}
    found: dict[str, list[Record]] = {}
    for record in contents.records:
        if record.task["key"] in keys:
            found.setdefault(record.task["key"], []).append(record)
    if contents.records and not found:
        raise ConfigError(
            f"{path} holds records of other tasks only. Give another file with --records, or start "
            "a new one with --fresh"
        )
    return found


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
