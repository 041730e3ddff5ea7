"""What a thread and a block of a tiled GPU candidate have to do, in the space `autosched`.

Ansor draws each axis by itself among all factorizations. Of those of a matmul of 4096 one in 40
leaves a tile that a thread has registers for, in a block of two warps or more: the others are
drawn anew by their numbers, before loops are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from autosched.search.factors import divisors, factorizations
from autosched.search.initial import Rng, pick
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import SplitStep
from autosched.target import THREAD_BYTES, HardwareParams
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import IntImm

_LEVELS = 3
"""Lengths of a split that is tiled: virtual threads, threads, elements of a thread."""
_ATTEMPTS = 400
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
    if tile.own * width > min(THREAD_BYTES, hardware.max_local_memory_per_block):
        return False
    if tile.vthreads > hardware.max_vthread_extent:
        return False
    least, whole = _wanted(sizes, hardware.warp_size, hardware.max_threads_per_block)
    return least <= tile.threads <= hardware.max_threads_per_block and (
        not whole or _full(tile.threads, hardware.warp_size)
    )


def _full(threads: int, warp: int) -> bool:
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
    """Draw the spatial lengths of tiled stages among those that suit threads.

    Where none was met the lengths stay open. In Ansor's space nothing is drawn here.
    """
    if context.options.space == "ansor":
        return state
    steps = list(state.steps)
    for root, tiled in tiled_roots(state).items():
        sizes, width = sizes_of(state, root), bytes_of(state, tiled)
        for stage_id in tiled:
            splits = _open_splits(state, stage_id)
            found = _drawn(context, list(splits.values()), sizes, width, rng)
            for k, lengths in zip(splits, found, strict=False):
                steps[k] = replace(splits[k], lengths=lengths)
    return state.with_steps(steps)


def _open_splits(state: State, stage_id: int) -> dict[int, SplitStep]:
    """The open splits of a stage's spatial axes, by step; none where some are no tiles."""
    found: dict[int, SplitStep] = {}
    for k in queries.spatial_split_step_ids(state, stage_id):
        step = state.steps[k]
        assert isinstance(step, SplitStep)
        if step.extent is None or len(step.lengths) < _LEVELS or None not in step.lengths:
            return {}
        found[k] = step
    return found


def _drawn(
    context: Context, splits: Sequence[SplitStep], sizes: tuple[int, ...], width: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The lengths of each split; an empty list where all attempts failed."""
    limit = context.options.max_innermost_split_factor
    choices = [factorizations(s.extent or 1, len(s.lengths), limit) for s in splits]
    for _ in range(_ATTEMPTS if splits else 0):
        lengths = [each[pick(rng, len(each))] for each in choices]
        vthreads = math.prod(each[0] for each in lengths)
        threads = math.prod(each[1] for each in lengths)
        own = vthreads * math.prod(n for each in lengths for n in each[2:])
        if suits(context.hardware, sizes, width, ThreadTile(vthreads, threads, own)):
            return lengths
    return []
