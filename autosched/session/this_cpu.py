"""Tell whether records are of this machine's CPU, and rebuild tasks of others for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.cpu_code import lacking
from autosched.measure.environment import cpu_model
from autosched.measure.gpu_environment import gpu_names
from autosched.measure.records import Record, target_of
from autosched.measure.standing import best_of
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.words import visible

UNKNOWN_CPU = "unknown"

_MADE_FOR = ("kind", "triple", "cpu", "features", "arch")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run measures, as records name it: on nodes of a cluster, all of one kind.

    `target` is the target of the code; `cpu` is the model of the CPUs, empty while not known.
    """

    target: Target
    cpu: str = ""

    @classmethod
    def of(cls, tasks: Sequence[Task], cpu: str = "") -> Place:
        """The place of a run that measures tasks for one kind of CPU."""
        return cls(tasks[0].target, cpu)


def is_for_here(target: Target) -> bool:
    """Whether code for `target` is as it should be here: for this machine's model and features.

    Code for a CPU that the user chose is, if this machine can run it.
    """
    here = cpu_target()
    if target.chosen_cpu:
        return target.triple == here.triple and not lacking(target, here.features)
    return (target.triple, target.cpu, target.features) == (here.triple, here.cpu, here.features)


def require_runs_here(target: Target) -> None:
    """Raise ConfigError if code for a CPU that the user chose cannot run on this machine's."""
    missing = lacking(target, cpu_target().features) if target.chosen_cpu else []
    if missing:
        raise ConfigError(
            f"target.cpu: code for {target.cpu} cannot run here: this machine's {cpu_target().cpu} "
            f"lacks {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}; measure on a "
            "machine that has them (target.hosts), or choose an older CPU"
        )


@cache
def _code_here() -> tuple[tuple[str, str], ...]:
    """The entries of a record's target that stand for code for this machine's CPU."""
    return _code_of(cpu_target(1))


def _code_of(target: Target) -> tuple[tuple[str, str], ...]:
    return tuple((name, getattr(target, name)) for name in ("triple", "cpu", "features"))


def measured_here(
    record: Record,
    environments: Mapping[str, Mapping[str, Any]],
    gpu: str | None = None,
    place: Place | None = None,
) -> bool:
    """Whether a record's times are this machine's: its code and its environment name this CPU.

    With `place`, whether they are of a machine of that place. `environments` are those of the
    record's file. A record that names no CPU, such as Ansor's, was measured elsewhere. A record for
    CUDA is of this machine if its environment names `gpu`, this machine's GPU, or if `gpu` is None
    (not known).
    """
    target = target_of(record.task)
    if not target:
        return False
    if target.get("kind") != "cpu":
        return gpu is None or gpu_names(environments.get(record.environment, {})) == (gpu,)
    chosen = target.get("chosen_cpu", False)  # these are compared with records of their kind only
    code = () if chosen else _code_here() if place is None else _code_of(place.target)
    if any(target.get(name) != value for name, value in code):
        return False
    model = environments.get(record.environment, {}).get("cpu")
    expected = cpu_model() if place is None else place.cpu
    return model is None or not expected or model == expected


def cpu_name(record: Record, environments: Mapping[str, Mapping[str, Any]]) -> str:
    """The CPU or GPU that a record was measured on, for messages: the model, if it is known.

    If there is no model, or only the target differs from this machine's, it is the target's CPU as
    LLVM names it (the architecture of a GPU), or the `-mcpu=` or `-mtriple=` of a line of Ansor's.
    `UNKNOWN_CPU` if the record names none of these.
    """
    environment = environments.get(record.environment, {})
    names = gpu_names(environment)
    if names:
        return visible(", ".join(names))
    model = environment.get("cpu")
    if model == cpu_model() and not measured_here(record, environments):
        model = None
    target = target_of(record.task)
    code = target.get("cpu") or target.get("arch")
    return visible(str(model or code or _ansors_cpu(record.task) or UNKNOWN_CPU))


def _ansors_cpu(task: Mapping[str, Any]) -> str:
    """The CPU that the target of a line of Ansor's names; empty if it names none.

    Empty for other records, too. No code is made for this CPU: the line does not say whether LLVM
    and this machine know it.
    """
    words = task.get("ansor")
    target = words[1] if isinstance(words, list) and len(words) > 1 else ""
    if not isinstance(target, str) or not target.startswith("llvm"):
        return ""
    named = (re.search(rf"(?<!\S)-{word}=(\S+)", target) for word in ("mcpu", "mtriple"))
    return next((found[1] for found in named if found), "")


def machine_text(name: str, kind: str) -> str:
    """The name of a machine (by `cpu_name`) for people; `kind` is that of the target.

    >>> machine_text("znver4", "cpu"), machine_text(UNKNOWN_CPU, "cuda")
    ('znver4', 'an unknown GPU')
    """
    if name != UNKNOWN_CPU:
        return name
    return "an unknown GPU" if kind == "cuda" else "an unknown CPU"


def machine_of(
    record: Record, environments: Mapping[str, Mapping[str, Any]]
) -> tuple[str, tuple[str, ...]]:
    """The machine that a record was measured on: its name, and what its code was made for.

    Times of one machine can be compared, and a race is about records of one machine only.
    """
    code = target_of(record.task)
    return cpu_name(record, environments), tuple(str(code.get(name, "")) for name in _MADE_FOR)


def best_elsewhere(
    records: Iterable[Record],
    environments: Mapping[str, Mapping[str, Any]],
    usable: Callable[[Record], bool] | None,
) -> Record | None:
    """The fastest of the bests of all machines; None without a valid record.

    `usable` as for `best_of`.
    """
    machines: dict[tuple[str, tuple[str, ...]], list[Record]] = {}
    for record in records:
        machines.setdefault(machine_of(record, environments), []).append(record)
    found = [best for mine in machines.values() if (best := best_of(mine, usable))]
    return min(found, key=lambda best: best.result.cost, default=None)


def best_for_here(
    records: Sequence[Record],
    environments: Mapping[str, Mapping[str, Any]],
    gpu: str | None = None,
    usable: Callable[[Record], bool] | None = None,
) -> Record | None:
    """The best of the valid records of a task; None where there is none that is `usable`.

    Records that were measured on this machine come first, and of these the ones that were timed
    without emptying the caches; of several other machines the fastest one's best is taken.
    `environments` are those of the records' file. `gpu` is the name of this machine's GPU, if the
    records are for one and it is known.
    """
    groups: dict[tuple[bool, int], list[Record]] = {}
    for record in records:
        how = not measured_here(record, environments, gpu), record.result.cache_flush
        groups.setdefault(how, []).append(record)
    for elsewhere, flush in sorted(groups):
        mine = groups[elsewhere, flush]
        best = best_elsewhere(mine, environments, usable) if elsewhere else best_of(mine, usable)
        if best is not None:
            return best
    return None


def for_this_cpu(task: Task) -> Task:
    """`task` with this machine's code generation settings, if it was recorded on another.

    The hardware parameters stay: the candidate was made for them. Raises ConfigError for a task
    that is not for a CPU.
    """
    if task.target.is_gpu:
        raise ConfigError(f"{task.name} was recorded for CUDA; only CPU candidates can be run here")
    if is_for_here(task.target):
        return task
    return replace(task, target=replace(cpu_target(), hardware=task.target.hardware))
