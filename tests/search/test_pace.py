"""Candidates go the way that took less time, at once or one by one."""

import pytest

from autosched.search.pace import Pace


@pytest.mark.parametrize(("count", "expected"), [(7, False), (8, True), (63, True), (64, True)])
def test_before_anything_is_known_all_but_very_few_go_at_once(count: int, expected: bool) -> None:
    pace = Pace()
    pace.note_one(0.001)
    assert pace.at_once(count) is expected


def told(pace: Pace, rows: int, *seconds: float) -> Pace:
    """`pace` with calls for 12 candidates that found so many rows."""
    for each in seconds:
        pace.note_at_once(12, rows, each)
    return pace


@pytest.mark.parametrize(
    ("rows", "one", "helped", "expected"),
    [
        (12, 0.011, False, True),  # 10 ms a row at once
        (12, 0.009, False, False),
        (12, 0.011, True, False),  # a second process takes its half
        (12, 0.015, True, True),
        (6, 0.015, False, False),  # half of them are left, and paid for twice
        (0, 9.0, False, False),
    ],
)
def test_few_go_the_faster_way(rows: int, one: float, helped: bool, expected: bool) -> None:
    pace = told(Pace(helped), rows, 0.12, 0.12)
    pace.note_one(one)
    assert pace.at_once(12) is expected
    assert pace.at_once(64)
    assert not pace.at_once(7)


def test_the_call_that_makes_plans_does_not_count() -> None:
    pace = told(Pace(), 12, 9.0)
    pace.note_one(0.011)
    assert pace.at_once(12)
    assert told(pace, 12, 0.12).at_once(12)


def test_calls_of_other_sizes_say_nothing() -> None:
    pace = told(Pace(), 12, 9.0, 9.0)
    pace.note_one(0.01)
    assert not pace.at_once(12)
    assert pace.at_once(50)


def test_while_none_went_one_by_one_they_go_at_once() -> None:
    assert told(Pace(), 12, 9.0, 9.0).at_once(12)
