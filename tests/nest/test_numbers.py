"""Arithmetic on plain numbers and on arrays of them."""

import numpy as np
import pytest

from autosched.nest.numbers import largest
from kit.types import Array


def test_plain_numbers_stay_plain() -> None:
    assert largest(3, 2.5, 4) == 4
    assert type(largest(1, 2)) is int


@pytest.mark.parametrize("first", [2, np.array([1, 5, 3])])
def test_arrays_are_compared_place_by_place(first: int | Array) -> None:
    other = np.array([4, 4, 4])
    expected = [max(a, b) for a, b in zip(np.broadcast_to(first, 3), other)]
    assert np.asarray(largest(first, other)).tolist() == expected
    assert np.asarray(largest(other, first)).tolist() == expected
    assert np.asarray(largest(first, other, 5)).tolist() == [5, 5, 5]
