"""The finalists of a task raced at the end of a run: timed in turns until one has won."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import log
from typing import Any

from autosched.errors import AutoschedError
from autosched.measure.measurer import Measurer
from autosched.measure.rank_test import signed_rank
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult, lower_quartile
from autosched.measure.standing import candidate_hash
from autosched.measure.steady import interval
from autosched.session.again import Again, timed_again
from autosched.state.steps import steps_to_json
from autosched.task import Task

CONFIDENCE = 0.95

_MOST = 4  # finalists
_NEAR = 1.05  # times of one candidate in two batches differ by that, however steady each is
_ALIKE = 1.02  # tied ones that are that near: which is taken does not matter
_SECONDS = 2.0  # of a race
_LONGEST = 10.0  # of one with two finalists and a single turn: there is none of longer calls
_TURNS = 5
_VISITS = 12  # of each finalist in a turn; of ten all must agree
_VISIT_SECONDS = 5e-3


@dataclass(frozen=True, slots=True)
class Rival:
    """A finalist that did not win: what its record says and what it took in the race.

    `lost` when it is slower than the winner with the confidence of the race; otherwise they tie.
    """

    record: Record
    raced: MeasureResult
    lost: bool


@dataclass(frozen=True, slots=True)
class Race:
    """How the winner was found: its rivals, and the visits of those that were in it to the end."""

    rivals: tuple[Rival, ...]
    visits: int

    @property
    def tie(self) -> bool:
        """Whether one of the rivals may be as fast as the winner."""
        return not all(rival.lost for rival in self.rivals)

    @property
    def text(self) -> str:
        """`won against 2 others (95% confidence)`, or which tie."""
        tied = sum(not rival.lost for rival in self.rivals)
        lost = len(self.rivals) - tied
        if not tied:
            others = "another" if lost == 1 else f"{lost} others"
            return f"won against {others} ({CONFIDENCE:.0%} confidence)"
        text = f"a tie with {'another' if tied == 1 else f'{tied} others'}"
        return f"{text}, won against {lost}" if lost else text

    def to_json(self, winner: float) -> dict[str, Any]:
        """What --json prints; `winner` is the time of the winner in the race."""
        return {
            "outcome": "tie" if self.tie else "won",
            "confidence": CONFIDENCE,
            "visits": self.visits,
            "rivals": [
                {
                    "recorded_seconds": rival.record.result.cost,
                    "seconds": rival.raced.cost,
                    "ratio": rival.raced.cost / winner,
                    "lost": rival.lost,
                    "steps": steps_to_json(rival.record.steps),
                }
                for rival in self.rivals
            ],
        }


@dataclass(frozen=True, slots=True)
class Final:
    """The end of a task: its best, timed once more, and the race it won where there was one.

    `best` is the record of the race then, as it is written to the file.
    """

    best: Record
    again: Again
    race: Race | None = None


def final(task: Task, measurer: Measurer, best: Record, records: Iterable[Record]) -> Final | None:
    """Race the best of a task against those of `records` that may be as fast.

    Without any, or where calls are too long for a race, the best is timed alone. None when that
    fails. `records` are those of the task on this machine, in the order of the file.
    """
    try:
        field = finalists(best, records)
        found = _race(task, measurer, field) if len(field) > 1 else None
    except AutoschedError:
        found = None
    if found is not None:
        return found
    again = timed_again(task, measurer, best)
    return None if again is None else Final(best, again)


def finalists(best: Record, records: Iterable[Record]) -> list[Record]:
    """The best and the next fastest, to the last whose interval overlaps that of the best.

    At most four, each candidate once, with the last of its records. None was passed over that is
    faster by its record. Of long calls two, or the best alone.
    """
    ends = interval(best.result.seconds)[1]
    limit = max(ends, _NEAR * best.result.cost)
    valid = ((r.result.cost, place, r) for place, r in enumerate(records) if r.result.valid)
    some = sorted(nsmallest(4 * _MOST, valid), key=lambda entry: entry[1])
    fastest = {r.steps: r for _, _, r in some}
    fastest.pop(best.steps, None)
    others = sorted(fastest.values(), key=lambda r: r.result.cost)
    call = max(best.result.cost, _VISIT_SECONDS)
    if 2 * (1 + _VISITS) * call > _LONGEST:
        return [best]
    room = max(2, min(_MOST, int(_SECONDS / ((1 + _VISITS) * call))))
    others = others[: room - 1]
    while others and interval(others[-1].result.seconds)[0] > limit:
        others.pop()
    return [best, *others]


def _race(task: Task, measurer: Measurer, field: Sequence[Record]) -> Final | None:
    """The final of several candidates; None when less than two can be run."""
    artifacts = measurer.build(task, [record.steps for record in field])
    checked = [_checked(task, measurer, *pair) for pair in zip(field, artifacts, strict=True)]
    fit = {k: a for k, a in enumerate(artifacts) if a is not None and checked[k] is not None}
    if len(fit) < 2:
        return None
    heats = _Heats(task, measurer, fit)
    end = time.perf_counter() + _SECONDS
    for turn in range(_TURNS):
        if turn and time.perf_counter() + heats.last_seconds > end:
            break
        heats.turn()
        if len(heats.left) < 2:
            break
    if not heats.left or len(heats.raced) < 2:
        return None
    results = {k: heats.result(k, checked[k]) for k in heats.raced}
    winner = _chosen(heats.left, {k: r.cost for k, r in results.items()}, field)
    rivals = tuple(
        Rival(field[k], result, k not in heats.left) for k, result in results.items() if k != winner
    )
    race = Race(rivals, len(heats.seconds[winner]))
    again = Again(field[winner].result, results[winner])
    return Final(_record(field[winner], results[winner], race), again, race)


def _checked(
    task: Task, measurer: Measurer, record: Record, artifact: bytes | None
) -> MeasureResult | None:
    """The recorded result, compared with the reference if it was not; None if it is wrong."""
    if artifact is None:
        return None
    if record.result.checked:
        return record.result
    seen = measurer.verified(task, artifact)
    if isinstance(seen, Failure):
        return None
    return record.result if seen is None else replace(record.result, checked=True, seen=seen)


def _chosen(left: Sequence[int], costs: Mapping[int, float], field: Sequence[Record]) -> int:
    """The winner, or of those that tie one that does not depend on how a run went.

    Of those within 2% of the fastest, the one with the least steps, then the first by its hash.
    """
    least = min(costs[k] for k in left)
    alike = [k for k in left if costs[k] <= _ALIKE * least]
    return min(alike, key=lambda k: (len(field[k].steps), candidate_hash(field[k].steps)))


def _record(found: Record, raced: MeasureResult, race: Race) -> Record:
    """The record of the race: of the winner, with its repeats in it."""
    entry = {
        "against": [candidate_hash(rival.record.steps) for rival in race.rivals],
        "ties": [candidate_hash(rival.record.steps) for rival in race.rivals if not rival.lost],
        "confidence": CONFIDENCE,
        "found_seconds": found.result.cost,
    }
    return replace(found, result=raced, search={**found.search, "race": entry})


class _Heats:
    """The repeats so far of each finalist, one of each visit, and who is left."""

    def __init__(self, task: Task, measurer: Measurer, artifacts: Mapping[int, bytes]) -> None:
        self._task = task
        self._measurer = measurer
        self._artifacts = artifacts
        self._level = (1 - CONFIDENCE) / (_TURNS * (len(artifacts) - 1))  # Bonferroni's
        self._last: dict[int, MeasureResult] = {}
        self.seconds: dict[int, list[float]] = {k: [] for k in artifacts}
        self.left = list(artifacts)
        self.last_seconds = 0.0

    @property
    def raced(self) -> list[int]:
        """Those that have a time: a finalist that failed in the race is out of it."""
        return [k for k in self.seconds if k in self._last]

    def turn(self) -> None:
        """Some more visits of those that are left; the ones that have lost then leave."""
        begun = time.perf_counter()
        batch = [self._artifacts[k] for k in self.left]
        results = self._measurer.together(self._task, batch, _VISITS, _VISIT_SECONDS)
        for k, result in zip(list(self.left), results, strict=True):
            if result.valid:
                self.seconds[k] += result.seconds
                self._last[k] = result
            else:
                self.left.remove(k)
                self._last.pop(k, None)
        self.last_seconds = time.perf_counter() - begun
        if self.left:
            leader = min(self.left, key=lambda k: lower_quartile(self.seconds[k]))
            self.left = [k for k in self.left if k == leader or not self._loses(k, leader)]

    def _loses(self, one: int, leader: int) -> bool:
        pairs = zip(self.seconds[one], self.seconds[leader], strict=False)
        ratios = sorted(log(mine / best) for mine, best in pairs)
        return ratios[len(ratios) // 2] > 0 and signed_rank(ratios) <= self._level

    def result(self, k: int, found: MeasureResult | None) -> MeasureResult:
        """What a finalist took in the race."""
        assert found is not None
        raced = replace(self._last[k], seconds=tuple(self.seconds[k]))
        if found.checked and not raced.checked:  # the same code
            raced = replace(raced, checked=True, seen=found.seen)
        return raced
