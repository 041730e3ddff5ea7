"""Pairwise rank accuracy and top-8 recall of predictions."""

from collections.abc import Sequence
from math import inf

from autosched.search.ranking_quality import Quality, prediction_quality


def quality_of(scores: Sequence[float | None], costs: Sequence[float]) -> Quality:
    found = prediction_quality(scores, costs)
    assert found is not None
    return found


def test_a_perfect_order() -> None:
    found = quality_of([3.0, 2.0, 1.0], [0.1, 0.2, 0.3])
    assert (found.rank_accuracy, found.top8_recall, found.candidates) == (1.0, 1.0, 3)


def test_a_reversed_order() -> None:
    costs = [float(k) for k in range(1, 17)]
    found = quality_of(costs, costs)
    assert (found.rank_accuracy, found.top8_recall) == (0.0, 0.0)


def test_ties_count_half_and_failures_are_slowest() -> None:
    assert quality_of([1.0, 1.0], [0.1, inf]).rank_accuracy == 0.5
    assert quality_of([2.0, 1.0], [0.1, inf]).rank_accuracy == 1.0


def test_random_picks_do_not_count() -> None:
    assert quality_of([None, 1.0, 2.0], [0.1, 0.3, 0.2]).candidates == 2


def test_nothing_to_compare() -> None:
    assert prediction_quality([None, 1.0], [0.1, 0.2]) is None
    assert prediction_quality([1.0, 2.0], [0.1, 0.1]) is None
