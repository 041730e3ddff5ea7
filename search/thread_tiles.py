"""Draw tile sizes of GPU candidates that suit threads and blocks, in the space `autosched`.

Ansor draws each axis by itself among all factorizations. Of its draws for a matmul of 4096, one in
40 has a tile that fits the registers of a thread, in a block of two warps or more. Here the others
are drawn again, by their numbers alone, before loops are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from autosched.arith import eval_bound
from autosched.search.factors import divisors, factorizations
from autosched.search.initial import Rng, pick
from autosched.search.population import Flags, Floats, Numbers, Rows, Structures, Suits
from autosched.search.rules.common import FEW_BLOCKS
from autosched.search.rules.protocol import Context
from autosched.search.structure import Structure
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import AnnotationStep, SplitStep
from autosched.target import HardwareParams
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import Expr, IntImm, ProducerLoad, Var
from autosched.tir.linear import linear
from autosched.transform.device.alignment import WIDEST

_ROUNDS, _NEAT_ROUNDS, _AT_ONCE = 24, 4, 512
"""Attempts to draw a suitable tile, attempts to draw a NEAT one, and tiles drawn in an attempt."""
_HOPELESS = 16
"""Draws after which a shape of tiles counts as impossible for a stage."""
_THREADS, _OWN, _TERMS = (64, 512), (16, 128), (4, 64)
"""Ranges of fast products: threads of a block, elements of a thread, terms of a tile in shared
memory."""
_NEAT_THREADS, _NEAT_TERMS = (64, 256), (8, 32)
"""The same ranges of the fastest large products (549 kernels of matmul 4096 on an H200, and 320
before)."""
_LEAST_OWN = 32
"""The fewest elements of a thread in a NEAT tile: with rows of four elements, fewer are not twice
as many as the operands that they need."""
_COLUMN_THREADS = 8
"""The fewest threads of a NEAT tile along the last axis: where each reads 16 bytes, eight read 128
in a row, from all banks of shared memory."""
_LARGE = 1 << 16
"""Results with more elements are computed in blocks of two warps or more: there are enough blocks
for all multiprocessors, which have room for 32 blocks and, from sm_80 on, for 48 or 64 warps."""
_FULL = 3 / 4
"""The least share of the lanes of a block's warps that work: two warps are full enough with 49
threads, and not with 40."""


class Shape(Enum):
    """The conditions that a tile meets beside the limits of the GPU: see `_Tile.suited`."""

    NEAT = auto()
    FAST = auto()
    ANY = auto()


_SHAPES = tuple(Shape)
"""The order in which shapes are tried, beginning with one that is drawn."""


class ThreadTile(NamedTuple):
    """The numbers of a tiled result, or arrays of these for many results.

    They are those of virtual threads, of threads, and of elements of a thread (`own`), which
    include its virtual threads.
    """

    vthreads: int | Numbers
    threads: int | Numbers
    own: int | Numbers


def suits(
    hardware: HardwareParams, sizes: tuple[int, ...], width: int, tile: ThreadTile
) -> bool | Flags:
    """Whether `tile` suits a result of the lengths `sizes`.

    `width` is the bytes of an element in registers.
    """
    warp, most = hardware.warp_size, hardware.max_threads_per_block
    least, whole = _wanted(sizes, warp, most)
    found = (tile.own * width <= hardware.local_memory_limit) & (
        tile.vthreads <= hardware.max_vthread_extent
    )
    found &= (least <= tile.threads) & (tile.threads <= most)
    return found & _full(tile.threads, warp) if whole else found


def _full(threads: Any, warp: int) -> Any:
    """Whether the warps of a block of `threads` are full enough; elementwise for an array."""
    return threads >= _FULL * warp * -(-threads // warp)


@lru_cache(maxsize=256)
def _wanted(sizes: tuple[int, ...], warp: int, most: int) -> tuple[int, bool]:
    """The threads that a block should have at least, and whether its warps should be full enough.

    Both are only asked for as far as divisors of `sizes` make such blocks.
    """
    counts = _counts(sizes, most)
    for least in (2 * warp, warp) if math.prod(sizes) > _LARGE else (warp,):
        enough = [n for n in counts if n >= least]
        if enough:
            return least, any(_full(n, warp) for n in enough)
    return max(counts), False


def _counts(sizes: tuple[int, ...], most: int) -> set[int]:
    """The numbers of threads, up to `most`, that are products of divisors, one of each size."""
    counts = {1}
    for size in sizes:
        counts = {n * d for n in counts for d in divisors(size) if n * d <= most}
    return counts


def has_threads(hardware: HardwareParams, sizes: tuple[int, ...], some: tuple[int, ...]) -> bool:
    """Whether divisors of `some`, a part of `sizes`, make the threads that a block should have."""
    warp, most = hardware.warp_size, hardware.max_threads_per_block
    least, whole = _wanted(sizes, warp, most)
    return any(n >= least and (_full(n, warp) or not whole) for n in _counts(some, most))


def tiled_roots(state: State) -> dict[int, list[int]]:
    """The tiled stages attached to each root stage, whose loops become blocks and threads."""
    roots: dict[int, list[int]] = {}
    for stage_id, stage in enumerate(state.stages):
        if stage.is_inlined or stage.compute_at is not ComputeAt.ITER:
            continue
        if queries.needs_multi_level_tiling(state, stage_id):
            place = state.attach_map.target_of(stage_id)
            assert place is not None
            roots.setdefault(place[0], []).append(stage_id)
    return roots


def bytes_of(state: State, stage_ids: Sequence[int]) -> int:
    """The bytes of one element of each of the stages together."""
    ops = [state.stages[k].op for k in stage_ids]
    return sum(op.output(0).dtype.bytes for op in ops if isinstance(op, ComputeOp))


def sizes_of(state: State, stage_id: int) -> tuple[int, ...]:
    """The lengths of the axes of a stage's result; 1 for a length that is not constant."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    extents = [axis.dom.extent if axis.dom else None for axis in op.axis]
    return tuple(e.value if isinstance(e, IntImm) else 1 for e in extents)


class FillThreadTiles:
    """Draws the lengths of tiled stages among those that suit threads and shared memory.

    A third of the time the lengths also meet the conditions of fast products (Shape.FAST), and
    another third those of the fastest (Shape.NEAT), if such lengths are found. A shape that a stage
    does not get in _HOPELESS draws, which do not depend on the generator, is not tried. If no
    suitable lengths are found, they stay open. In Ansor's space nothing is drawn here, or, if the
    context is `fitting`, any suitable lengths.
    """

    __name__ = "fill_thread_tiles"

    def __init__(self) -> None:
        # What is possible; the tile, too, without which the ids in its key might be used again.
        self._possible: dict[tuple[Any, ...], tuple[bool, _Tile]] = {}

    def __call__(self, context: Context, state: State, rng: Rng) -> State | None:
        """The state with these lengths."""
        if not context.fits_tiles:
            return state
        every = _SHAPES[-1:] if context.options.space == "ansor" else _SHAPES
        steps = list(state.steps)
        for root, tiled in tiled_roots(state).items():
            sizes, width = sizes_of(state, root), bytes_of(state, tiled)
            for stage_id in tiled:
                own = _tiled(context, state, stage_id, sizes, width)
                if own is None:
                    continue
                shapes = every[pick(rng, len(every)) :]
                found = next(filter(None, (self._drawn(own, rng, each) for each in shapes)), None)
                for k, lengths in found.items() if found else ():
                    step = steps[k]
                    assert isinstance(step, SplitStep)
                    steps[k] = step.with_lengths(lengths)
        return state.with_steps(steps)

    def _drawn(self, tiled: _Tiled, rng: Rng, shape: Shape) -> dict[int, tuple[int, ...]] | None:
        key = shape, tiled.tile.key
        if key not in self._possible:
            own = np.random.default_rng(0)
            found = any(tiled.drawn(own, shape) for _ in range(_HOPELESS))
            self._possible[key] = found, tiled.tile
        possible, _ = self._possible[key]
        return tiled.drawn(rng, shape) if possible else None


def _tiled(
    context: Context, state: State, stage_id: int, sizes: tuple[int, ...], width: int
) -> _Tiled | None:
    """A tiled stage and its splits; None where no split is open, or a loop is not split."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    places = queries.split_step_ids(state, stage_id)[::-1]
    splits = [step for k in places if isinstance(step := state.steps[k], SplitStep)]
    pieces = [len(step.lengths) >= queries.TILED for step in splits]
    if pieces != [True] * len(op.axis) + [False] * len(op.reduce_axis):
        return None
    if any(step.extent is None for step in splits):
        return None
    if not any(None in step.lengths for step in splits):
        return None
    widths = [len(step.lengths) for step in splits]
    firsts = np.cumsum([0, *widths]).tolist()
    columns = [range(first, first + n) for first, n in zip(firsts, widths, strict=False)]
    tile = _Tile.of(state, stage_id, columns, sizes, width)
    return _Tiled(context, places, splits, tile)


@dataclass(frozen=True)
class _Tiled:
    """A tiled stage whose lengths are to be drawn.

    `splits` are its splits and `places` the indices of their steps. The lengths of all splits stand
    side by side in the rows of numbers that `tile` judges.
    """

    context: Context
    places: Sequence[int]
    splits: Sequence[SplitStep]
    tile: _Tile

    def drawn(self, rng: Rng, shape: Shape) -> dict[int, tuple[int, ...]] | None:
        """Draw lengths by the index of the split's step; None where all attempts failed."""
        limit = self.context.options.max_innermost_split_factor
        choices = [_choices(split, limit) for split in self.splits]
        rounds = _ROUNDS
        if shape is Shape.NEAT:
            choices, rounds = self._neat(choices), _NEAT_ROUNDS
            smallest = _NEAT_THREADS[0] * _LEAST_OWN * FEW_BLOCKS
            if not all(map(len, choices)) or math.prod(self.tile.sizes) < smallest:
                return None
        for _ in range(rounds):
            drawn = [each[rng.integers(len(each), size=_AT_ONCE)] for each in choices]
            numbers = np.concatenate(drawn, axis=1)
            found = np.flatnonzero(self.tile.suited(self.context, numbers, shape))
            if found.size:
                lengths = [tuple(own[found[0]].tolist()) for own in drawn]
                return dict(zip(self.places, lengths, strict=True))
        return None

    def _neat(self, choices: Sequence[Numbers]) -> list[Numbers]:
        """The choices for NEAT tiles: but for virtual threads, a thread's elements are neighbours.

        Along the last axis of the result they are 16 bytes, of _COLUMN_THREADS threads or more.
        """
        rank = sum(len(split.lengths) >= queries.TILED for split in self.splits)
        found = list(choices)
        for k in range(rank):
            found[k] = found[k][(found[k][:, 2:-1] == 1).all(axis=1)]
        last = found[rank - 1]
        wide = (last[:, -1] * self.tile.width == WIDEST) & (last[:, 1] >= _COLUMN_THREADS)
        found[rank - 1] = last[wide]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """A tiled stage whose lengths stand in rows of numbers.

    `columns` has the columns of each split axis: for an axis of the result the virtual threads,
    threads and elements of a thread, for an axis of the sum the terms of a tile. `sizes` are the
    lengths of the root's result and `width` the bytes of an element in registers. `axes` are all
    axes of the stage and `loads` its reads of shared memory; both are empty if an axis is not
    split. `held` is the column that says how many tiles of each load are held, if there is one.
    """

    columns: Sequence[Sequence[int]]
    sizes: tuple[int, ...]
    width: int
    axes: Sequence[Var]
    loads: Sequence[ProducerLoad]
    held: int | None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for tiles that are judged alike."""
        columns = tuple(map(tuple, self.columns))
        axes, loads = tuple(map(id, self.axes)), frozenset(map(id, self.loads))
        return columns, self.sizes, self.width, axes, loads, self.held

    @staticmethod
    def of(
        state: State,
        stage_id: int,
        columns: Sequence[Sequence[int]],
        sizes: tuple[int, ...],
        width: int,
        held: int | None = None,
    ) -> _Tile:
        """Make the tile of a stage whose split axes have the columns `columns`."""
        op = state.stages[stage_id].op
        assert isinstance(op, ComputeOp)
        if len(columns) != len(op.root_iter_vars):
            return _Tile(columns, sizes, width, (), (), held)
        axes = [axis.var for axis in op.root_iter_vars]
        every = set(op.loads)
        loads = [load for load in every if load.producer.op.name.endswith(".shared")]
        return _Tile(columns, sizes, width, axes, loads, held)

    def suited(self, context: Context, numbers: Numbers, shape: Shape = Shape.ANY) -> Flags:
        """Which rows suit a GPU (`suits`) and have room for their tiles in shared memory: (rows,).

        FAST also asks for numbers of threads, elements and terms in the ranges of fast products,
        enough blocks, more than two products of a thread for each value that it loads, and tiles in
        a quarter of shared memory, so that two of each have room, and another block. NEAT has
        narrower ranges.
        """
        data = [c for c in self.columns if len(c) >= queries.TILED]
        vthreads, threads = (_product(numbers, [c[level] for c in data]) for level in (0, 1))
        inside = [[c[0], *c[2:]] if len(c) >= queries.TILED else [] for c in self.columns]
        own = _product(numbers, [k for c in inside for k in c])
        tile = ThreadTile(vthreads, threads, own)
        found = np.asarray(suits(context.hardware, self.sizes, self.width, tile))
        shaped, neat = shape is not Shape.ANY, shape is Shape.NEAT
        if shaped:
            terms = _product(
                numbers, [k for c in self.columns if len(c) < queries.TILED for k in c]
            )
            found &= _between(threads, _NEAT_THREADS if neat else _THREADS)
            found &= _between(own, _OWN)
            found &= _between(terms, _NEAT_TERMS if neat else _TERMS)
            found &= threads * own <= math.prod(self.sizes) // FEW_BLOCKS
        rows = np.flatnonzero(found)
        if not rows.size:  # most draws end here
            return found
        loaded = self._loaded(numbers[rows], self.columns)
        size = sum(load.dtype.bytes * n for load, n in zip(self.loads, loaded, strict=True))
        if self.held is not None:
            size = size * numbers[rows, self.held]
        found[rows] = (4 if shaped else 1) * size <= context.most_shared_bytes
        if shaped:
            found[rows] &= 2 * sum(self._loaded(numbers[rows], inside)) < own[rows]
        return found

    def _loaded(self, numbers: Numbers, columns: Sequence[Sequence[int]]) -> list[Floats]:
        """The elements that each load reads, if axes have as many values as their columns say."""
        each = [_product(numbers, own) for own in columns]
        lengths = dict(zip(self.axes, each, strict=False))
        found = []
        for load in self.loads:
            elements = np.ones(len(numbers))
            for index, size in zip(load.indices, load.producer.shape, strict=True):
                reach = _reach(index, lengths)
                elements *= np.minimum(reach, size.value) if isinstance(size, IntImm) else reach
            found.append(elements)
        return found


def _reach(index: Expr, lengths: Mapping[Var, Numbers]) -> Numbers | Floats:
    """The number of values from the smallest to the largest of an index, for axes of `lengths`."""
    found = np.ones((), np.int64)
    for term, factor in linear(index)[1].items():
        if not isinstance(term, Var) or term not in lengths:
            break
        found = found + abs(factor) * (lengths[term] - 1)
    else:
        return found

    @cache
    def reach(*values: int) -> float:
        bounds = {axis: (0, n - 1) for axis, n in zip(lengths, values, strict=True)}
        low, high = eval_bound(index, bounds)
        return float(high - low + 1)

    rows = zip(*(own.tolist() for own in lengths.values()), strict=True)
    return np.array([reach(*values) for values in rows])


@dataclass(frozen=True, slots=True, eq=False)
class _Fetch:
    """A vectorised copy: the column `lanes` of its vector length, and the bytes of an element."""

    lanes: int
    width: int

    @property
    def key(self) -> tuple[int, int]:
        """Equal for copies that are judged alike."""
        return self.lanes, self.width

    def suited(self, context: Context, numbers: Numbers) -> Flags:
        """Which rows have vectors that fit an instruction: (rows,)."""
        return np.asarray(numbers[:, self.lanes] * self.width <= context.hardware.vector_unit_bytes)


def suited(context: Context, structures: Structures, rows: Rows) -> Flags:
    """Which rows have tiles that suit threads (`suits`), shared memory and vectors: (rows,).

    In Ansor's space, and for CPUs, all rows do.
    """
    found = np.ones(len(rows), bool)
    if not context.is_gpu or context.options.space == "ansor":
        return found
    asked: dict[Suits, list[int]] = {}  # most structures share their conditions
    for number in np.unique(rows.structures).tolist():
        for condition in _conditions(context, structures, number):
            asked.setdefault(condition, []).append(number)
    for condition, numbers in asked.items():
        asks = np.zeros(len(structures.known), bool)
        asks[numbers] = True
        mine = np.flatnonzero(asks[rows.structures])
        found[mine] &= condition.suited(context, rows.numbers[mine])
    return found


def _conditions(context: Context, structures: Structures, number: int) -> Sequence[Suits]:
    """The conditions on rows of a structure; equal ones are the same object."""
    found = structures.tiles.get(number)
    if found is None:
        parts = _tiles(context, structures.known[number])
        found = [structures.conditions.setdefault(part.key, part) for part in parts]
        structures.tiles[number] = found
    return found


def _tiles(context: Context, structure: Structure) -> list[_Tile | _Fetch]:
    state = context.dag.state_of(structure.steps)
    splits = {split.position: split for split in structure.splits}
    first = structure.width - len(structure.pipelines)
    held = {
        queries.current_stage_id(structure.steps, k): column
        for column, k in enumerate(structure.pipelines, first)
    }
    found: list[_Tile | _Fetch] = [*_fetches(state, structure)]
    for root, tiled in tiled_roots(state).items():
        sizes, width = sizes_of(state, root), bytes_of(state, tiled)
        for stage_id in tiled:
            places = queries.split_step_ids(state, stage_id)[::-1]
            own = [splits[k] for k in places if k in splits]
            if sum(split.pieces > queries.TILED for split in own) == len(sizes):
                columns = [range(s.first + 1, s.first + s.pieces) for s in own]
                tile = _Tile.of(state, stage_id, columns, sizes, width, held.get(stage_id))
                found.append(tile)
    return found


def _fetches(state: State, structure: Structure) -> list[_Fetch]:
    """The vectorised copies: splits in two whose inner loop is vectorised."""
    found = []
    for split in structure.splits:
        step, *after = structure.steps[split.position : split.position + 2]
        assert isinstance(step, SplitStep)
        vector = AnnotationStep(step.stage_id, step.iter_id + 1, Annotation.VECTORIZE)
        if split.pieces == 2 and after == [vector]:
            width = state.stages[step.stage_id].op.output(0).dtype.bytes
            found.append(_Fetch(split.first + 1, width))
    return found


def _choices(split: SplitStep, limit: int) -> Numbers:
    """The lengths that a split may have: (choices, lengths)."""
    if None not in split.lengths:
        return np.array([split.lengths], np.int64)
    return _factorizations(split.extent or 1, len(split.lengths), limit)


@lru_cache(maxsize=256)
def _factorizations(extent: int, parts: int, limit: int) -> Numbers:
    return np.array(factorizations(extent, parts, limit), np.int64)


def _between(values: Numbers, bounds: tuple[int, int]) -> Flags:
    return (bounds[0] <= values) & (values <= bounds[1])


def _product(numbers: Numbers, columns: Sequence[int]) -> Numbers:
    """The product of `columns` in each row: (rows,)."""
    return np.asarray(numbers[:, columns].prod(axis=1))
