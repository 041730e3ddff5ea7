"""What moves into caches for many nests at once is what `nest.memory_walk` says of each."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.features.batched.autosched_1.plans.walk_levels import Visits
from autosched.features.batched.autosched_1.plans.walks import walks
from autosched.nest.core import Memory
from autosched.nest.memory_walk import walk
from autosched.nest.visits import Visit

COUNT, PLACES = 150, 9
EXTENTS = (1, 2, 2, 3, 4, 7, 8, 16, 25, 64)
STRIDES = (0, 0, 1, -1, 3, 16, 17, 64, 100, 256, 1024, 1025, 4096, 5000)


def _drawn(rng: np.random.Generator, accesses: int) -> Visits:
    first = rng.integers(0, PLACES, COUNT)
    there = np.arange(PLACES)[:, None] >= first
    extents = np.where(there, rng.choice(EXTENTS, (PLACES, COUNT)), 1)
    strides = np.where(there, rng.choice(STRIDES, (accesses, PLACES, COUNT)), 0)
    return Visits(extents, strides, first)


@pytest.mark.parametrize("line", [32, 48, 64, 128, 4096])
@pytest.mark.parametrize("elements", [(4,), (4, 8, 2), (256, 4)])
def test_walks_are_those_of_one_nest(line: int, elements: tuple[int, ...]) -> None:
    """With lines that have a rule of compiled code, and with others."""
    memory = Memory((2**10, 48 * 2**10, 2**20), line, (8, 100))
    visits = _drawn(np.random.default_rng(line), len(elements))
    found = walks(visits, elements, memory)
    for n in range(COUNT):
        loops = [
            Visit(int(visits.extents[k, n]), tuple(visits.strides[:, k, n].tolist()))
            for k in range(visits.first[n], PLACES)
        ]
        one = walk(tuple(loops), elements, memory)
        assert tuple(found.lines[:, n]) == one.lines
        assert tuple(found.runs[:, n]) == one.runs
        assert tuple(found.pages[:, n]) == one.pages
