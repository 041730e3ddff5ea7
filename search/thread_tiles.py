"""What a thread and a block of a tiled GPU candidate have to do, in the space `autosched`.

Ansor draws each axis by itself among all factorizations. Of those of a matmul of 4096 one in 40
leaves a tile that a thread has registers for, in a block of two warps or more: the others are
drawn anew by their numbers, before loops are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autosched.arith import eval_bound
from autosched.search.factors import divisors, factorizations
from autosched.search.initial import Rng, pick
from autosched.search.population import Numbers, Rows, Structures
from autosched.search.rules.protocol import Context
from autosched.search.structure import Split, Structure
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import AnnotationStep, SplitStep
from autosched.target import HardwareParams
from autosched.te.operations.operation import ComputeOp, tensor_loads
from autosched.tir.expr import Expr, IntImm, ProducerLoad, Var
from autosched.tir.linear import linear

_LEVELS = 3
"""Lengths of a split that is tiled: virtual threads, threads, elements of a thread."""
_ROUNDS, _AT_ONCE = 24, 512
_THREADS, _OWN, _TERMS = (64, 512), (16, 128), (4, 64)
"""Of a fast product: threads of a block, elements of a thread, terms of a tile in shared memory."""
_BLOCKS = 128
"""Fewer leave multiprocessors of a large GPU (108 of an A100, 132 of an H100) without work."""
_LARGE = 1 << 16
"""Elements of a result from which on blocks have two warps or more: there are enough of them for
all multiprocessors, which have room for 32 blocks and, from sm_80 on, for 48 or 64 warps."""
_FULL = 3 / 4
"""The least share of lanes that work: 49 threads are two warps, and 40 are too few."""


class ThreadTile(NamedTuple):
    """Numbers of a tiled result: `own` are the elements of a thread, virtual ones included."""

    vthreads: int
    threads: int
    own: int


def suits(hardware: HardwareParams, sizes: tuple[int, ...], width: int, tile: ThreadTile) -> bool:
    """Whether a result of `sizes` should be computed so, `width` bytes an element in registers."""
    if tile.own * width > hardware.local_memory_limit:
        return False
    if tile.vthreads > hardware.max_vthread_extent:
        return False
    least, whole = _wanted(sizes, hardware.warp_size, hardware.max_threads_per_block)
    return least <= tile.threads <= hardware.max_threads_per_block and (
        not whole or _full(tile.threads, hardware.warp_size)
    )


def _full(threads: Any, warp: int) -> Any:
    """Whether warps of so many threads are full enough; of an array, which ones."""
    return threads >= _FULL * warp * -(-threads // warp)


@lru_cache(maxsize=256)
def _wanted(sizes: tuple[int, ...], warp: int, most: int) -> tuple[int, bool]:
    """The threads that a block should have at least, and whether its warps should be full.

    As far as divisors of the sizes make such blocks.
    """
    counts = {1}
    for size in sizes:
        counts = {n * d for n in counts for d in divisors(size) if n * d <= most}
    for least in (2 * warp, warp) if math.prod(sizes) > _LARGE else (warp,):
        enough = [n for n in counts if n >= least]
        if enough:
            return least, any(_full(n, warp) for n in enough)
    return max(counts), False


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

    Half of the time they also have what fast products have (`_Tiled.is_shaped`). Where none was met
    the lengths stay open. In Ansor's space nothing is drawn here.
    """
    if context.options.space == "ansor":
        return state
    steps = list(state.steps)
    for root, tiled in tiled_roots(state).items():
        sizes, width = sizes_of(state, root), bytes_of(state, tiled)
        for stage_id in tiled:
            own = _tiled(context, state, stage_id, sizes, width)
            if own is None:
                continue
            shaped = pick(rng, 2) == 1
            found = (own.drawn(rng, shaped=True) if shaped else None) or own.drawn(rng)
            for k, lengths in found.items() if found else ():
                step = steps[k]
                assert isinstance(step, SplitStep)
                steps[k] = replace(step, lengths=lengths)
    return state.with_steps(steps)


def _tiled(
    context: Context, state: State, stage_id: int, sizes: tuple[int, ...], width: int
) -> _Tiled | None:
    """The stage and its open splits; None where it has others, or loops that are not split."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    places = queries.split_step_ids(state, stage_id)[::-1]
    splits = [step for k in places if isinstance(step := state.steps[k], SplitStep)]
    axes = [axis.var for axis in op.root_iter_vars]
    pieces = [len(step.lengths) >= _LEVELS for step in splits]
    if pieces != [True] * len(op.axis) + [False] * len(op.reduce_axis):
        return None
    if any(step.extent is None or None not in step.lengths for step in splits):
        return None
    loads = {load for body in op.body for load in tensor_loads(body)}
    return _Tiled(context, places, splits, axes, list(loads), sizes, width)


@dataclass(frozen=True)
class _Tiled:
    """A tiled stage: its splits by step, the axes that they split, what it loads.

    `sizes` and `width` are those of the result, in registers.
    """

    context: Context
    places: Sequence[int]
    splits: Sequence[SplitStep]
    axes: Sequence[Var]
    loads: Sequence[ProducerLoad]
    sizes: tuple[int, ...]
    width: int

    def drawn(self, rng: Rng, shaped: bool = False) -> dict[int, tuple[int, ...]] | None:
        """Lengths of each split, or None where all attempts failed."""
        limit = self.context.options.max_innermost_split_factor
        choices = [_factorizations(s.extent or 1, len(s.lengths), limit) for s in self.splits]
        hardware, data = self.context.hardware, len(self.sizes)
        blocks = math.prod(self.sizes) // _BLOCKS
        for _ in range(_ROUNDS):
            lengths = [each[rng.integers(len(each), size=_AT_ONCE)] for each in choices]
            vthreads = _product([own[:, 0] for own in lengths[:data]])
            threads = _product([own[:, 1] for own in lengths[:data]])
            elements = vthreads * _product([own[:, 2:].prod(1) for own in lengths[:data]])
            some = (elements * self.width <= hardware.local_memory_limit) & (
                vthreads <= hardware.max_vthread_extent
            )
            some &= threads <= hardware.max_threads_per_block
            if shaped:
                terms = _product([own.prod(1) for own in lengths[data:]])
                some &= _between(threads, _THREADS) & _between(elements, _OWN)
                some &= _between(terms, _TERMS) & (threads * elements <= blocks)
            for n in np.flatnonzero(some).tolist():
                tile = ThreadTile(int(vthreads[n]), int(threads[n]), int(elements[n]))
                if not suits(hardware, self.sizes, self.width, tile):
                    continue
                found = [tuple(own[n].tolist()) for own in lengths]
                if self._fits(found) and (not shaped or self._is_shaped(found, tile)):
                    return dict(zip(self.places, found, strict=True))
        return None

    def _loaded(self, lengths: Sequence[int]) -> list[int]:
        """The bytes of each operand that a tile of so many values of each axis reads."""
        bounds = {var: (0, n - 1) for var, n in zip(self.axes, lengths, strict=True)}
        found = []
        for load in self.loads:
            size = load.dtype.bytes
            for index in load.indices:
                low, high = eval_bound(index, bounds)
                size *= high - low + 1
            found.append(size)
        return found

    def _of_block(self, lengths: Sequence[tuple[int, ...]]) -> int:
        return sum(self._loaded([math.prod(own) for own in lengths]))

    def _fits(self, lengths: Sequence[tuple[int, ...]]) -> bool:
        return self._of_block(lengths) <= self.context.shared_bytes

    def _is_shaped(self, lengths: Sequence[tuple[int, ...]], tile: ThreadTile) -> bool:
        """Whether a thread computes more than two products for each value that it loads, and tiles
        take a quarter of shared memory at most: two of each have room, and another block."""
        data = len(self.sizes)
        own = [each[0] * math.prod(each[2:]) for each in lengths[:data]]
        loaded = self._loaded(own + [1] * (len(lengths) - data))
        loads = sum(size / load.dtype.bytes for size, load in zip(loaded, self.loads, strict=True))
        return 2 * loads < tile.own and 4 * self._of_block(lengths) <= self.context.shared_bytes


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A tensor that a tile reads: for each dimension the columns whose product is the length of an
    axis in a block, and by how much it moves the index."""

    width: int
    dims: list[list[tuple[list[int], int]]]

    def bytes_of(self, numbers: Numbers) -> npt.NDArray[np.int64]:
        """What a block reads, in each row."""
        found = np.full(len(numbers), self.width, np.int64)
        for axes in self.dims:
            reach = sum(step * (numbers[:, own].prod(axis=1) - 1) for own, step in axes)
            found *= 1 + reach
        return found


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a tiled stage in a row of numbers, of all axes of its result: virtual threads,
    threads, elements of a thread; its root's `sizes`, the bytes of an element in registers; what a
    tile of a block loads."""

    vthreads: list[int]
    threads: list[int]
    own: list[int]
    sizes: tuple[int, ...]
    width: int
    loads: list[_Loaded]

    def suited(self, context: Context, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """As `suits`, of each row, and whether its tiles have room in shared memory."""
        hardware = context.hardware
        vthreads, threads, own = (
            numbers[:, columns].prod(axis=1) for columns in (self.vthreads, self.threads, self.own)
        )
        warp, most = hardware.warp_size, hardware.max_threads_per_block
        least, whole = _wanted(self.sizes, warp, most)
        found = vthreads * own * self.width <= hardware.local_memory_limit
        found &= vthreads <= hardware.max_vthread_extent
        found &= (least <= threads) & (threads <= most)
        if whole:
            found &= _full(threads, warp)
        if self.loads:
            found &= sum(load.bytes_of(numbers) for load in self.loads) <= context.shared_bytes
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """The column of a vector that a thread copies at once, and the bytes of its elements."""

    lanes: int
    width: int

    def suited(self, context: Context, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Whether an instruction has room for it."""
        return np.asarray(numbers[:, self.lanes] * self.width <= context.hardware.vector_unit_bytes)


def suited(context: Context, structures: Structures, rows: Rows) -> npt.NDArray[np.bool_]:
    """Of which rows the tiles suit threads (`suits`), shared memory and vectors.

    In Ansor's space, and for CPUs, all do.
    """
    found = np.ones(len(rows), bool)
    if not context.is_gpu or context.options.space == "ansor":
        return found
    for number in np.unique(rows.structures).tolist():
        if number not in structures.tiles:
            structures.tiles[number] = _columns(context, structures.known[number])
        mine = np.flatnonzero(rows.structures == number)
        for columns in structures.tiles[number]:
            found[mine] &= columns.suited(context, rows.numbers[mine])
    return found


def _columns(context: Context, structure: Structure) -> list[_Columns | _Fetch]:
    state = context.dag.state_of(structure.steps)
    splits = {split.position: split for split in structure.splits}
    found: list[_Columns | _Fetch] = [*_fetches(state, structure)]
    for root, tiled in tiled_roots(state).items():
        sizes, width = sizes_of(state, root), bytes_of(state, tiled)
        for stage_id in tiled:
            own = [splits[k] for k in queries.split_step_ids(state, stage_id) if k in splits]
            data = [split for split in own if split.pieces > _LEVELS]
            if len(data) != len(sizes):
                continue
            vthreads, threads = ([split.first + level for split in data] for level in (1, 2))
            inside = [k for s in data for k in range(s.first + _LEVELS, s.first + s.pieces)]
            loads = _loads(state, stage_id, own[::-1])
            found.append(_Columns(vthreads, threads, inside, sizes, width, loads))
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


def _loads(state: State, stage_id: int, splits: Sequence[Split]) -> list[_Loaded]:
    """What a tile of the stage reads, by sums of its axes; none unless every axis is split."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    axes = [axis.var for axis in op.root_iter_vars]
    if len(axes) != len(splits):
        return []
    inside: dict[Expr, list[int]] = {
        var: list(range(s.first + 1, s.first + s.pieces))
        for var, s in zip(axes, splits, strict=True)
    }
    found = []
    for load in {load for body in op.body for load in tensor_loads(body)}:
        terms = [linear(index)[1] for index in load.indices]
        if all(term in inside for each in terms for term in each):
            dims = [[(inside[t], abs(c)) for t, c in each.items()] for each in terms]
            found.append(_Loaded(load.dtype.bytes, dims))
    return found


@lru_cache(maxsize=256)
def _factorizations(extent: int, parts: int, limit: int) -> npt.NDArray[np.int64]:
    return np.array(factorizations(extent, parts, limit), np.int64)


def _between(values: npt.NDArray[np.int64], bounds: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return (bounds[0] <= values) & (values <= bounds[1])


def _product(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    found = columns[0]
    for column in columns[1:]:
        found = found * column
    return found
