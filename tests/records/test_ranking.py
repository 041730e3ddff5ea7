"""The ranks of candidates: those of the definition, whatever was raced."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.measure.records import Record
from autosched.measure.standing import best_of
from autosched.records.ranking import Ranking
from kit.records import drawn, record


def by_definition(records: Sequence[Record], most: int) -> list[Record]:
    """The best, then the best of the records without its candidate, and so on."""
    found: list[Record] = []
    rest = list(records)
    while (best := best_of(rest)) is not None and len(found) < most:
        found.append(best)
        rest = [each for each in rest if each.steps != best.steps]
    return found


@pytest.mark.parametrize("most", [1, 2, 5])
def test_ranks_are_those_of_the_definition(most: int) -> None:
    for seed in range(100):
        records = drawn(seed)
        ranking = Ranking(most)
        for number, each in enumerate(records):
            ranking.add(each, Path("x"), number, number)
        found = [place.record for place in ranking.ranked()]
        expected = by_definition(records, most)
        assert list(map(id, found)) == list(map(id, expected)), seed


def test_only_the_best_are_kept() -> None:
    ranking = Ranking(3)
    for number in range(300):
        ranking.add(record(number % 5, (300 - number) * 1e-3), Path("x"), number, number)
    assert [place.index for place in ranking.ranked()] == [299, 298, 297]
    (stretch,) = ranking._stretches
    assert len(stretch.fastest) == 3 and len(stretch.heap) < 20
