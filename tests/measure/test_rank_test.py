"""Wilcoxon's signed-rank test against counting and tables."""

from itertools import product

import numpy as np
import pytest

from autosched.measure.rank_test import signed_rank


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 5), (1, 1, 2, 2, 3, 7), (2, 2, 2, 2)])
def test_the_p_value_counts_choices_of_signs(sizes: tuple[int, ...]) -> None:
    ordered = np.sort(sizes)
    first, last = np.searchsorted(ordered, sizes), np.searchsorted(ordered, sizes, "right")
    ranks = (first + last + 1) / 2
    sums = np.array([ranks[np.array(up)].sum() for up in product((False, True), repeat=len(sizes))])
    for signs in product((-1, 1), repeat=len(sizes)):
        up = ranks[np.array(signs) > 0].sum()
        both = 2 * min((sums <= up).mean(), (sums >= up).mean())
        found = signed_rank([a * b for a, b in zip(signs, sizes, strict=True)])
        assert found == pytest.approx(min(1.0, both))


def test_differences_of_zero_say_nothing() -> None:
    assert signed_rank([]) == signed_rank([0.0, 0.0]) == 1.0
    assert signed_rank([0.0, 1.0, 2.0, 3.0]) == signed_rank([1.0, 2.0, 3.0])


def test_equal_things_are_told_apart_no_more_often_than_the_level_allows() -> None:
    draws = np.random.default_rng(0).standard_cauchy(size=(500, 24))
    assert sum(signed_rank(row) <= 0.05 for row in draws.tolist()) <= 0.05 * 500
