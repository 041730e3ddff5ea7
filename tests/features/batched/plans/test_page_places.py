"""Which lines of a page are touched: many at once as one by one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from autosched.features.batched.autosched_1.plans.page_places import Places
from autosched.nest.core import PAGE
from autosched.nest.memory_walk import touched_again

STRIDES = (1, 4, 60, 64, 100, 128, 192, 1000, 2048, 4096, 4100, 12288)


def _lines(run: int, loops: list[tuple[int, int]], slots: int) -> int:
    places = (1 << min(run, slots)) - 1
    for stride, times in loops:
        apart = min(times, PAGE // math.gcd(stride, PAGE))
        places = touched_again(places, stride, apart, slots)
    return places.bit_count()


@pytest.mark.parametrize("slots", [1, 32, 40, 64, 128], ids="slots{}".format)
@pytest.mark.parametrize("count", [3, 400], ids="sets{}".format)
def test_lines_are_those_of_each_by_itself(slots: int, count: int) -> None:
    rng = random.Random(slots + count)
    runs = [rng.choice([1, 1, 2, 5, 17, slots, 2 * slots]) for _ in range(count)]
    loops: list[list[tuple[int, int]]] = [[] for _ in runs]
    places = Places(slots, np.array(runs))
    for _ in range(3):
        those = sorted(rng.sample(range(count), count // 2 + 1))
        each = [(rng.choice(STRIDES), rng.choice([1, 2, 3, 7, 64, 5000])) for _ in those]
        for k, loop in zip(those, each, strict=True):
            loops[k].append(loop)
        stride, times = (np.array(own) for own in zip(*each, strict=True))
        places.spread(np.array(those), stride, times)
    assert places.room().tolist() == [
        _lines(run, own, slots) for run, own in zip(runs, loops, strict=True)
    ]
