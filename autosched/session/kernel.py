"""`autosched.kernel`: a tuned kernel by the name of its operator, from the user's cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar, get_args

from autosched import arguments
from autosched.arguments import PathLike
from autosched.cache_folder import cache_folder, folder_of
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.runtime.cpu import CpuKernel
from autosched.runtime.cuda_loader import GpuKernel
from autosched.session.api import run, shows_progress
from autosched.session.kernel_cache import Found, KernelCache
from autosched.session.settings import TuneSettings
from autosched.session.this_cpu import is_for_here
from autosched.session.tuned import TunedKernel
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.user_warning import Tell, warn
from autosched.words import in_shell

When = Literal["never", "missing", "always"]
Kernel = CpuKernel | GpuKernel
Value = TypeVar("Value")
_MOST = 128  # files and kernels that are remembered


def kernel(
    workload: str | Task,
    *,
    tune: When = "never",
    time_budget_s: float | None = None,
    trials: int | None = None,
    settings: TuneSettings | None = None,
    cache: PathLike | None = None,
    target: str | Target = "cpu",
    layout_rewrite: str | LayoutOption = "none",
    **args: Any,
) -> Kernel:
    """The best kernel that the cache holds for an operator; tuned first where that is allowed.

        >>> import autosched
        >>> matmul = autosched.kernel("matmul", M=16, N=16, K=16, tune="missing", trials=4)
        >>> a, b = (autosched.empty((16, 16)) for _ in range(2))
        >>> c = matmul(a, b)

    The cache is a folder of record files, `$AUTOSCHED_CACHE` or one among the user's caches;
    `autosched cache` lists it. Several threads and processes that ask for the same kernel at once
    tune it once, and one at a time measures. Damaged records are left out with a warning.
    `kernel.origin` says which record was taken: its file, time, CPU and version of autosched, and
    `repr(kernel)` shows it. Records of another CPU are taken only where tuning is not allowed, with
    a warning. A kernel that was built once is kept in this process until the cache has a better.

    Args:
        workload: the name of a built-in operator, or any Task; one of another CPU, as records of
            another machine have them, is tuned for this one's.
        tune: "never" takes what is there, "missing" tunes where the cache has no record that was
            measured on this machine (with `settings.hosts` on any), "always" tunes on, from the
            records that there are.
        time_budget_s: stop tuning after the round in which this is reached.
        trials: candidates to measure, where it is tuned; default: 64.
        settings: the other settings of tuning.
        cache: another folder.
        target: cpu, cuda or a Target.
        layout_rewrite: as of `Task.from_workload`.
        **args: the operator's arguments, e.g. M=512, N=512, K=512, dtype="float16".

    Raises:
        ConfigError: an argument is wrong, or there is no record and tuning is not allowed.
        MeasureError: it was tuned, and no candidate was valid.
        KeyboardInterrupt: Ctrl-C while it is tuned; the next call goes on from there.
    """
    task = _task(workload, target, layout_rewrite, args)
    arguments.one_of("tune", tune, get_args(When))
    settings = _settings(settings, time_budget_s, trials)
    folder = cache_folder() if cache is None else folder_of("cache", cache)
    there = KernelCache(folder)
    found = None if tune == "always" else _found(there, task, warn)
    if tune == "always" or (tune == "missing" and not _suffices(found, settings)):
        found = _tuned(there, task, settings, again=tune == "always")
    if found is None:
        raise ConfigError(
            f"the cache {folder} has no tuned kernel of {task.name} on {task.target}; "
            'kernel(..., tune="missing") tunes it, `autosched cache add RECORDS` takes records'
        )
    _tell_doubts(task, found, settings)
    return _built(task, found)


def _suffices(found: Found | None, settings: TuneSettings) -> bool:
    """Whether no tuning is needed: the record is of this machine, or a cluster would measure."""
    return found is not None and (found.origin.here or bool(settings.hosts))


def _task(workload: Any, target: Any, layout_rewrite: Any, args: dict[str, Any]) -> Task:
    if not isinstance(workload, Task):
        if not isinstance(workload, str):
            raise ConfigError(
                f"workload: expected the name of an operator or a Task, {arguments.found(workload)}"
            )
        return Task.from_workload(workload, target=target, layout_rewrite=layout_rewrite, **args)
    given = [*args, *(["target"] if target != "cpu" else [])]
    given += ["layout_rewrite"] if layout_rewrite != "none" else []
    if given:
        raise ConfigError(f"{given[0]}: a Task already determines it; leave it out")
    return workload


def _settings(
    settings: TuneSettings | None, time_budget_s: float | None, trials: int | None
) -> TuneSettings:
    if settings is None:
        settings = TuneSettings()
    example = "TuneSettings(workers=1)"
    arguments.instance("settings", settings, TuneSettings, example)
    if settings.records is not None:
        raise ConfigError(
            f"settings: records: the cache has its own files, found {settings.records}; leave it "
            "out"
        )
    if settings.fresh:
        raise ConfigError(
            "settings: fresh: the cache always continues from its records; leave it out, or "
            "give another folder: cache=..."
        )
    changes: dict[str, Any] = {"time_budget_s": time_budget_s, "trials": trials}
    return replace(settings, **{key: value for key, value in changes.items() if value is not None})


def _tuned(cache: KernelCache, task: Task, settings: TuneSettings, *, again: bool) -> Found | None:
    """Tune the task, unless somebody else just did; returns its best record."""
    shown = shows_progress(settings)

    def waiting() -> None:
        if shown is not None:
            shown(f"{task.name}: waiting for another process or thread that tunes")

    with cache.tuning(task, waiting):
        found = None if again else _found(cache, task, _ignore)
        if _suffices(found, settings):
            return found
        with cache.measuring(waiting):
            part = cache.begin(task, warn)
            result = run([_for_here(task)], replace(settings, records=part))
            if result.interrupted:
                raise KeyboardInterrupt
        cache.publish(task)
        return _found(cache, task, _ignore)


def _for_here(task: Task) -> Task:
    """The task with the code generation settings of this CPU, if it has another's; same key."""
    if task.target.is_gpu or is_for_here(task.target):
        return task
    target = replace(cpu_target(task.target.threads), hardware=task.target.hardware)
    return replace(task, target=target)


def _tell_doubts(task: Task, found: Found, settings: TuneSettings) -> None:
    """Warn of a record that says little about this machine, or was never checked."""
    origin = found.origin
    if not origin.here:
        remedy = 'tune="missing"' + (" without settings.hosts" if settings.hosts else "")
        warn(
            f"{origin.file}: {task.name} was measured on {origin.cpu}; on this machine another "
            f"kernel may be faster; {remedy} finds out"
        )
    if not origin.checked:
        warn(
            f"{origin.file}: the best record of {task.name} was never compared with NumPy; "
            f"`autosched replay {in_shell(origin.file)}` does that"
        )


class _Recent(Generic[Value]):
    """A cache of the values that were used last, by key."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[Any, ...], Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Value | None:
        """The value of a key, which counts as used now; None if there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: tuple[Any, ...], value: Value) -> Value:
        """Keep the value, or the one that another thread has put there meanwhile."""
        with self._lock:
            value = self._values.setdefault(key, value)
            while len(self._values) > _MOST:
                self._values.popitem(last=False)
            return value


_records: _Recent[Found] = _Recent()
_kernels: _Recent[Kernel] = _Recent()


def _found(cache: KernelCache, task: Task, warning: Tell) -> Found | None:
    """The best record of a task that can be built; an unchanged file is not read again."""
    key = cache.state(task)
    if key is None:
        return None
    found = _records.get(key)
    if found is None:
        found = cache.find(task, warning, lambda best: _built(task, best))
        if found is not None:
            _records.put(key, found)
    return found


def _built(task: Task, found: Found) -> Kernel:
    """The kernel of a record: built, or the one that was built before."""
    record, origin = found.record, found.origin
    key = (task.key, task.target, record.steps, origin)
    kernel = _kernels.get(key)
    if kernel is not None:
        return kernel
    return _kernels.put(key, TunedKernel(task, record, origin).build())


def _ignore(text: str) -> None:
    """The `warning` of a second reading: everything was told by the first."""
