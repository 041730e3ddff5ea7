"""Made-up records with chosen tasks, machines, times and races."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, head_lines, line_of, task_hash
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.standing import candidate_hash
from autosched.state.steps import steps_from_json
from autosched.task import Task

STEPS = [steps_from_json([["SP", 2, 0, 16, [k], 1]]) for k in (1, 2, 4, 8, 16)]
"""Five candidates of the 16x16x16 matmul."""

FAST, SLOW = "fast-cpu", "slow-cpu"


@cache
def entry(size: int = 16, cpu: str = FAST, threads: int = 2) -> dict[str, Any]:
    """The task of a matmul, on a CPU of the given name."""
    task = Task.from_workload("matmul", M=size, N=16, K=16)
    data = json.loads(json.dumps(task.to_json()))  # through JSON, as in a file
    target = {**data["target"], "cpu": cpu, "threads": threads}
    return {**data, "key": f"{size:08x}{threads:08x}", "target": target}


def record(
    k: int,
    seconds: float | Sequence[float] = 1e-3,
    against: Sequence[int] | None = None,
    *,
    ties: Sequence[int] = (),
    task: dict[str, Any] | None = None,
    environment: str = "",
    time: str = "2026-01-01T00:00:00+00:00",
    flush: int = 0,
) -> Record:
    """Candidate `k` of STEPS with a time; in a race it won `against` some and had `ties`."""
    times = (seconds,) if isinstance(seconds, float) else tuple(seconds)
    ended = {"against": [*map(names, against or ())], "ties": [*map(names, ties)]}
    race = {} if against is None else {"race": ended}
    result = MeasureResult(times, checked=True, cache_flush=flush)
    return Record(task or entry(), STEPS[k], result, race, environment, time)


def names(k: int) -> str:
    """The hash by which races name candidate `k`."""
    return candidate_hash(STEPS[k])


def failed(k: int, **options: Any) -> Record:
    """A record of candidate `k` that failed."""
    made = record(k, **options)
    failure = Failure("run", "timeout", "too long")
    return Record(
        made.task, made.steps, MeasureResult((), failure), {}, made.environment, made.time
    )


def lines_of(records: Sequence[Record], environments: dict[str, Any] | None = None) -> list[str]:
    """The lines of a record file: heads, then records."""
    tasks = {task_hash(record.task): record.task for record in records}
    heads = head_lines(environments or {}, tasks).values()
    return [*map(line_of, heads), *(line_of(record.to_json()) for record in records)]


def write(
    path: Path,
    records: Sequence[Record],
    environments: dict[str, Any] | None = None,
    *,
    also: Sequence[str] = (),
) -> Path:
    """Write a record file that ends with the lines `also`."""
    path.write_text("".join([*lines_of(records, environments), *also]))
    return path


def written_here(path: Path, *several: Record) -> Path:
    """A file of records that count as measured on this machine."""
    RecordLog(path).append(several)
    return path


@contextmanager
def piped(path: Path) -> Iterator[Path]:
    """The file as a pipe; the file must fit into a pipe's buffer."""
    end, start = os.pipe()
    try:
        os.write(start, path.read_bytes())
        os.close(start)
        yield Path(f"/dev/fd/{end}")
    finally:
        os.close(end)


def drawn(seed: int) -> list[Record]:
    """Random records of five candidates, many of them from races."""
    rng = random.Random(seed)
    races = [
        rng.sample(range(5), rng.randint(1, 3)) if rng.random() < 0.3 else None for _ in "x" * 12
    ]
    return [record(rng.randrange(5), rng.randint(1, 9) * 1e-3, race) for race in races]
