"""Different columns have different keys."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.forms import WHOLE
from autosched.features.batched.unique import different, keys_of


def test_all_small_columns_differ() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(-3, 9)] * 4)).reshape(4, -1)
    keys = keys_of(list(grid))
    for own in keys:
        assert len(np.unique(own)) == grid.shape[1]
    assert (keys[0] != keys[1]).any()


def test_powers_of_two_and_places_differ() -> None:
    powers = np.array([0, 1, 2, 4, 1 << 20, WHOLE, WHOLE << 1, 1 << 62])
    grid = np.stack(np.meshgrid(*[powers] * 5)).reshape(5, -1)
    first, which = different(keys_of(list(grid)))
    assert len(first) == grid.shape[1]
    assert (grid[:, first[which]] == grid).all()


def test_equal_columns_are_one() -> None:
    columns = np.array([[1, 2, 1, 2, 3], [5, 5, 5, 5, 5]])
    first, which = different(keys_of(list(columns)))
    assert len(first) == 3 and which[0] == which[2] and which[1] == which[3]
