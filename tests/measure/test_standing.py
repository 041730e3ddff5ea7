"""The best of records: the fastest, unless it lost a race."""

from typing import Any

import pytest

from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.standing import best_of, candidate_hash
from autosched.state.steps import steps_from_json

STEPS = [steps_from_json([["SP", 2, 0, 16, [k], 1]]) for k in (1, 2, 4, 8)]
NO_RACES: tuple[Any, ...] = (1, [], {}, {"against": 7})


def record(k: int, seconds: float, race: Any = None) -> Record:
    search = {} if race is None else {"race": race}
    return Record({"key": "k"}, STEPS[k], MeasureResult((seconds,)), search)


def lost(*indices: int) -> dict[str, Any]:
    return {"against": [candidate_hash(STEPS[k]) for k in indices]}


@pytest.mark.parametrize(
    ("records", "best"),
    [
        ([record(0, 2.0), record(1, 1.0)], 1),
        ([record(0, 1.0), record(1, 2.0), record(1, 2.0, lost(0))], 2),
        ([record(0, 1.0), record(1, 2.0), record(0, 1.5, lost(1))], 2),
        # A race says nothing of others, nor of what was measured later.
        ([record(0, 1.0), record(1, 2.0, lost(2))], 0),
        ([record(0, 1.0), record(1, 2.0, lost(0)), record(2, 1.9)], 2),
        ([record(0, 1.0), record(1, 2.0, lost(0)), record(2, 3.0, lost(1))], 2),
        # What is no race does not count as one.
        *(([record(0, 1.0), record(1, 2.0, race)], 0) for race in NO_RACES),
    ],
)
def test_the_best(records: list[Record], best: int) -> None:
    assert best_of(records) is records[best]


def test_failures_are_never_the_best() -> None:
    failed = Record({"key": "k"}, STEPS[0], MeasureResult((), Failure("run", "crash", "signal 11")))
    assert best_of([]) is None
    assert best_of([failed]) is None
    assert best_of([failed, slow := record(1, 2.0)]) is slow
