"""Ansor's own log lines, version v0.6: reading and writing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.measure.result import Failure, MeasureResult, times
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import HardwareParams, Target
from autosched.task import Task
from autosched.workloads import WORKLOADS

VERSION = "v0.6"
TARGETS = {"llvm": "cpu", "cuda": "cuda"}
_FAILED_COST = 1e10

# Ansor's error numbers and our (stage, kind), both ways.
ERRORS: dict[int, tuple[str, str]] = {
    1: ("lower", "illegal"),
    2: ("compile", "error"),
    3: ("load", "error"),
    4: ("run", "error"),
    5: ("check", "wrong_answer"),
    6: ("compile", "timeout"),
    7: ("run", "timeout"),
    8: ("run", "crash"),
}


def parse(
    data: dict[str, Any],
) -> tuple[dict[str, Any], tuple[Step, ...], MeasureResult, str]:
    """Task entry, steps, result and time (UTC, ISO 8601) of one parsed line.

    Raises ConfigError for another version, an unknown workload or an unknown target, and for
    anything else that is not such a line.
    """
    try:
        return _parse(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ConfigError(f"not an Ansor record: {type(error).__name__}: {error}") from error


def _parse(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[Step, ...], MeasureResult, str]:
    unknown = set(data) - {"i", "r", "v"}
    if unknown:
        raise ConfigError(f"Ansor record: unknown key {sorted(unknown)[0]!r}")
    if data.get("v", VERSION) != VERSION:
        raise ConfigError(f"Ansor record version {data['v']!r} is unknown, expected {VERSION!r}")
    (task, (_, steps)), (costs, error, all_cost, timestamp) = data["i"], data["r"]
    when = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds")
    return _task(task), steps_from_json(steps), _result(costs, error, all_cost), when


def _task(task: list[Any]) -> dict[str, Any]:
    key, target = json.loads(task[0]), task[1]
    workload = WORKLOADS.get(key[0])
    if workload is None:
        raise ConfigError(f"the workload {key[0]!r} is not known")
    if len(key) - 1 > len(workload.args):
        raise ConfigError(
            f"{key[0]}: expected at most {len(workload.args)} arguments, found {key[1:]}"
        )
    args = dict(zip(workload.args, key[1:], strict=False))
    kind = TARGETS.get(target.split()[0])
    if kind is None:
        raise ConfigError(
            f"the target {target!r} is not known, expected one that begins with "
            f"{' or '.join(TARGETS)}"
        )
    hardware = HardwareParams.from_list(task[2]) if len(task) > 2 else HardwareParams.default(kind)
    threads = max(hardware.num_cores, 1)
    parsed = Task.from_json_workload({"op": key[0], "args": args}, Target(kind, hardware, threads))
    layout = LayoutOption.parse(task[4] if len(task) > 4 else 0)
    # INSERT_TRANSFORM_STAGE is what Ansor writes for every CPU task, marked inputs or not: it
    # tells nothing. FOR_PRE_TRANSFORMED is somebody's choice.
    if layout == LayoutOption.FOR_PRE_TRANSFORMED and kind == "cpu" and parsed.layout_free:
        parsed = replace(parsed, layout=layout)
    entry = parsed.to_json()
    entry["ansor"] = task  # the line's own words, so that it can be written back unchanged
    return entry


def _result(costs: list[float], error: int, all_cost: float) -> MeasureResult:
    failure = None
    if error != 0:
        stage, kind = ERRORS.get(error, ("run", "error"))
        failure = Failure(stage, kind, f"Ansor error {error} (its log holds no message)")
    seconds = () if error and costs == [_FAILED_COST] else times(costs)
    return MeasureResult(seconds, failure, total_seconds=float(all_cost))


def format_line(
    task: dict[str, Any], steps: tuple[Step, ...], result: MeasureResult, timestamp: int
) -> str:
    """One v0.6 line, without the newline.

    Raises ConfigError for a workload that is not built in: v0.6 cannot name it.
    """
    entry = task.get("ansor") or _entry(task)
    error = 0
    if result.failure is not None:
        wanted = (result.failure.stage, result.failure.kind)
        error = next((n for n, pair in ERRORS.items() if pair == wanted), 8)
    costs = list(result.seconds) if error == 0 else [_FAILED_COST]
    inputs = json.dumps([entry, [[], steps_to_json(steps)]])
    numbers = ", ".join(f"{c:g}" for c in costs)
    return (
        f'{{"i": {inputs}, "r": [[{numbers}], {error}, {result.total_seconds:g}, {timestamp}], '
        f'"v": "{VERSION}"}}'
    )


def _entry(task: dict[str, Any]) -> list[Any]:
    workload = task["workload"]
    if "op" not in workload:
        raise ConfigError("only built-in workloads can be written as Ansor v0.6 records")
    args = [v for k, v in workload["args"].items() if k != "dtype"]
    key = json.dumps([workload["op"], *args])
    kind = task["target"]["kind"]
    target = "cuda -keys=cuda,gpu" if kind == "cuda" else "llvm -keys=cpu"
    hardware = HardwareParams(**task["hardware"]).as_list()
    layout = LayoutOption.parse(task.get("layout_rewrite", "none"))
    if kind == "cpu" and layout == LayoutOption.NO_REWRITE:
        layout = LayoutOption.INSERT_TRANSFORM_STAGE  # Ansor's default, for unmarked inputs too
    return [key, target, hardware, "", int(layout), []]
