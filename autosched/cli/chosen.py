"""Selection of records from a file, for the commands that look at candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.cli.console import warn, warning
from autosched.errors import ConfigError
from autosched.measure.records import LogContents, Record
from autosched.measure.workload_keys import WorkloadKeys
from autosched.session.applying import Applying
from autosched.session.believed import believed
from autosched.session.reading import read_records
from autosched.session.this_cpu import best_for_here, cpu_name, for_this_cpu, measured_here
from autosched.session.this_gpu import for_this_gpu
from autosched.task import Task
from autosched.words import count, last_line


def chosen(
    path: Path, choice: int | str, option: str = "--index", keys: WorkloadKeys | None = None
) -> list[Record]:
    """The records that `choice` selects: `best`, `all` (valid ones) or an index.

    The best one was measured on this CPU if any record was. Warns about problems. `option` is the
    option that gave the index, for messages; `keys` as in `read_records`. Raises ConfigError if the
    file holds no such record.
    """
    return chosen_of(path, read_records(path, warning, keys), choice, option)


def chosen_of(
    path: Path, contents: LogContents, choice: int | str, option: str = "--index"
) -> list[Record]:
    """As `chosen`, for the contents of `path`."""
    records = contents.records
    if not records:
        raise ConfigError(
            f"{path} holds no records; expected a file that `autosched tune` or Ansor v0.6 wrote"
        )
    if isinstance(choice, int):
        if not -len(records) <= choice < len(records):
            from_end = f", or -{len(records)} to -1 from the end" if option == "--index" else ""
            raise ConfigError(
                f"{path} holds {count(len(records), 'record')}; {option} {choice} is not one of "
                f"0 to {len(records) - 1}{from_end}"
            )
        return [records[choice]]
    valid = [r for r in records if r.result.valid]
    if not valid:
        reason = next((r.result.failure.message for r in records if r.result.failure), "no times")
        raise ConfigError(
            f"{path}: none of its {count(len(records), 'record')} is valid, for example: "
            f"{last_line(reason):.300}; choose one with {option.rstrip(':')}, or see "
            "`autosched failures`"
        )
    if choice == "all":
        return valid
    valid = believed(path, valid, warning)
    if not valid:
        raise ConfigError(
            f"{path}: every recorded time is impossible; choose one with {option.rstrip(':')}"
        )
    best = _best(path, valid, contents)
    here = {id(r) for r in valid if measured_here(r, contents.environments)}
    flushed = {key: record.result.cache_flush for key, record in best.items()}
    alike = [r for r in valid if r.result.cache_flush == flushed[r.task["key"]]]
    if len(alike) < len(valid):
        other = "with another measure.cache_flush"
        warn(f"note: {path}: {len(valid) - len(alike)} timed {other} left out; --index takes them")
    times = {key: record.result.cost for key, record in best.items() if id(record) in here}
    others = [r for r in alike if id(r) not in here]
    faster = [r for r in others if r.result.cost < times.get(r.task["key"], 0.0)]
    if faster:  # measured on another CPU, otherwise it would be the best
        cpus = ", ".join(dict.fromkeys(cpu_name(r, contents.environments) for r in faster))
        warn(
            f"note: {path}: faster records of other CPUs ({cpus}) are left out; --index takes them"
        )
    if len(best) > 1:
        warn(f"note: {path} holds {len(best)} tasks; the best of each is taken")
    return list(best.values())


def _best(path: Path, valid: Sequence[Record], contents: LogContents) -> dict[str, Record]:
    """The best record of each task, by its key: one whose steps apply to the task, if any do."""
    tasks: dict[str, list[Record]] = {}
    for record in valid:
        tasks.setdefault(record.task["key"], []).append(record)
    found = {}
    for key, mine in tasks.items():
        usable = Applying()
        best = best_for_here(mine, contents.environments, usable=usable)
        if best is None:
            best = best_for_here(mine, contents.environments)
            assert best is not None
        else:
            usable.tell(path, warning)
        found[key] = best
    return found


def task_of(record: Record, *, to_run: bool = True) -> Task:
    """Rebuild the task of a record; `to_run` as in `Task.from_json`."""
    return Task.from_json(record.task, to_run=to_run)


def on_this_machine(task: Task) -> Task:
    """`task` with this machine's settings for code generation, if it was recorded elsewhere.

    The hardware parameters stay, because the candidate was made for them. Raises ConfigError for a
    task that is not for a CPU.
    """
    here = for_this_cpu(task)
    if here is not task and task.target.cpu:
        warn(f"note: recorded for {task.target}, rebuilt for this machine's {here.target}")
    return here


def on_this_gpu(task: Task, facts: Mapping[str, Any]) -> Task:
    """`task` for the architecture of the GPU in `facts`, if it was recorded for another.

    The hardware parameters stay, because the candidate was made for them.
    """
    here = for_this_gpu(task, facts)
    if here is not task:
        warn(f"note: recorded for {task.target}, rebuilt for {facts['name']} ({here.target.arch})")
    return here
