"""The table of register tiles has them in the order in which equals are preferred."""

from __future__ import annotations

import math
from itertools import product

import pytest

from autosched.features.batched.autosched_1.plans.tiles import tile_table
from autosched.nest.register_tile import TILE_LOOPS


@pytest.mark.parametrize("limit", [1, 2, 7, 15])
def test_all_tiles_that_fit_are_there_larger_inner_factors_first(limit: int) -> None:
    every = product(range(1, limit + 1), repeat=TILE_LOOPS + 1)
    tiles = [tile for tile in every if math.prod(tile) <= limit]
    tiles.sort(key=lambda tile: [-factor for factor in reversed(tile)])
    table = tile_table(limit)
    assert table.factors.T.tolist() == [list(tile) for tile in tiles]
    assert table.points.tolist() == [math.prod(tile) for tile in tiles]
    for bits, copies in enumerate(table.copies.tolist()):
        own = [[f for k, f in enumerate(tile) if bits >> k & 1] for tile in tiles]
        assert copies == list(map(math.prod, own))
