"""Candidates with a row for each copy of a store."""

import numpy as np

from autosched.features.batched.autosched_1.spread import Spread
from autosched.features.batched.forms import Forms


def test_rows_follow_each_other_after_that_of_no_copy() -> None:
    spread = Spread.of(np.array([2, 1, 3]))
    assert spread.owner.tolist() == [3, 0, 0, 1, 2, 2, 2]
    assert spread.rows.tolist() == [[1, 3, 4], [2, 0, 5], [0, 0, 6]]


def test_kinds_count_from_the_first_of_a_candidate() -> None:
    spread = Spread.of(np.array([2, 1, 3]))
    assert spread.by_row(np.array([1, 8, 3])).tolist() == [0, 1, 2, 8, 3, 4, 5]


def test_rows_of_a_candidate_are_refused_together_and_once() -> None:
    forms = Forms(7)
    forms.owner = Spread.of(np.array([2, 1, 3])).owner
    forms.refuse(np.array([True, False, False, False, True, True, False]), "a reason")
    forms.refuse(np.array([False, False, False, True, False, False, True]), "another")
    assert forms.bad.tolist() == [False, False, False, True, True, True, True]
    assert forms.reasons == {"a reason": 1, "another": 1}


def test_an_attempt_refuses_rows_and_no_candidates() -> None:
    forms = Forms(3)
    forms.owner = Spread.of(np.array([2])).owner
    where = np.array([False, True, False])
    _, bad = forms.attempt(lambda: forms.refuse(where, "a reason"))
    assert bad.tolist() == where.tolist() and not forms.bad.any()
