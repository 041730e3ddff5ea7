"""Codes of many stores at once are those of each by itself, bit for bit."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from autosched.features.autosched_1.vector_code import vector_code
from autosched.features.batched.autosched_1.plans.codes import NUMBERS, Stores, codes_of
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.windows import Unrolled, unrolled
from autosched.nest.core import Core, core_of
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.plan import ScalarStore

COUNT = 40
EXTENTS = (1, 2, 2, 3, 4, 4, 5, 7, 8, 16, 16, 25, 32, 64, 100)


def _store(rng: random.Random, depth: int, reads: int, element: int) -> ScalarStore:
    """A store with reads along its outputs, along the reduction, in windows, or all over."""
    own, row = 1, rng.choice([17, 64, 500])
    next_read = [1] * reads
    loops = []
    for _ in range(rng.randint(0, depth)):
        extent = rng.choice(EXTENTS)
        stride = own if rng.random() < 0.6 else 0
        own *= extent if stride else 1
        own += rng.choice([1, 10]) if rng.random() < 0.1 else 0
        read = tuple(rng.choice([0, 0, stride, 1, r, 2 * r, row]) for r in next_read)
        next_read = [max(1, r * extent) for r in read]
        blocks = tuple(rng.choice([0, extent // 2]) for _ in read) if rng.random() < 0.1 else ()
        lanes = rng.choice([4, 6]) if rng.random() < 0.05 else 0
        loops.append(InnerLoop(extent, stride, read, False, blocks, lanes, rng.random() < 0.05))
    rng.shuffle(loops)
    if loops and rng.random() < 0.6:
        loops[-1] = loops[-1]._replace(vector=True)
    updates, folds = rng.random() < 0.7, rng.random() < 0.7
    return ScalarStore(tuple(loops), reads, element, rng.choice([1.0, 3.0]), updates, folds)


def _window(rng: random.Random, depth: int, reads: int, element: int) -> ScalarStore:
    """A convolution, or a pooling: rows of outputs whose windows overlap."""
    channels, columns = rng.choice([1, 1, 4, 8, 16]), rng.choice([1, 2, 3, 4, 7, 8, 14, 28])
    rows, step, row = rng.choice([1, 2, 4, 7]), rng.choice([1, 1, 2]), rng.choice([30, 58, 64])
    width, height, inner = rng.choice([1, 2, 3, 5]), rng.choice([1, 3, 3]), rng.choice([1, 2, 64])
    alone = rng.random() < 0.3  # every channel by itself
    image = channels if alone else 1
    taps = width * channels
    loops = [
        InnerLoop(rows, columns * channels, (step * row * image, 0)),
        InnerLoop(columns, channels, (step * image, 0)),
        InnerLoop(inner, 0, (row * 64, height * taps)),
        InnerLoop(height, 0, (row * image, taps)),
        InnerLoop(width, 0, (image, channels)),
    ]
    lanes = InnerLoop(channels, 1, (int(alone), 1))
    if rng.random() < 0.3:
        rng.shuffle(loops)
    loops.insert(rng.choice([0, len(loops), len(loops)]), lanes)
    if rng.random() < 0.5:
        loops[-1] = loops[-1]._replace(vector=True)
    used = [loop._replace(reads=loop.reads[:reads]) for loop in loops if loop.extent > 1]
    return ScalarStore(tuple(used), reads, element, rng.choice([1.0, 3.0]), True, False)


def _blocks(loop: InnerLoop) -> tuple[int, ...]:
    return loop.blocks or (0,) * len(loop.reads)


def _stores(every: list[ScalarStore], depth: int) -> Stores:
    reads, count = every[0].reads, len(every)
    empty = InnerLoop(1, 0, (0,) * reads)
    loops = [[*store.loops, *[empty] * (depth - len(store.loops))] for store in every]
    numbers = [
        [(p.extent, p.stride, p.conditional, p.vector, p.lanes, *p.reads, *_blocks(p)) for p in own]
        for own in loops
    ]
    extent, own, conditional, vector, lanes, *read = np.array(numbers, np.int64).transpose(2, 1, 0)
    by_read = np.array(read, np.int64).reshape(2 * reads, depth, count)
    nests = Nests(
        np.arange(depth)[:, None] < [len(store.loops) for store in every],
        extent,
        own,
        conditional.astype(bool),
        lanes,
        by_read[:reads],
        by_read[reads:],
        np.ones(count, np.int64),
        np.ones(count, np.int64),
        np.zeros(count, bool),
        np.zeros((reads, count), np.int64),
        np.zeros((reads, count), bool),
    )
    flags = ([store.updates for store in every], [store.folds for store in every])
    weight = np.array([store.weight for store in every])
    marks = vector.astype(bool)
    return Stores(nests, marks, every[0].element, weight, *map(np.array, flags))


@pytest.fixture(autouse=True)
def _all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_FEW", "_FEW_REDUCTIONS"):
        monkeypatch.setattr(f"autosched.features.batched.autosched_1.plans.codes.{limit}", 0)


@pytest.mark.parametrize("seed", range(6))
def test_codes_are_those_of_one_store(seed: int) -> None:
    rng = random.Random(seed)
    depth, reads, element = rng.randint(4, 9), seed % 4, rng.choice([1, 4, 4, 8])
    core = core_of(rng.choice([16, 32, 64]))
    every = [_store(rng, depth, reads, element) for _ in range(COUNT)]
    assert _differing(every, depth, core) == []


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_one_store(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Unrolled] = []

    def noted(*args: Any) -> Unrolled:
        made.append(unrolled(*args))
        return made[-1]

    monkeypatch.setattr("autosched.features.batched.autosched_1.plans.codes.unrolled", noted)
    rng = random.Random(seed)
    reads, element, core = 1 + seed % 2, rng.choice([1, 4, 4]), core_of(rng.choice([16, 32, 64]))
    every = [_window(rng, 6, reads, element) for _ in range(COUNT)]
    assert _differing(every, 6, core) == []
    assert sum(own.where.sum() for own in made) > 3


@pytest.mark.parametrize("lanes", [16, 64])
def test_short_reductions_are_folded_as_those_of_one_store(lanes: int) -> None:
    """Their lanes come of one loop, of several, or of part of one; where there are too few none is
    asked for by itself."""
    every = [
        ScalarStore(
            (
                InnerLoop(rows, 1, (64, 0)),
                InnerLoop(outer, 0, (inner if near else 1000, inner)),
                InnerLoop(inner, 0, (1, 1)),
            ),
            2,
            4,
            1.0,
            True,
            True,
        )
        for rows, outer, inner, near in product((1, 3, 64), EXTENTS, EXTENTS, (False, True))
    ]
    assert _differing(every, 3, core_of(lanes)) == []


def _differing(every: list[ScalarStore], depth: int, core: Core) -> list[ScalarStore]:
    """Those whose code is another one when it is worked out alone."""
    reads = every[0].reads
    codes = codes_of(_stores(every, depth), core)
    differing = []
    for k, store in enumerate(every):
        one = vector_code(store, core, reads + 1)
        alike = codes.numbers[:, k].tolist() == [float(getattr(one, name)) for name in NUMBERS]
        first = codes.order.first[k]
        strides = map(tuple, codes.order.strides[:, first:, k].T.tolist())
        found = tuple(zip(codes.order.extents[first:, k].tolist(), strides, strict=True))
        if not alike or found != one.order:
            differing.append(store)
    return differing
