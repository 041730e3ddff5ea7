"""Tiles of threads and blocks that the space `autosched` draws for GPUs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.features.batched.sets import batched_features
from autosched.features.sets import ANSOR
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.search.thread_tiles import ThreadTile, fill_thread_tiles, suits
from autosched.state.steps import MatrixTilesStep, SplitStep, Step
from autosched.target import THREAD_BYTES, HardwareParams, cuda_target
from autosched.task import Task

GPU = HardwareParams.default("cuda")
TARGET = cuda_target("sm_90")


def matmul(size: int = 1024, **types: str) -> Task:
    return Task.from_workload("matmul", target=TARGET, M=size, N=size, K=size, **types)


@pytest.mark.parametrize(
    ("sizes", "width", "tile", "expected"),
    [
        ((1024, 1024), 4, ThreadTile(4, 256, 64), True),
        ((1024, 1024), 4, ThreadTile(1, 256, 256), False),  # 1,024 bytes, beyond 255 registers
        ((1024, 1024), 2, ThreadTile(1, 256, 256), True),
        ((1024, 1024), 4, ThreadTile(16, 256, 64), False),
        ((1024, 1024), 4, ThreadTile(4, 32, 64), False),  # a warp alone, of a large result
        ((256, 256), 4, ThreadTile(4, 32, 64), True),
        ((1024, 1024), 4, ThreadTile(4, 2048, 1), False),
        ((700, 700), 4, ThreadTile(1, 70, 1), False),  # 70 of 96 lanes
        ((700, 700), 4, ThreadTile(1, 125, 1), True),
        ((49, 1, 4), 4, ThreadTile(1, 49, 1), True),
        ((41, 1601), 4, ThreadTile(1, 41, 1), True),  # no divisor is better
        ((2, 8), 4, ThreadTile(1, 8, 1), False),
        ((2, 8), 4, ThreadTile(1, 16, 1), True),
    ],
)
def test_what_suits(sizes: tuple[int, ...], width: int, tile: ThreadTile, expected: bool) -> None:
    assert suits(GPU, sizes, width, tile) == expected


def lengths(steps: tuple[Step, ...]) -> list[tuple[int, ...]]:
    """Of the tiles of the result."""
    splits = [step for step in steps if isinstance(step, SplitStep) and len(step.lengths) == 4]
    return [tuple([n or 0 for n in step.lengths]) for step in splits]


@pytest.mark.parametrize("size", [1000, 1024, 4096])
def test_every_attempt_has_registers_and_warps(size: int) -> None:
    found = SearchSpace(matmul(size)).attempts(np.random.default_rng(0), 32)
    assert len(found) == 32
    for steps in found:
        tiles = lengths(steps)
        own = math.prod(n for tile in tiles for n in (tile[0], *tile[2:]))
        threads = math.prod(tile[1] for tile in tiles)
        assert own * 4 <= THREAD_BYTES
        assert 64 <= threads <= 1024
        assert threads >= 3 / 4 * 32 * math.ceil(threads / 32)


def test_ansors_space_draws_as_before() -> None:
    """Each axis by itself, with arrays beyond the registers and blocks of one warp."""
    space = SearchSpace(matmul(), SearchOptions(space="ansor"))
    rng = np.random.default_rng(0)
    (sketch,) = space.sketches
    assert fill_thread_tiles(space.context, sketch, rng) is sketch
    tiles = [lengths(steps) for steps in space.sample(np.random.default_rng(0), 64)]
    own = [math.prod(n for t in tile for n in (t[0], *t[2:])) for tile in tiles]
    assert max(own) * 4 > THREAD_BYTES
    assert min(math.prod(t[1] for t in tile) for tile in tiles) == 32


def test_products_on_tensor_cores_are_as_before() -> None:
    """Their sums are fragments, which no loop says how many there are of."""
    task = matmul(1024, dtype="bfloat16", acc_dtype="float32")
    space = SearchSpace(task)
    found = [
        steps
        for steps in space.attempts(np.random.default_rng(0), 16)
        if any(isinstance(step, MatrixTilesStep) for step in steps)
    ]
    rows = batched_features(task.dag, TARGET, ANSOR, False).rows_of(found)
    assert found and any(row is not None for row in rows)
