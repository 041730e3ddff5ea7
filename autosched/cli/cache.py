"""`autosched cache`: list and edit the kernels that `autosched.kernel` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autosched.cache_folder import cache_folder
from autosched.cli.console import plain, print_json, seconds_text, text_width, warn, warning
from autosched.cli.table import table
from autosched.codegen.cubin_cache import cubin_cache
from autosched.errors import ConfigError
from autosched.measure.records import LogContents
from autosched.runtime.loop_cache import loop_files
from autosched.session.applying import Applying
from autosched.session.kernel_cache import KernelCache
from autosched.session.load_best import origin_of
from autosched.session.reading import each_once, not_rebuilt, read_records
from autosched.session.this_cpu import best_for_here
from autosched.session.this_gpu import gpu_of
from autosched.task import Task
from autosched.words import count

_HEAD = ("task", "best", "records", "measured on", "autosched", "when", "file")
_LESS_TELLING = ("autosched", "records", "when", "file")


def path() -> None:
    """Print the folder, whether it exists or not."""
    plain(str(cache_folder()))


def show(*, as_json: bool) -> None:
    """Print a line for each task in the cache."""
    cache = KernelCache(cache_folder())
    entries = [entry for file in cache.files() for entry in _entries(file)]
    if as_json:
        print_json({"folder": str(cache.folder), "kernels": entries})
        return
    if not entries:
        warn(f"the cache {cache.folder} is empty")
        return
    for line in table(_HEAD, [_row(entry) for entry in entries], text_width(), _LESS_TELLING):
        plain(line)


def add(files: Sequence[Path]) -> None:
    """Add the records of files to the cache.

    A task that cannot be rebuilt is left out, and a warning says why. Raises ConfigError if a file
    holds no records, or no task that can be rebuilt.
    """
    cache = KernelCache(cache_folder())
    for file in each_once(files, warning):
        contents = read_records(file, warning)
        entries = {str(record.task["key"]): record.task for record in contents.records}
        if not entries:
            raise ConfigError(f"{file} holds no record; expected a file that `tune` wrote")
        for task in _rebuilt(file, list(entries.values())):
            wait = partial(warn, f"{task.name}: waiting for the process that tunes it")
            plain(f"{task.name}: {count(cache.add(contents, task, wait), 'record')} added")


def _rebuilt(file: Path, entries: Sequence[dict[str, Any]]) -> list[Task]:
    """The tasks that can be rebuilt; a file that is not trusted, for example, prevents it."""
    tasks, problems = [], []
    for entry in entries:
        try:
            tasks.append(Task.from_json(entry, to_run=False))
        except ConfigError as error:
            problems.append(f"{file}: {not_rebuilt(entry)} is left out: {error}")
    if not tasks:
        raise ConfigError("\n".join(problems))
    for problem in problems:
        warning(problem)
    return tasks


def clear(names: Sequence[str], *, everything: bool) -> None:
    """Remove the kernels of operators, or single files. Raises ConfigError for an unknown name."""
    cache = KernelCache(cache_folder())
    if everything == bool(names):
        raise ConfigError("expected names of operators or files, or --all")
    files = cache.files(begun=True)
    for name in names:
        if not any(_is_called(file, name) for file in files):
            raise ConfigError(
                f"the cache {cache.folder} has no kernel of {name}; `autosched cache list` shows "
                "what there is"
            )
    chosen = [f for f in files if everything or any(_is_called(f, name) for name in names)]
    removed = [file for file in chosen if cache.remove(file)]
    for file in chosen:
        if file not in removed:
            warn(f"note: {file.name} is being tuned and stays")
    plain(f"{count(len(removed), 'kernel')} removed from {cache.folder}")
    if everything:
        _clear_compiled()


def _clear_compiled() -> None:
    cubins, loops = cubin_cache(), loop_files()
    if cubins is not None and (number := cubins.files.clear()):
        plain(f"{count(number, 'compiled GPU kernel')} removed from {cubins.folder}")
    if loops is not None and (number := loops.clear()):
        plain(f"{count(number, 'compiled loop')} removed from {loops.folder}")


def _is_called(file: Path, name: str) -> bool:
    """Whether `name` means the file: `matmul-<key>.jsonl` is meant by `matmul`, too."""
    return name in (file.name, file.stem, file.name.rpartition("-")[0])


def _entries(file: Path) -> list[dict[str, Any]]:
    """The descriptions of the tasks in a file; a file that cannot be read gives a warning."""
    try:
        contents = read_records(file, warning)
    except ConfigError as error:
        warning(str(error))
        return []
    keys = dict.fromkeys(str(record.task["key"]) for record in contents.records)
    return [_entry(file, contents, key) for key in keys]


def _entry(file: Path, contents: LogContents, key: str) -> dict[str, Any]:
    mine = [record for record in contents.records if record.task["key"] == key]
    valid = [record for record in mine if record.result.valid]
    entry: dict[str, Any] = {"file": file.name, "records": len(mine), "task": _name(mine[0].task)}
    if not valid:
        return {**entry, "seconds": None}
    gpu = gpu_of(valid[0])
    usable = Applying()
    best = best_for_here(valid, contents.environments, gpu, usable)
    usable.tell(file, warning)
    if best is None:
        return {**entry, "seconds": None}
    origin = origin_of(file, entry["task"], best, contents.environments, gpu)
    return {
        **entry,
        "seconds": origin.seconds,
        "cpu": origin.cpu,
        "here": origin.here,
        "version": origin.version,
        "time": origin.time,
        "checked": origin.checked,
    }


def _name(entry: dict[str, Any]) -> str:
    try:
        return Task.from_json(entry, to_run=False).name
    except ConfigError:  # it needs a file that is not trusted or no longer exists
        return not_rebuilt(entry)


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    if entry["seconds"] is None:
        return (entry["task"], "none valid", str(entry["records"]), "", "", "", entry["file"])
    return (
        entry["task"],
        seconds_text(entry["seconds"]),
        str(entry["records"]),
        f"{entry['cpu']}{'' if entry['here'] else ' (another machine)'}",
        entry["version"],
        entry["time"][:16].replace("T", " "),
        entry["file"],
    )
