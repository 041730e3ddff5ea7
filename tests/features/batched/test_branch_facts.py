"""What conditions on loops around a copy say inside of their branches."""

from __future__ import annotations

import pytest

from autosched.features.batched.autosched_1.border_trees import (
    Axis,
    Border,
    Digit,
    Limit,
    NoRuleError,
    Test,
)
from autosched.features.batched.autosched_1.branch_facts import Known, known_at_first

_OWN = Digit(0, 1, 0, 1)
"""Of the first axis; the second has none."""
_NONE = frozenset[int]()


def _known(*axes: tuple[Digit, ...], simplified: bool = True, tile: int = 56) -> Known:
    """Of axes that digits of two loops around make up; the copy's own loop is in the first, too."""
    every = tuple([Axis((*[_OWN][k:], *own), 0, 1, None) for k, own in enumerate(axes)])
    return known_at_first(Border((6, tile, 3), (0,), every, (), True, False), simplified)


def _at_least(limit: int, axis: int = 0) -> Test:
    return (Limit(axis, False, limit, _NONE),)


def test_the_share_of_a_branch_counts_iterations() -> None:
    known = _known((Digit(1, 1, 4, 14),))
    assert known.where(_at_least(1), True).share() == 0.75
    assert known.where(_at_least(15), False).share() == 0.5
    both = (Limit(0, False, 1, _NONE), Limit(0, True, 30, _NONE))
    assert known.where(both, True).share() == 0.5


def test_a_quotient_that_is_0_goes_and_remainders_below_it() -> None:
    known = _known((Digit(1, 14, 0, 4),), (Digit(1, 1, 14, 3),))
    outside = known.where(_at_least(1), False)
    assert outside.changes
    assert outside.digits(0) == (_OWN,)
    assert outside.digits(1) == (Digit(1, 1, 0, 3),)
    assert known.where(_at_least(1), True).digits(1) == known.digits(1)


@pytest.mark.parametrize("digit", [Digit(1, 1, 0, 4), Digit(1, 1, 14, 4)])
def test_variables_and_remainders_stay(digit: Digit) -> None:
    assert not _known((digit,)).where(_at_least(1), False).changes


def test_nothing_goes_where_nothing_is_simplified() -> None:
    known = _known((Digit(1, 14, 0, 4),), simplified=False)
    assert not known.where(_at_least(1), False).changes
    assert known.left_of(_at_least(0)) == _at_least(0)


def test_tests_that_always_or_never_hold_are_gone() -> None:
    known = _known((Digit(1, 14, 0, 4),))
    assert known.left_of(_at_least(0)) is True
    assert known.left_of(_at_least(13)) is False
    between = (Limit(0, False, 5, _NONE), Limit(0, True, 7, _NONE))
    assert known.left_of(between) is False
    assert known.left_of(_at_least(5)) == _at_least(5)


def test_a_fact_whose_text_changes_later_has_no_rule() -> None:
    known = _known((Digit(1, 7, 14, 4),), (Digit(1, 14, 0, 3),))
    with pytest.raises(NoRuleError):
        known.where(_at_least(1), False).where(_at_least(1, axis=1), False)


def test_sums_that_may_lose_digits_have_no_rule() -> None:
    known = _known((Digit(1, 14, 0, 2), Digit(2, 1, 0, 1)))
    with pytest.raises(NoRuleError):
        known.left_of(_at_least(2))
    assert known.left_of(_at_least(3)) == _at_least(3)


def test_digits_that_depend_on_each_other_have_no_rule() -> None:
    with pytest.raises(NoRuleError):
        _known((Digit(1, 4, 0, 1),), (Digit(1, 1, 8, 1),))
    with pytest.raises(NoRuleError):
        _known((Digit(1, 5, 0, 1),))
