"""The best candidates of record files, and the best of each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched import arguments
from autosched.arguments import PathLike
from autosched.measure.steady import interval
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.ranking import Place
from autosched.records.standings import Group, ranked, read_standings
from autosched.session.reading import record_files
from autosched.user_warning import Tell, warn
from autosched.words import seconds_text


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """A candidate with its `rank` (from 1) among those of its task and machine.

    `group` has the task, the machine and how many candidates there are. If the candidate was in a
    race for the best, `race` says how it ended: `won`, `tied` (with the best, or, for the best,
    with others) or `lost`; otherwise it is empty.
    """

    group: Group
    place: Place
    rank: int
    race: str

    def __repr__(self) -> str:
        low, high = map(seconds_text, self.interval)
        time = f"{seconds_text(self.seconds)} ({low} to {high})"
        race = f", {self.race}" if self.race else ""
        where = f"record {self.index} of {str(self.place.path)!r}"
        return f"<rank {self.rank} of {self.name}: {time}{race}, {where}>"

    @property
    def name(self) -> str:
        """The name of the task, for people."""
        return self.group.entry.name

    @property
    def seconds(self) -> float:
        """Seconds per call."""
        return self.place.seconds

    @property
    def index(self) -> int:
        """The record's place in its file, as `autosched show --index` takes it."""
        return self.place.index

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of `seconds`."""
        return interval(self.place.record.result.seconds)

    @property
    def flops_per_second(self) -> float | None:
        """Floating-point operations a second; None where they are not counted."""
        return self.group.entry.operations / self.place.seconds or None

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints; docs/semantics/records.md explains the keys."""
        record = self.place.record
        return {
            "rank": self.rank,
            "file": str(self.place.path),
            "index": self.place.index,
            "candidate": self.place.candidate,
            "seconds": self.place.seconds,
            "interval": list(self.interval),
            "flops_per_second": self.flops_per_second,
            "checked": record.result.checked,
            "largest_error": record.result.accuracy,
            "race": self.race or None,
            "time": record.time or None,
        }


def top(
    sources: PathLike | Sequence[PathLike],
    number: int,
    *,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> list[list[Found]]:
    """The `number` best candidates of each task and machine, a list for each.

        for found in autosched.records.top("mm.jsonl", 3)[0]:
            print(found.rank, found.seconds, found.index)

    The first is the one that `load_best` takes, the second would be the best without it, and so on.
    Tasks are in the order of their first records, with this machine before others. Candidates timed
    with empty caches are in a list of their own. Several files count as one.

    Raises ConfigError when a file cannot be read or there are no records.
    """
    most = arguments.integer("number", number, 1)
    standings = read_standings(record_files("sources", sources), most, warning, keys)
    groups = [group for task in standings.tasks.values() for group in task.ordered()]
    return [found for group in groups if (found := places_of(group, most))]


def best(
    sources: PathLike | Sequence[PathLike],
    *,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> list[Found]:
    """The best candidate of each task that has one: of this machine, otherwise of the fastest.

        for found in autosched.records.best(["mm.jsonl", "conv.jsonl"]):
            print(found.name, found.seconds)

    Raises as `top`.
    """
    standings = read_standings(record_files("sources", sources), 1, warning, keys)
    return [found for task in standings.tasks.values() if (found := best_of_task(task.ordered()))]


def best_of_task(groups: Sequence[Group]) -> Found | None:
    """The best candidate of this machine, otherwise of any; of times with warm caches, if any."""
    found = [each for group in groups for each in places_of(group, 1)]
    order = [(not f.group.machine.here, f.group.cache_flush, f.seconds) for f in found]
    return found[order.index(min(order))] if found else None


def places_of(group: Group, most: int) -> list[Found]:
    """The best candidates of a group, the best first."""
    places = ranked(group, most)
    return [
        Found(group, place, rank, _race(place, places[0])) for rank, place in enumerate(places, 1)
    ]


def _race(place: Place, best: Place) -> str:
    if place is not best and place.candidate in best.against:
        return "tied" if place.candidate in best.ties else "lost"
    if not place.against:
        return ""
    return "tied" if place.ties else "won"


def group_json(group: Group) -> dict[str, Any]:
    """The task and the machine of a group, for --json."""
    entry = group.entry
    return {
        "key": entry.key,
        "workload": entry.entry.get("workload"),
        "name": entry.task.name if entry.task is not None else None,
        "target": entry.task.target.kind if entry.task is not None else None,
        "problem": entry.problem or None,
        "cpu": group.machine.name,
        "here": group.machine.here,
        "cache_flush": group.cache_flush,
        "records": group.candidates,
        "valid": group.valid,
        "impossible": group.impossible,
    }
