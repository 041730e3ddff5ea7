"""Which record of a task is the best (fastest, or winner of a race), and which times compare."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from autosched.measure.gpu_environment import gpu_names
from autosched.measure.records import Record
from autosched.state.steps import Step, steps_to_json

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def candidate_hash(steps: Sequence[Step]) -> str:
    """16 hex digits by which the record of another candidate's race refers to a candidate."""
    return hashlib.sha256(json.dumps(steps_to_json(steps)).encode()).hexdigest()[:16]


def is_race(record: Record) -> bool:
    """Whether a record is of a race: another time of a candidate that was recorded before."""
    return isinstance(record.search.get("race"), dict)


def dated(records: Iterable[Record]) -> Iterator[tuple[tuple[str, bool], Record]]:
    """Yield the records of a file, each with a key by which those of several files are merged.

    Keys are (time, whether it is a race) and never decrease: a race stays behind what it is about,
    and comes after the other records of its second.
    """
    latest = ("", False)
    for record in records:
        if _TIME.match(record.time):
            latest = max(latest, (record.time, is_race(record)))
        yield latest, record


def takes_over(record: Record, best: Record | None) -> bool:
    """Whether a valid record becomes the best instead of `best`, which is before it in the file.

    It does when it is faster, or when it is of a race that `best` lost (`search.race`, see
    docs/semantics/records.md): times taken together are worth more than single ones.
    """
    if best is None or record.result.cost < best.result.cost:
        return True
    race = record.search.get("race")
    against = race.get("against") if isinstance(race, dict) else None
    if not isinstance(against, list):
        return False
    return record.steps == best.steps or candidate_hash(best.steps) in against


def best_of(
    records: Iterable[Record], usable: Callable[[Record], bool] | None = None
) -> Record | None:
    """The best of the valid records, given in the order of their file; None without a valid one.

    Those that would be the best until the next one, but are not `usable`, are passed over.
    """
    best = None
    for record in records:
        if record.result.valid and takes_over(record, best) and (usable is None or usable(record)):
            best = record
    return best


def timed_among(record: Record, environments: Mapping[str, Mapping[str, Any]] | None) -> str:
    """A key of the machine and the way of timing: only times with equal keys compare.

    It holds the record's target, the CPU, the number of its cores and the GPUs that its environment
    names, and the bytes of the buffer that emptied the caches. `environments` are those of the
    record's file.
    """
    environment = (environments or {}).get(record.environment, {})
    machine = [environment.get("cpu"), environment.get("cores"), *gpu_names(environment)]
    found = [record.task.get("target"), machine, record.result.cache_flush]
    return json.dumps(found, sort_keys=True)
