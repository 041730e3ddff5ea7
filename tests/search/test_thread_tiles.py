"""Tiles of threads and blocks that the space `autosched` draws for GPUs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autosched.features.batched.sets import batched_features
from autosched.features.sets import ANSOR
from autosched.search.evolution import mutated
from autosched.search.initial import Rng
from autosched.search.options import SearchOptions
from autosched.search.population import Structures, moved_factors
from autosched.search.space import SearchSpace
from autosched.search.thread_tiles import (
    FillThreadTiles,
    Shape,
    ThreadTile,
    _Tiled,
    suited,
    suits,
)
from autosched.state.iterator import Annotation
from autosched.state.steps import AnnotationStep, MatrixTilesStep, PragmaStep, SplitStep, Step
from autosched.target import THREAD_BYTES, HardwareParams, cuda_target
from autosched.task import Task

GPU = HardwareParams.default("cuda")
TARGET = cuda_target("sm_90")


IMAGE: dict[str, Any] = {"N": 1, "H": 14, "W": 14, "CI": 8, "CO": 16, "K": 3}
IMAGE |= {"stride": 1, "padding": 1}


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


def is_neat(tiles: list[tuple[int, ...]]) -> bool:
    """Whether threads have 16 bytes of float32 in a row, eight of them side by side, and nothing
    of the sum between their elements."""
    *_, columns = tiles
    return columns[3] == 4 and columns[1] >= 8 and all(tile[2] == 1 for tile in tiles)


@pytest.mark.parametrize("size", [1024, 4096])
def test_a_third_of_large_products_is_neat(size: int) -> None:
    found = SearchSpace(matmul(size)).attempts(np.random.default_rng(0), 192)
    neat = [steps for steps in found if is_neat(lengths(steps))]
    assert 48 <= len(neat) <= 90
    bounded = 0  # all of the third, and some of the few that are so by chance
    for steps in neat:
        i, j = lengths(steps)
        (terms,) = [math.prod(n or 1 for n in s.lengths) for s in splits(steps) if is_sum(s, size)]
        own = math.prod((i[0], *i[2:], j[0], *j[2:]))
        bounded += 64 <= i[1] * j[1] <= 256 and 32 <= own <= 128 and 8 <= terms <= 32
    assert bounded >= 0.9 * len(neat)


@pytest.mark.parametrize("size", [63, 222, 333])
def test_what_has_no_neat_tiles_is_drawn_otherwise(size: int) -> None:
    """Too small, or without a divisor 4; among them one of 222, which two divides."""
    found = SearchSpace(matmul(size)).attempts(np.random.default_rng(0), 16)
    assert len(found) == 16
    assert not any(is_neat(lengths(steps)) for steps in found)


def test_ansors_space_draws_as_before() -> None:
    """Each axis by itself, with arrays beyond the registers and blocks of one warp."""
    space = SearchSpace(matmul(), SearchOptions(space="ansor"))
    rng = np.random.default_rng(0)
    (sketch,) = space.sketches
    assert FillThreadTiles()(space.context, sketch, rng) is sketch
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


@pytest.mark.parametrize("size", [700, 1024])
def test_rows_suit_as_their_tiles_do(size: int) -> None:
    """As arrays and one by one, whatever the numbers; a search moves among those that suit."""
    task = matmul(size)
    space, rng = SearchSpace(task), np.random.default_rng(5)
    structures = Structures()
    start = structures.rows(space.sample(rng, 24))
    assert suited(space.context, structures, start).all()
    wild = start.take(rng.integers(len(start), size=300))
    for _ in range(4):
        wild = moved_factors(structures, wild, rng, 64)
    found = suited(space.context, structures, wild)
    expected = []
    for steps in structures.candidates(wild):
        i, j = lengths(steps)
        v, t = (i[level] * j[level] for level in (0, 1))
        tile = ThreadTile(v, t, v * math.prod((*i[2:], *j[2:])))
        (k,) = [s.lengths for s in splits(steps) if is_sum(s, size)]
        loaded = 4 * (math.prod(i) + math.prod(j)) * math.prod(n or 1 for n in k)
        expected.append(
            suits(space.context.hardware, (size, size), 4, tile)
            and loaded * held_at_once(steps) <= space.context.shared_bytes
            and max(copied_at_once(steps)) <= 4
        )
    assert found.tolist() == expected and 5 < found.sum() < 280
    after = mutated(space.context, structures, start.take(rng.integers(24, size=300)), rng)
    assert len(after) > 250 and suited(space.context, structures, after).all()
    assert len(set(structures.candidates(after))) > 200


def test_what_quotients_of_axes_read_counts() -> None:
    shapes = {"A": (512, 1024), "B": (1024, 1024), "C": (1024, 1024)}
    text = "C[i, j] = sum(k, A[i // 2, k] * B[k, j])"
    space = SearchSpace(Task.from_expression(text, shapes, target=TARGET))
    structures, rng = Structures(), np.random.default_rng(5)
    rows = structures.rows(space.sample(rng, 24)).take(rng.integers(24, size=300))
    assert suited(space.context, structures, rows).all()
    for _ in range(4):
        rows = moved_factors(structures, rows, rng, 64)
    beyond = 0
    found = suited(space.context, structures, rows)
    for steps, suits_well in zip(structures.candidates(rows), found, strict=True):
        i, j = map(math.prod, lengths(steps))
        (k,) = [s.lengths for s in splits(steps) if s.extent == 1024 and len(s.lengths) == 2]
        of_a, of_b = (4 * n * math.prod(n or 1 for n in k) for n in (-(-i // 2), j))
        of_a, of_b = (n * held_at_once(steps) for n in (of_a, of_b))
        assert not suits_well or of_a + of_b <= space.context.shared_bytes
        beyond += of_b <= space.context.shared_bytes < of_a + of_b
    assert beyond > 5


def is_sum(step: SplitStep, size: int) -> bool:
    """Whether a split of a product is that of its terms."""
    return step.extent == size and len(step.lengths) == 2


def splits(steps: tuple[Step, ...]) -> list[SplitStep]:
    return [step for step in steps if isinstance(step, SplitStep)]


def held_at_once(steps: tuple[Step, ...]) -> int:
    """How many tiles of each operand shared memory holds."""
    pragmas = (step for step in steps if isinstance(step, PragmaStep))
    return next((step.pipeline_stages for step in pragmas if step.pipeline_stages), 1)


def copied_at_once(steps: tuple[Step, ...]) -> list[int]:
    """The lanes of each vector that a thread copies."""
    return [
        step.lengths[0] or 1
        for step, after in pairwise(steps)
        if isinstance(step, SplitStep) and len(step.lengths) == 1
        if isinstance(after, AnnotationStep) and after.annotation is Annotation.VECTORIZE
    ]


IMAGE = {"N": 1, "H": 28, "W": 28, "CI": 64, "CO": 64, "K": 3, "stride": 1, "padding": 1}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul", {"M": 500, "N": 1000, "K": 333}),
        ("conv2d_nchw_bn_relu", IMAGE),
        ("batch_matmul", {"B": 4, "M": 128, "N": 128, "K": 64}),
    ],
)
def test_most_relatives_are_legal(name: str, args: dict[str, Any]) -> None:
    """Vectors, registers and shared memory for all tiles held, of rows that have moved far."""
    task = Task.from_workload(name, target=TARGET, **args)
    space, rng = SearchSpace(task), np.random.default_rng(2)
    structures = Structures()
    rows = structures.rows(space.sample(rng, 64))
    for _ in range(8):
        rows = mutated(space.context, structures, rows, rng)
    found = batched_features(task.dag, TARGET, ANSOR, False).rows_of(structures.candidates(rows))
    assert sum(row is not None for row in found) > 0.95 * len(found)


def test_a_row_that_suits_nothing_may_move() -> None:
    """One of another space, or where no tile suits."""
    task = matmul(512)
    space, rng = SearchSpace(task), np.random.default_rng(2)
    structures = Structures()
    ansors = SearchSpace(task, SearchOptions(space="ansor")).sample(rng, 64)
    rows = structures.rows(ansors)
    stuck = rows.take(np.flatnonzero(~suited(space.context, structures, rows)))
    after = set(structures.candidates(mutated(space.context, structures, stuck, rng)))
    assert len(stuck) > 20 and len(after - set(ansors)) > 0.8 * len(stuck)


def test_all_rows_suit_where_nothing_is_tiled_by_threads() -> None:
    args: dict[str, Any] = {"M": 256, "N": 256, "K": 256}
    for task, name in (
        (Task.from_workload("matmul", **args), "autosched"),
        (Task.from_workload("matmul", target=TARGET, **args), "ansor"),
        (Task.from_workload("softmax", target=TARGET, M=256, N=256), "autosched"),
    ):
        space = SearchSpace(task, SearchOptions(space="ansor" if name == "ansor" else "autosched"))
        structures = Structures()
        rows = structures.rows(space.sample(np.random.default_rng(0), 8))
        assert suited(space.context, structures, rows).all()


def test_a_shape_that_nothing_has_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution of few channels has no fast tiles, which is found in a dozen draws."""
    tried: Counter[tuple[Shape, bool]] = Counter()
    drawn = _Tiled.drawn

    def noted(self: _Tiled, rng: Rng, shape: Shape) -> dict[int, tuple[int, ...]] | None:
        found = drawn(self, rng, shape)
        tried[shape, found is not None] += 1
        return found

    monkeypatch.setattr(_Tiled, "drawn", noted)
    small = Task.from_workload("conv2d_nchw_bn_relu", target=TARGET, **IMAGE)
    for _ in range(2):
        space = SearchSpace(small)
        tried.clear()
        assert len(space.attempts(np.random.default_rng(0), 64)) > 32
        for shape in (Shape.FAST, Shape.NEAT):
            assert 0 < tried[shape, False] <= 16 * len(space.sketches)
        assert tried[Shape.ANY, True] > 32
    tried.clear()
    SearchSpace(matmul()).attempts(np.random.default_rng(0), 64)
    assert min(tried[shape, True] for shape in Shape) > 16


def test_samples_of_a_seed_do_not_depend_on_those_before() -> None:
    """Shapes that nothing has are left out, as they are found."""
    task = Task.from_workload("conv2d_nchw_bn_relu", target=TARGET, **IMAGE)
    space, fresh = SearchSpace(task), SearchSpace(task)
    fresh.attempts(np.random.default_rng(1), 24)
    found = [each.attempts(np.random.default_rng(0), 24) for each in (space, space, fresh)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "task",
    [matmul(200), Task.from_workload("conv2d_nchw_bn_relu", target=TARGET, **IMAGE)],
    ids=["matmul", "conv2d"],
)
def test_conditions_of_structures_are_worked_out_once_each(task: Task) -> None:
    """Each size of a fetch makes a structure of its own."""
    space = SearchSpace(task)
    structures = Structures()
    rows = structures.rows(space.attempts(np.random.default_rng(0), 64))
    for _ in range(4):
        rows = moved_factors(structures, rows, np.random.default_rng(1), 64)
    found = suited(space.context, structures, rows)
    assert 0 < found.sum() < len(rows)
    assert len(structures.known) > 8
    asked = {condition for tiles in structures.tiles.values() for condition in tiles}
    assert len(asked) < len(structures.known) / 2
    for k in range(len(rows)):
        alone = Structures()
        row = alone.rows(structures.candidates(rows.take(np.array([k]))))
        assert suited(space.context, alone, row).tolist() == [found[k]]
