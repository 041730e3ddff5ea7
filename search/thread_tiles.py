"""What a thread and a block of a tiled GPU candidate have to do, in the space `autosched`.

Ansor draws each axis by itself among all factorizations. Of those of a matmul of 4096 one in 40
leaves a tile that a thread has registers for, in a block of two warps or more: the others are
drawn anew by their numbers, before loops are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from autosched.arith import eval_bound
from autosched.search.factors import divisors, factorizations
from autosched.search.initial import Rng, pick
from autosched.search.population import Flags, Floats, Numbers, Rows, Structures
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
"""Attempts to draw a tile that suits, for NEAT ones, and the tiles of an attempt."""
_THREADS, _OWN, _TERMS = (64, 512), (16, 128), (4, 64)
"""Of a fast product: threads of a block, elements of a thread, terms of a tile in shared memory."""
_NEAT_THREADS, _NEAT_TERMS = (64, 256), (8, 32)
"""Of the fastest large ones (549 of matmul 4096 on an H200 and 320 before)."""
_LEAST_OWN = 32
"""With rows of four elements, fewer are not twice as many as the values that they need."""
_COLUMN_THREADS = 8
"""Which read 128 bytes in a row, all banks of shared memory, where each reads 16."""
_LARGE = 1 << 16
"""Elements of a result from which on blocks have two warps or more: there are enough of them for
all multiprocessors, which have room for 32 blocks and, from sm_80 on, for 48 or 64 warps."""
_FULL = 3 / 4
"""The least share of lanes that work: 49 threads are two warps, and 40 are too few."""


class Shape(Enum):
    """What a tile is to have beside room: see `_Tile.suited`."""

    NEAT = auto()
    FAST = auto()
    ANY = auto()


_SHAPES = tuple(Shape)
"""Which are tried one after the other, from the one on that is drawn."""


class ThreadTile(NamedTuple):
    """Numbers of a tiled result, or of many, in arrays: `own` are the elements of a thread, virtual
    ones included."""

    vthreads: int | Numbers
    threads: int | Numbers
    own: int | Numbers


def suits(
    hardware: HardwareParams, sizes: tuple[int, ...], width: int, tile: ThreadTile
) -> bool | Flags:
    """Whether a result of `sizes` should be computed so, `width` bytes an element in registers."""
    warp, most = hardware.warp_size, hardware.max_threads_per_block
    least, whole = _wanted(sizes, warp, most)
    found = (tile.own * width <= hardware.local_memory_limit) & (
        tile.vthreads <= hardware.max_vthread_extent
    )
    found &= (least <= tile.threads) & (tile.threads <= most)
    return found & _full(tile.threads, warp) if whole else found


def _full(threads: Any, warp: int) -> Any:
    """Whether warps of so many threads are full enough; of an array, which ones."""
    return threads >= _FULL * warp * -(-threads // warp)


@lru_cache(maxsize=256)
def _wanted(sizes: tuple[int, ...], warp: int, most: int) -> tuple[int, bool]:
    """The threads that a block should have at least, and whether its warps should be full.

    As far as divisors of the sizes make such blocks.
    """
    counts = _counts(sizes, most)
    for least in (2 * warp, warp) if math.prod(sizes) > _LARGE else (warp,):
        enough = [n for n in counts if n >= least]
        if enough:
            return least, any(_full(n, warp) for n in enough)
    return max(counts), False


def _counts(sizes: tuple[int, ...], most: int) -> set[int]:
    """How many threads divisors of the sizes make, up to `most`."""
    counts = {1}
    for size in sizes:
        counts = {n * d for n in counts for d in divisors(size) if n * d <= most}
    return counts


def has_threads(hardware: HardwareParams, sizes: tuple[int, ...], some: tuple[int, ...]) -> bool:
    """Whether a part of the sizes, `some`, makes the threads that a result of all should have."""
    warp, most = hardware.warp_size, hardware.max_threads_per_block
    least, whole = _wanted(sizes, warp, most)
    return any(n >= least and (_full(n, warp) or not whole) for n in _counts(some, most))


def tiled_roots(state: State) -> dict[int, list[int]]:
    """The tiled stages that are attached to each root; its loops are what blocks and threads do."""
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
    """The bytes that the stages have for an element of each."""
    ops = [state.stages[k].op for k in stage_ids]
    return sum(op.output(0).dtype.bytes for op in ops if isinstance(op, ComputeOp))


def sizes_of(state: State, stage_id: int) -> tuple[int, ...]:
    """The lengths of the axes of a stage's result."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    extents = [axis.dom.extent if axis.dom else None for axis in op.axis]
    return tuple(e.value if isinstance(e, IntImm) else 1 for e in extents)


def fill_thread_tiles(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the lengths of tiled stages among those that suit threads and shared memory.

    A third of the time they also have what fast products have, and another third what the fastest
    have (`_Tile.suited`), if there are such. Where none was met the lengths stay open. In Ansor's
    space nothing is drawn here, or, if they are to be `fitting`, any of those that suit.
    """
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
            found = next(filter(None, (own.drawn(rng, shape) for shape in shapes)), None)
            for k, lengths in found.items() if found else ():
                step = steps[k]
                assert isinstance(step, SplitStep)
                steps[k] = replace(step, lengths=lengths)
    return state.with_steps(steps)


def _tiled(
    context: Context, state: State, stage_id: int, sizes: tuple[int, ...], width: int
) -> _Tiled | None:
    """The stage and its splits; None where none is open, or loops are not split."""
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
    """A tiled stage and its splits by step, whose lengths stand side by side in rows of numbers."""

    context: Context
    places: Sequence[int]
    splits: Sequence[SplitStep]
    tile: _Tile

    def drawn(self, rng: Rng, shape: Shape) -> dict[int, tuple[int, ...]] | None:
        """Lengths of each split, or None where all attempts failed."""
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
        """Those in which a thread's elements lie beside one another but for virtual threads: of the
        last axis of the result 16 bytes, of eight threads or more."""
        rank = sum(len(split.lengths) >= queries.TILED for split in self.splits)
        found = list(choices)
        for k in range(rank):
            found[k] = found[k][(found[k][:, 2:-1] == 1).all(axis=1)]
        last = found[rank - 1]
        wide = (last[:, -1] * self.tile.width == WIDEST) & (last[:, 1] >= _COLUMN_THREADS)
        found[rank - 1] = last[wide]
        return found


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tiled stage whose lengths stand in rows of numbers.

    `columns` are those of each axis that is split: of an axis of the result virtual threads,
    threads, elements of a thread; of a sum the terms of a tile. `sizes` and `width` are those of
    the root, in registers. `axes` are all axes of the stage and `loads` what it reads of shared
    memory; none where one is not split. `held` is the column of how many tiles of each load it
    holds.
    """

    columns: Sequence[Sequence[int]]
    sizes: tuple[int, ...]
    width: int
    axes: Sequence[Var]
    loads: Sequence[ProducerLoad]
    held: int | None

    @staticmethod
    def of(
        state: State,
        stage_id: int,
        columns: Sequence[Sequence[int]],
        sizes: tuple[int, ...],
        width: int,
        held: int | None = None,
    ) -> _Tile:
        """Of the stage, whose split axes have these columns."""
        op = state.stages[stage_id].op
        assert isinstance(op, ComputeOp)
        if len(columns) != len(op.root_iter_vars):
            return _Tile(columns, sizes, width, (), (), held)
        axes = [axis.var for axis in op.root_iter_vars]
        every = set(op.loads)
        loads = [load for load in every if load.producer.op.name.endswith(".shared")]
        return _Tile(columns, sizes, width, axes, loads, held)

    def suited(self, context: Context, numbers: Numbers, shape: Shape = Shape.ANY) -> Flags:
        """As `suits`, of each row, and whether its tiles have room in shared memory.

        FAST has what fast products have, too: threads, elements and terms of a certain number,
        blocks enough, more than two products of a thread for each value that it loads, and tiles in
        a quarter of shared memory: two of each have room, and another block. For NEAT bounds are
        closer.
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
        """The elements of each load for as many values of the axes as the columns say."""
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
    """How far apart the ends of an index are, both included, for so many values of its axes."""
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


@dataclass(frozen=True, slots=True)
class _Fetch:
    """The column of a vector that a thread copies at once, and the bytes of its elements."""

    lanes: int
    width: int

    def suited(self, context: Context, numbers: Numbers) -> Flags:
        """Whether an instruction has room for it."""
        return np.asarray(numbers[:, self.lanes] * self.width <= context.hardware.vector_unit_bytes)


def suited(context: Context, structures: Structures, rows: Rows) -> Flags:
    """Of which rows the tiles suit threads (`suits`), shared memory and vectors.

    In Ansor's space, and for CPUs, all do.
    """
    found = np.ones(len(rows), bool)
    if not context.is_gpu or context.options.space == "ansor":
        return found
    for number in np.unique(rows.structures).tolist():
        if number not in structures.tiles:
            structures.tiles[number] = _tiles(context, structures.known[number])
        mine = np.flatnonzero(rows.structures == number)
        for part in structures.tiles[number]:
            found[mine] &= part.suited(context, rows.numbers[mine])
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
    """The splits of loops that threads share whose inner loop is a vector."""
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
    """What the lengths of a split may be."""
    if None not in split.lengths:
        return np.array([split.lengths], np.int64)
    return _factorizations(split.extent or 1, len(split.lengths), limit)


@lru_cache(maxsize=256)
def _factorizations(extent: int, parts: int, limit: int) -> Numbers:
    return np.array(factorizations(extent, parts, limit), np.int64)


def _between(values: Numbers, bounds: tuple[int, int]) -> Flags:
    return (bounds[0] <= values) & (values <= bounds[1])


def _product(numbers: Numbers, columns: Sequence[int]) -> Numbers:
    """The product of some columns, in each row."""
    return np.asarray(numbers[:, columns].prod(axis=1))
