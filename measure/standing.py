"""Which record of a task is the best, the fastest or a race's winner; which can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autosched.measure.gpu_environment import gpu_names
from autosched.measure.records import Record
from autosched.state.steps import Step, steps_to_json


def candidate_hash(steps: Sequence[Step]) -> str:
    """16 hex digits that name a candidate of a task in the race of another."""
    return hashlib.sha256(json.dumps(steps_to_json(steps)).encode()).hexdigest()[:16]


def is_race(record: Record) -> bool:
    """Whether a record is of a race: of a candidate that another record before it is of."""
    return isinstance(record.search.get("race"), dict)


def takes_over(record: Record, best: Record | None) -> bool:
    """Whether a valid record takes the place of `best`, which comes before it in the file.

    It does when it is faster, or when it is of a race that `best` lost (`search.race`, see
    docs/semantics/records.md): times that were taken together are worth more than single ones.
    """
    if best is None or record.result.cost < best.result.cost:
        return True
    race = record.search.get("race")
    against = race.get("against") if isinstance(race, dict) else None
    if not isinstance(against, list):
        return False
    return record.steps == best.steps or candidate_hash(best.steps) in against


def best_of(records: Iterable[Record]) -> Record | None:
    """The best of the valid ones, which are in the order of their file; None without any."""
    best = None
    for record in records:
        if record.result.valid and takes_over(record, best):
            best = record
    return best


def timed_among(record: Record, environments: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The machine and its way of timing: a record's time says something among those of the same.

    The CPU that its code is for, the CPU or GPU that its environment names, and the bytes that
    emptied the caches. `environments` are those of its file.
    """
    environment = (environments or {}).get(record.environment, {})
    machine = [environment.get("cpu"), environment.get("cores"), *gpu_names(environment)]
    found = [record.task.get("target"), machine, record.result.cache_flush]
    return json.dumps(found, sort_keys=True)
