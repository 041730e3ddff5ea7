"""Race the finalists of a task at the end of a run: time them in turns until one has won."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any

from autosched.errors import AutoschedError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.standing import candidate_hash
from autosched.measure.steady import interval
from autosched.session.again import Again, timed_again
from autosched.session.heats import CONFIDENCE, MOST, SECONDS, VISITS, Heats
from autosched.state.steps import steps_to_json
from autosched.task import Task
from autosched.words import count

_NEAR = 1.05  # times of one candidate in two batches differ so much, however steady each is
_ALIKE = 1.002  # of tied candidates within this factor, any may be taken
_LONGEST = 10.0  # seconds of two turns of two finalists: candidates that take longer are not raced
_SHORTEST = 5e-3  # seconds that a visit takes at least


@dataclass(frozen=True, slots=True)
class Rival:
    """A finalist that did not win: its record, and its result in the race.

    It has `lost` if it is slower than the winner with the confidence of the race. It is of a `heat`
    if it was not among the four that the heats left, however sure that is. Otherwise they tie.
    """

    record: Record
    raced: MeasureResult
    lost: bool
    heat: bool = False

    @property
    def ties(self) -> bool:
        """Whether it may be as fast as the winner."""
        return not self.lost and not self.heat


@dataclass(frozen=True, slots=True)
class Race:
    """How the winner was found: its rivals, and the visits of each that stayed to the end."""

    rivals: tuple[Rival, ...]
    visits: int

    @property
    def tie(self) -> bool:
        """Whether one of the rivals may be as fast as the winner."""
        return any(rival.ties for rival in self.rivals)

    @property
    def text(self) -> str:
        """The outcome: `won against 2 others (95% confidence), 8 more in heats`, or a tie.

        If the heats left only the winner, because others failed: `won against 8 others in heats`.
        """
        tied = sum(rival.ties for rival in self.rivals)
        heat = sum(rival.heat for rival in self.rivals)
        lost = len(self.rivals) - tied - heat
        if heat == len(self.rivals):
            return f"won against {count(heat, 'other')} in heats"
        others = "another" if (tied or lost) == 1 else f"{tied or lost} others"
        if tied:
            text = f"a tie with {others}" + (f", won against {lost}" if lost else "")
        else:
            text = f"won against {others} ({CONFIDENCE:.0%} confidence)"
        return f"{text}, {heat} more in heats" if heat else text

    def to_json(self, winner: float) -> dict[str, Any]:
        """The JSON object that --json prints; `winner` is the winner's time in the race."""
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
                    "heat": rival.heat,
                    "steps": steps_to_json(rival.record.steps),
                }
                for rival in self.rivals
            ],
        }


@dataclass(frozen=True, slots=True)
class Final:
    """The end of a task: its best, timed once more, and the race that it won, if there was one.

    After a race `best` is the record of the race, as it is written to the file.
    """

    best: Record
    again: Again
    race: Race | None = None


def final(task: Task, measurer: Measurer, best: Record, records: Iterable[Record]) -> Final | None:
    """Race the best of a task against those of `records` that may be as fast.

    If there are none, or calls are too long for a race, the best is timed alone. None when that
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

    At most twelve, each candidate once, with the last of its records. No candidate is skipped that
    is faster by its record. For long calls there are two, or the best alone.
    """
    ends = interval(best.result.seconds)[1]
    limit = max(ends, _NEAR * best.result.cost)
    valid = ((r.result.cost, place, r) for place, r in enumerate(records) if r.result.valid)
    some = sorted(nsmallest(4 * MOST, valid), key=lambda entry: entry[1])
    fastest = {r.steps: r for _, _, r in some}
    fastest.pop(best.steps, None)
    others = sorted(fastest.values(), key=lambda r: r.result.cost)
    call = max(best.result.cost, _SHORTEST)
    if 2 * 2 * (1 + VISITS) * call > _LONGEST:
        return [best]
    room = max(2, min(MOST, int(SECONDS / ((1 + VISITS) * call))))
    others = others[: room - 1]
    while others and interval(others[-1].result.seconds)[0] > limit:
        others.pop()
    return [best, *others]


def _race(task: Task, measurer: Measurer, field: Sequence[Record]) -> Final | None:
    """The final of several candidates; None when less than two can be run.

    The finalists that are left at the end are compared with the reference, if they were not before.
    If one is wrong, the others race again, because it may have beaten some of them.
    """
    artifacts = measurer.build(task, [record.steps for record in field])
    fit = {k: artifact for k, artifact in enumerate(artifacts) if artifact is not None}
    while len(fit) > 1:
        heats = Heats(task, measurer, fit)
        heats.run()
        if not heats.left or len(heats.raced) < 2:
            return None
        found = {k: _checked(task, measurer, field[k], fit[k]) for k in heats.left}
        fit = {k: fit[k] for k in heats.raced if found.get(k, field[k].result) is not None}
        if len(fit) == len(heats.raced):
            known = {k: found.get(k) or field[k].result for k in fit}
            return _decided(heats, field, {k: heats.result(k, r) for k, r in known.items()})
    return None


def _decided(heats: Heats, field: Sequence[Record], results: Mapping[int, MeasureResult]) -> Final:
    winner = _chosen(heats.left, {k: r.cost for k, r in results.items()}, field)
    rivals = tuple(
        Rival(field[k], result, k not in (*heats.left, *heats.out), k in heats.out)
        for k, result in results.items()
        if k != winner
    )
    race = Race(rivals, heats.visits(winner))
    again = Again(field[winner].result, results[winner])
    return Final(_record(field[winner], results[winner], race), again, race)


def _checked(
    task: Task, measurer: Measurer, record: Record, artifact: bytes
) -> MeasureResult | None:
    """The recorded result, compared with the reference if it was not; None if it is wrong."""
    if record.result.checked:
        return record.result
    seen = measurer.verified(task, artifact)
    if isinstance(seen, Failure):
        return None
    return record.result if seen is None else replace(record.result, checked=True, seen=seen)


def _chosen(left: Sequence[int], costs: Mapping[int, float], field: Sequence[Record]) -> int:
    """The winner; of those that tie, one that does not depend on how a run went.

    Of those within 0.2% of the fastest, the one with the fewest steps, then the first by its hash.
    """
    least = min(costs[k] for k in left)
    alike = [k for k in left if costs[k] <= _ALIKE * least]
    return min(alike, key=lambda k: (len(field[k].steps), candidate_hash(field[k].steps)))


def _record(found: Record, raced: MeasureResult, race: Race) -> Record:
    """The record of the race: that of the winner, with its repeats in the race."""
    entry = {
        "against": [candidate_hash(rival.record.steps) for rival in race.rivals],
        "ties": [candidate_hash(rival.record.steps) for rival in race.rivals if rival.ties],
        "confidence": CONFIDENCE,
        "found_seconds": found.result.cost,
    }
    return replace(found, result=raced, search={**found.search, "race": entry})
