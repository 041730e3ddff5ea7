"""Read and write Ansor's own log lines, version v0.6."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from autosched.cpu_features import vector_bytes_of
from autosched.errors import ConfigError, ScheduleError
from autosched.layout import LayoutOption
from autosched.measure.result import Failure, MeasureResult, duration, times
from autosched.measure.workload_keys import (
    WorkloadKeys,
    elements,
    is_hash,
    require_shapes,
    require_splits,
    require_steps,
)
from autosched.state.steps import (
    InstructionStep,
    MatrixTilesStep,
    PragmaStep,
    SplitStep,
    Step,
    steps_from_json,
    steps_to_json,
)
from autosched.target import HardwareParams, Target, parse_arch
from autosched.task import Task
from autosched.words import told, visible
from autosched.workloads import WORKLOADS

VERSION = "v0.6"
TARGETS = {"llvm": "cpu", "cuda": "cuda"}
_FAILED_COST = 1e10

# Ansor's error numbers as our (stage, kind).
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
_BY_STAGE = {"lower": 1, "compile": 2, "load": 3, "run": 4}
_TIMEOUTS = {"lower": 6, "compile": 6, "load": 7, "run": 7, "check": 7}
_UNKNOWN = 8


def parse(
    data: dict[str, Any], keys: WorkloadKeys | None = None, fitting: set[str] | None = None
) -> tuple[dict[str, Any], tuple[Step, ...], MeasureResult, str]:
    """The task entry, steps, result and time (UTC, ISO 8601) of one parsed line.

    `keys` gives the computations of workload keys that name no built-in operator. `fitting` holds
    the workload keys of which a candidate was already found to fit the built-in operator of that
    name; this function adds to it.

    Raises ConfigError for another version, an unknown workload or target, a candidate that does not
    belong to the computation that `keys` gives, and anything else that is not such a line.
    """
    try:
        keys = WorkloadKeys() if keys is None else keys
        return _parse(data, keys, set() if fitting is None else fitting)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ConfigError(f"not an Ansor record: {told(error)}") from error


def _parse(
    data: dict[str, Any], keys: WorkloadKeys, fitting: set[str]
) -> tuple[dict[str, Any], tuple[Step, ...], MeasureResult, str]:
    unknown = set(data) - {"i", "r", "v"}
    if unknown:
        raise ConfigError(f"Ansor record: unknown key {sorted(unknown)[0]!r}")
    if data.get("v", VERSION) != VERSION:
        raise ConfigError(f"Ansor record version {data['v']!r} is unknown, expected {VERSION!r}")
    (entry, (_, listed)), (costs, error, all_cost, timestamp) = data["i"], data["r"]
    when = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds")
    steps = steps_from_json(listed)
    text, target = entry[0], _target(entry)
    named = keys.given(text)
    if named is None:
        problem = _problem(text)
        if not problem:
            task = _built_in(text, target)
            problem = _misfit(text, task, steps, fitting)
        if problem:
            named = keys.unknown(text, problem)
    if named is not None:
        task = keys.task(named, target)
        require_shapes(named, task, text)
        require_steps(named, task, steps)
    return _with_layout(task, entry), steps, _result(costs, error, all_cost), when


def _target(entry: list[Any]) -> Target:
    name, *words = entry[1].split()
    kind = TARGETS.get(name)
    if kind is None:
        raise ConfigError(
            f"the target {entry[1]!r} is not known, expected one that begins with "
            f"{' or '.join(TARGETS)}"
        )
    hardware = (
        HardwareParams.from_list(entry[2]) if len(entry) > 2 else HardwareParams.default(kind)
    )
    if kind == "cuda":
        return Target(kind, hardware, arch=_arch(words))
    width = vector_bytes_of(_value(words, "mcpu"))
    return Target(kind, hardware, max(hardware.num_cores, 1), vector_bytes=width)


def _arch(words: list[str]) -> str:
    """The architecture among the words of a target; empty where there is none."""
    arch = _value(words, "arch")
    try:
        parse_arch(arch)
    except ConfigError:
        return ""
    return arch


def _value(words: list[str], option: str) -> str:
    """The last value of an option of TVM's, `-arch=sm_80`; empty where there is none."""
    start = f"-{option}="
    return next((w.removeprefix(start) for w in reversed(words) if w.startswith(start)), "")


def _problem(text: str) -> str:
    """Why a workload key names no built-in operator; empty when it names one."""
    name, *args = elements(text)
    if is_hash(name):
        return f"the workload {name!r} is a hash, which does not tell what is computed"
    workload = WORKLOADS.get(name) if isinstance(name, str) else None
    if workload is None:
        return f"the workload {name!r} is not known"
    if len(args) > len(workload.args):
        return f"{name}: expected at most {len(workload.args)} arguments, found {args}"
    return ""


def _built_in(text: str, target: Target) -> Task:
    name, *args = elements(text)
    named = dict(zip(WORKLOADS[name].args, args, strict=False))
    return Task.from_json_workload({"op": name, "args": named}, target)


def _misfit(text: str, task: Task, steps: tuple[Step, ...], fitting: set[str]) -> str:
    """Why a candidate cannot belong to the built-in `task`, but to a user's function of that name.

    `text` is the workload key. Empty where the steps do not contradict the task. Only one candidate
    of a key is checked, because applying steps takes longer than reading them.
    """
    if text in fitting or not any(isinstance(step, SplitStep) for step in steps):
        return ""
    try:
        require_splits(f"the built-in {elements(text)[0]}", task, steps)
    except ScheduleError:
        return ""  # lowering reports it
    except ConfigError as error:
        return str(error)
    fitting.add(text)
    return ""


def _with_layout(task: Task, words: list[Any]) -> dict[str, Any]:
    """The task's JSON entry with the layout option that the line gives.

    The line's own words about the task are kept under `ansor`.
    """
    layout = LayoutOption.parse(words[4] if len(words) > 4 else 0)
    # Ansor writes INSERT_TRANSFORM_STAGE for every CPU task, whether inputs are marked or not, so
    # it tells nothing. FOR_PRE_TRANSFORMED is a user's choice.
    pre = layout == LayoutOption.FOR_PRE_TRANSFORMED and not task.target.is_gpu
    if pre and task.layout_free:
        task = replace(task, layout=layout)
    entry = task.to_json()
    entry["ansor"] = words  # so that the line can be written back unchanged
    return entry


def _result(costs: list[float], error: int, all_cost: Any) -> MeasureResult:
    failure = None
    if error != 0:
        stage, kind = ERRORS.get(error, ("run", "error"))
        failure = Failure(stage, kind, f"Ansor error {error} (its log holds no message)")
    seconds = () if error and costs == [_FAILED_COST] else times(costs)
    return MeasureResult(seconds, failure, total_seconds=duration(all_cost, "all_cost"))


def format_line(
    task: dict[str, Any], steps: tuple[Step, ...], result: MeasureResult, timestamp: int
) -> str:
    """Format one v0.6 line, without the newline.

    Raises ConfigError for a workload that is not built in (v0.6 has no name for it), for a step
    that Ansor does not have, and for inputs or a lowering that the user chose.
    """
    if task.get("lowering"):
        raise ConfigError("its task has a lowering section, which Ansor's format cannot express")
    if task.get("inputs") and "ansor" not in task:
        raise ConfigError("it was measured on chosen inputs, which Ansor's format cannot express")
    for step in steps:
        if isinstance(step, InstructionStep | MatrixTilesStep):
            raise ConfigError(f"it has the step {step.code}, which Ansor does not have")
        if isinstance(step, PragmaStep) and step.pipeline_stages is not None:
            raise ConfigError(f"it has the pragma {step.pragma}, which Ansor does not have")
    try:
        entry = task.get("ansor") or _entry(task)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(f"its task is incomplete: {told(problem)}") from problem
    error = 0 if result.failure is None else _error_number(result.failure)
    costs = list(result.seconds) if error == 0 else [_FAILED_COST]
    inputs = json.dumps([entry, [[], steps_to_json(steps)]])
    numbers = ", ".join(map(_number, costs))
    return (
        f'{{"i": {inputs}, "r": [[{numbers}], {error}, {_number(result.total_seconds)}, '
        f'{timestamp}], "v": "{VERSION}"}}'
    )


def _error_number(failure: Failure) -> int:
    """Ansor's number of a failure: that of its stage and kind, otherwise that of its stage."""
    for number, pair in ERRORS.items():
        if pair == (failure.stage, failure.kind):
            return number
    numbers = _TIMEOUTS if failure.kind == "timeout" else _BY_STAGE
    return numbers.get(failure.stage, _UNKNOWN)


def _number(value: float) -> str:
    """Format a number with six digits, as C++ does, or in full where six digits are not exact."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _sizes(workload: dict[str, Any]) -> list[Any]:
    """The sizes in a built-in workload's arguments, without the types, as a v0.6 key holds them.

    They are in the order of the operator's arguments: other programs may have sorted the keys of
    the record. Raises ConfigError unless the only type is `dtype` = float32: a v0.6 key holds no
    types and stands for float32.
    """
    args = WORKLOADS[workload["op"]].resolve(workload["args"])
    types = {key: value for key, value in args.items() if key.endswith("dtype")}
    if types != {"dtype": "float32"}:
        found = visible(", ".join(f"{key}={value}" for key, value in types.items()))
        raise ConfigError(
            f"only workloads of float32 can be written as Ansor v0.6 records, found {found}"
        )
    return [value for key, value in args.items() if key not in types]


def _entry(task: dict[str, Any]) -> list[Any]:
    workload = task["workload"]
    if workload.get("op") not in WORKLOADS:
        raise ConfigError("only built-in workloads can be written as Ansor v0.6 records")
    key = json.dumps([workload["op"], *_sizes(workload)])
    kind = task["target"]["kind"]
    hardware = HardwareParams(**task["hardware"]).as_list()
    layout = LayoutOption.parse(task.get("layout_rewrite", "none"))
    if kind == "cpu" and layout == LayoutOption.NO_REWRITE:
        layout = LayoutOption.INSERT_TRANSFORM_STAGE  # Ansor's default, also without marked inputs
    return [key, _target_text(task["target"]), hardware, "", int(layout), []]


def _target_text(target: dict[str, Any]) -> str:
    """TVM's text of the target, with the CPU or architecture for which TVM is to build."""
    if target["kind"] == "cuda":
        arch = target.get("arch")
        return "cuda -keys=cuda,gpu" + (f" -arch={arch}" if arch else "")
    cpu = target.get("cpu")
    return "llvm -keys=cpu" + (f" -mcpu={cpu}" if cpu else "")
