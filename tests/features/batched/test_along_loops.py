"""Loop after loop as NumPy candidate after candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched.features.batched import along_loops as along


@pytest.mark.parametrize("loops", [0, 1, 5], ids="loops{}".format)
@pytest.mark.parametrize("candidates", [0, 1, 7], ids="candidates{}".format)
def test_all_are_as_numpy_has_them(loops: int, candidates: int) -> None:
    rng = np.random.default_rng(100 * loops + candidates)
    table = rng.integers(1, 9, (loops, candidates))
    flags = table > 4
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (along.sums(table), table.cumsum(axis=0)),
        (along.sums_from_last(table), table[::-1].cumsum(axis=0)[::-1]),
        (along.products(table), table.cumprod(axis=0)),
        (along.products_from_last(table), table[::-1].cumprod(axis=0)[::-1]),
        (along.marks(flags), flags.cumsum(axis=0)),
        (along.marks_from_last(flags), flags[::-1].cumsum(axis=0)[::-1]),
    ]
    for found, expected in pairs:
        assert found.shape == expected.shape and (found == expected).all()
    assert (
        table == np.random.default_rng(100 * loops + candidates).integers(1, 9, table.shape)
    ).all()


def test_each_candidate_has_entries_of_its_own() -> None:
    table = np.arange(12).reshape(3, 4)
    loops = np.array([[0, 1, 2, 0], [2, 2, 0, 1]], np.int16)
    assert (along.taken(table, loops) == np.take_along_axis(table, loops.astype(int), axis=0)).all()


def test_what_is_picked_stays_in_the_order_of_its_loops() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    for those in (np.array([3, 0, 0, 2, 1]), np.array([True, False, True, True])):
        found = along.picked(table, those)
        assert (found == table[..., those]).all() and found.flags.c_contiguous
