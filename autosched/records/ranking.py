"""Rank the best candidates of a stream of records."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autosched.measure.records import Record
from autosched.measure.standing import candidate_hash, is_race


@dataclass(frozen=True, slots=True)
class Place:
    """A record and where it is.

    `index` is its place in its file, as `show --index` takes it, and `number` its place among the
    records of all files that were read. `candidate` is a hash of its steps. `against` are the
    candidates that it won a race against, and `ties` those of them that may be as fast.
    """

    record: Record
    path: Path
    index: int
    number: int
    candidate: str
    against: frozenset[str] = frozenset()
    ties: frozenset[str] = frozenset()

    @property
    def seconds(self) -> float:
        """Seconds per call."""
        return self.record.result.cost


@dataclass(slots=True)
class _Stretch:
    """The records between one race and the next: the fastest one of each candidate.

    Only the `most` fastest candidates are kept. `race` is the record that the stretch begins with.
    """

    most: int
    race: Place | None = None
    fastest: dict[str, Place] = field(default_factory=dict)
    heap: list[tuple[float, int, str]] = field(default_factory=list)  # the slowest first
    least: float = math.inf

    def add(self, record: Record, path: Path, index: int, number: int) -> None:
        cost = record.result.cost
        if self.is_too_slow(cost):
            return
        candidate = candidate_hash(record.steps)
        before = self.fastest.get(candidate)
        if before is not None and before.seconds <= cost:
            return
        self.least = min(self.least, cost)
        self.fastest[candidate] = Place(record, path, index, number, candidate)
        heapq.heappush(self.heap, (-cost, -number, candidate))
        if len(self.fastest) > self.most:
            del self.fastest[self.heap[0][2]]
        while self.heap and not self._is_current(self.heap[0]):
            heapq.heappop(self.heap)

    def is_too_slow(self, cost: float) -> bool:
        return len(self.fastest) >= self.most and cost >= -self.heap[0][0]

    def _is_current(self, entry: tuple[float, int, str]) -> bool:
        place = self.fastest.get(entry[2])
        return place is not None and -entry[1] == place.number

    def ordered(self) -> Iterator[Place]:
        return iter(sorted(self.fastest.values(), key=lambda place: (place.seconds, place.number)))


class Ranking:
    """The `most` best candidates of one task and machine, from records that are added in order.

    The first is `best_of` the records, the second would be the best without the first, and so on.
    The records of races are kept, and the `most` fastest candidates between two races: candidates
    between two races have won and lost the same races, so no slower one can rank before these.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._stretches = [_Stretch(most)]

    def add(self, record: Record, path: Path, index: int, number: int) -> None:
        """Add the next valid record."""
        race = record.search.get("race")
        race = race if isinstance(race, dict) else {}
        against, ties = race.get("against"), race.get("ties")
        if isinstance(against, list):
            rivals = frozenset(map(str, against))
            tied = frozenset(map(str, ties)) if isinstance(ties, list) else frozenset[str]()
            place = Place(record, path, index, number, candidate_hash(record.steps), rivals, tied)
            self._stretches.append(_Stretch(self._most, place))
        else:
            self._stretches[-1].add(record, path, index, number)

    def is_too_slow(self, cost: float) -> bool:
        """Whether a record of this cost, if it is of no race, would not be kept."""
        return self._stretches[-1].is_too_slow(cost)

    def may_lead(self, record: Record) -> bool:
        """Whether a record, once added, may be the best: none between two races is as fast."""
        return is_race(record) or record.result.cost < self._stretches[-1].least

    def first_of(self, place: Place) -> Place:
        """The first record of the place's candidate that is kept, perhaps the place itself."""
        kept = (p for s in self._stretches for p in (s.race, s.fastest.get(place.candidate)))
        return min(
            (p for p in kept if p is not None and p.candidate == place.candidate),
            key=lambda p: p.number,
        )

    def ranked(self) -> list[Place]:
        """The places, the best first: for each candidate the record that decides its rank."""
        found: list[Place] = []
        taken: set[str] = set()
        rest = [(stretch.race, stretch.ordered()) for stretch in self._stretches]
        heads: list[Place | None] = [next(places, None) for _, places in rest]
        while len(found) < self._most:
            best: Place | None = None
            for number, (race, places) in enumerate(rest):
                if race is not None and race.candidate not in taken and _takes_over(race, best):
                    best = race
                head = heads[number]
                while head is not None and head.candidate in taken:
                    head = heads[number] = next(places, None)
                if head is not None and (best is None or head.seconds < best.seconds):
                    best = head
            if best is None:
                break
            found.append(best)
            taken.add(best.candidate)
        return found


def _takes_over(race: Place, best: Place | None) -> bool:
    """As `measure.standing.takes_over`, for a record of a race."""
    if best is None or race.seconds < best.seconds:
        return True
    return best.candidate == race.candidate or best.candidate in race.against
