"""Build the best recorded kernel without measuring anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched import arguments
from autosched.arguments import PathLike
from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.measure.workload_keys import WorkloadKeys
from autosched.runtime.cpu import CpuKernel
from autosched.runtime.cuda_loader import GpuKernel
from autosched.runtime.origin import Origin
from autosched.session.applying import Applying
from autosched.session.believed import believed
from autosched.session.named_workloads import workload_keys
from autosched.session.reading import each_once, identity, read_records, record_files
from autosched.session.this_cpu import (
    best_for_here,
    cpu_name,
    for_this_cpu,
    machine_text,
    measured_here,
)
from autosched.session.this_gpu import gpu_of
from autosched.session.tuned import TunedKernel
from autosched.task import Task
from autosched.user_warning import warn
from autosched.words import count, in_shell


@dataclass(frozen=True, slots=True)
class _Read:
    """The valid records of files that are believed, as if one file held them in this order.

    `paths` has the file of each record by the record's id, `name` stands for all files in messages.
    """

    name: str
    environments: Mapping[str, Mapping[str, Any]]
    valid: Sequence[Record]
    paths: Mapping[int, Path]


def load_best(
    records: PathLike | Sequence[PathLike],
    task: Task | None = None,
    *,
    workloads: Task | Mapping[str, Task] | None = None,
) -> CpuKernel | GpuKernel:
    """The best kernel that record files hold for a task; nothing is measured or checked.

        >>> import autosched
        >>> task = autosched.Task.from_workload("matmul", M=16, N=16, K=16)
        >>> result = autosched.tune(task, trials=4, records="mm.jsonl")
        >>> kernel = autosched.load_best("mm.jsonl")  # later, in another process
        >>> a, b = (autosched.empty((16, 16)) for _ in range(2))
        >>> c = kernel(a, b)

    The best is the fastest, or the one that won a race against it at the end of a run.
    A time that no kernel can have is not believed, and steps that do not apply to the task are of
    no use: a warning says so, and the next best is taken.
    `records` is a file, or several, which count as one that holds the records of the first, then
    those of the next. `task` may be left out when they are about one task only. Records that were
    measured on this machine's CPU (model and features) come first, however fast others were, and of
    these the ones that were timed without emptying the caches. If there is none, the best of the
    others is built for this CPU, which gives the same results at another speed, and a warning says
    so; another warning says that a record was never compared with NumPy.
    A record for CUDA is built for the first GPU of this machine. `kernel.origin` says which record
    it was. For Ansor's logs, `workloads` says what workload keys compute that are not built in: a
    task for the only one, or `{key: task}`.

    Raises ConfigError when no file has a record of the task that can be used; CompileError or
    ScheduleError when the candidate cannot be built; MeasureError for a record for CUDA without a
    driver.
    """
    if task is not None:
        arguments.instance("task", task, Task, 'Task.from_workload("matmul", M=8, N=8, K=8)')
    read = _read(records, workload_keys(workloads))
    best = _best(read, _of_task(read, task))
    if best is None:
        raise _nothing_in(read)
    return best.build()


def best_kernels(records: PathLike | Sequence[PathLike]) -> list[TunedKernel]:
    """The best kernel of each task of the files, as `load_best` chooses it; not built yet."""
    read = _read(records)
    tasks: dict[str, list[Record]] = {}
    for record in read.valid:
        tasks.setdefault(str(record.task["key"]), []).append(record)
    found = [best for mine in tasks.values() if (best := _best(read, mine))]
    if not found:
        raise _nothing_in(read)
    return found


def _read(records: PathLike | Sequence[PathLike], keys: WorkloadKeys | None = None) -> _Read:
    """Read the files. Raises ConfigError when one cannot be read."""
    paths = each_once(record_files("records", records), warn)
    environments: dict[str, Mapping[str, Any]] = {}
    valid: list[Record] = []
    files: dict[int, Path] = {}
    for number, path in enumerate(paths):
        contents = read_records(path, warn, keys)
        names = {}
        for name, environment in contents.environments.items():
            known = environments.get(name, environment)
            names[name] = name if known == environment else f"{name} of file {number}"
            environments[names[name]] = environment
        for record in believed(path, (r for r in contents.records if r.result.valid), warn):
            mine = replace(record, environment=names.get(record.environment, ""))
            valid.append(mine)
            files[id(mine)] = path
    for source in () if keys is None else keys.unused:
        warn(f"workloads: {source}: no line has such a workload key; it was not used")
    return _Read(", ".join(map(str, paths)), environments, valid, files)


def _best(read: _Read, mine: Sequence[Record]) -> TunedKernel | None:
    """The best of the records of one task, for this machine; None where the steps of none apply."""
    gpu = gpu_of(mine[0])
    usable = Applying()
    best = best_for_here(mine, read.environments, gpu, usable)
    usable.tell(read.name, warn)
    if best is None:
        return None
    path = read.paths[id(best)]
    recorded = Task.from_json(best.task)
    here = recorded if recorded.target.is_gpu else for_this_cpu(recorded)
    if here is not recorded:
        name = cpu_name(best, read.environments)
        cpu = str(recorded.target) if recorded.target.cpu else machine_text(name, "cpu")
        warn(
            f"{path}: the best record of {recorded.name} was measured on {cpu}; the kernel is "
            f"built for this machine's {here.target} and others may be faster here: tune again to "
            "find out"
        )
    if not best.result.checked:
        warn(
            f"{path}: the best record of {recorded.name} was never compared with NumPy; "
            f"`autosched replay {in_shell(path)}` does that"
        )
    return TunedKernel(here, best, origin_of(path, here.name, best, read.environments, gpu))


def origin_of(
    path: Path,
    name: str,
    record: Record,
    environments: Mapping[str, Mapping[str, Any]],
    gpu: str | None = None,
) -> Origin:
    """The origin of a kernel: its record in the file `path`, whose task is called `name`.

    `environments` and `gpu` as for `best_for_here`.
    """
    packages = environments.get(record.environment, {}).get("packages")
    return Origin(
        file=path,
        task=name,
        seconds=record.result.cost,
        cpu=cpu_name(record, environments),
        here=measured_here(record, environments, gpu),
        version=str(packages.get("autosched", "")) if isinstance(packages, Mapping) else "",
        time=record.time,
        checked=record.result.checked,
    )


def _of_task(read: _Read, task: Task | None) -> list[Record]:
    """The records of `task`, or of the only task there is. ConfigError when there is none."""
    if not read.valid:
        raise _nothing_in(read)
    kinds = {str(r.task["key"]): r.task for r in read.valid}
    if task is None and len(kinds) > 1:
        names = "; ".join(identity(entry) for entry in kinds.values())
        raise ConfigError(
            f"{read.name} holds {count(len(kinds), 'task')}: {names}; say which with "
            "load_best(records, task)"
        )
    key = next(iter(kinds)) if task is None else task.key
    mine = [r for r in read.valid if r.task["key"] == key]
    if not mine:
        assert task is not None
        names = "; ".join(identity(entry) for entry in kinds.values())
        raise ConfigError(
            f"{read.name} holds no valid record of {identity(task.to_json())}; it holds {names}"
        )
    return mine


def _nothing_in(read: _Read) -> ConfigError:
    return ConfigError(f"{read.name} holds no valid record; expected one that `tune` wrote")
