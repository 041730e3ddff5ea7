"""Bind the loops of a GPU candidate to blocks, virtual threads and threads.

As in Ansor, a bound candidate may still exceed what a kernel can have of threads, shared memory or
bytes of a vector access, which only lowering can tell. Lowering refuses such a candidate with a
ScheduleError (`transform/device/verify_gpu_code.py`); Ansor gives it features of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.errors import ScheduleError
from autosched.search.factors import divisors
from autosched.search.initial import Rng, one_of
from autosched.search.rules.protocol import Context
from autosched.search.thread_tiles import ThreadTile, bytes_of, sizes_of, suits, tiled_roots
from autosched.state import queries
from autosched.state.iterator import Annotation, Iterator, IterKind
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import IntImm, Var
from autosched.transform.device.alignment import WIDEST

_THREADS = (32, 64, 128, 256, 512)
"""The threads of a block for a stage without tiles."""

_VECTORS = (1, 2, 4, 8, 16)


def bind_tiles(context: Context, state: State, rng: Rng) -> State | None:
    """Bind tiled stages; None when their vthread or thread extents are out of range.

    No bounds are needed. In Ansor's space, `thread_bind` binds these stages like others.
    """
    tiled = _tiled_roots(state)
    roots = [n for n in tiled if _is_unbound_root(state, n)]
    if not all(_in_range(context, state, n, tiled[n]) for n in roots):
        return None
    if context.options.space != "ansor":  # fetches need their rows
        for stage_id in sorted(roots, reverse=True):
            state = _bind_tiled(state, stage_id)
    return state


def thread_bind(context: Context, state: State, rng: Rng) -> State | None:
    """Bind every stage that is not bound yet; all extents must be known."""
    roots = {n for n in tiled_roots(state) if _is_unbound_root(state, n)}
    for stage_id in range(len(state.stages) - 1, -1, -1):
        stage = state.stages[stage_id]
        if stage.is_placeholder or stage.is_inlined:
            continue
        if queries.has_cross_thread_reduction(state, stage_id):
            if stage.compute_at is ComputeAt.ROOT:
                state, fused = _fuse_outer_space(state, stage_id)
                state, _ = state.bind(stage_id, fused, "blockIdx.x")
        elif any(it.annotation is Annotation.THREAD_X for it in stage.iters):
            continue
        elif stage_id in roots:
            state = _bind_tiled(state, stage_id)
        elif stage.compute_at is ComputeAt.ROOT:
            state = _bind_plain(context, state, stage_id, rng)
        elif stage.compute_at is ComputeAt.ITER and stage.name.endswith(".shared"):
            state = _bind_fetch(context, state, stage_id)
    return state


def _is_unbound_root(state: State, stage_id: int) -> bool:
    stage = state.stages[stage_id]
    bound = any(it.annotation is Annotation.THREAD_X for it in stage.iters)
    reduced = queries.has_cross_thread_reduction(state, stage_id)
    return stage.compute_at is ComputeAt.ROOT and not bound and not reduced


def _tiled_roots(state: State) -> dict[int, list[int]]:
    """`tiled_roots`; ScheduleError where a tiled stage is a root itself."""
    for stage_id, stage in enumerate(state.stages):
        if stage.is_inlined or stage.compute_at is not ComputeAt.ROOT:
            continue
        if queries.needs_multi_level_tiling(state, stage_id):
            if not queries.has_cross_thread_reduction(state, stage_id):
                raise ScheduleError(
                    f"stage {stage.name} is tiled at the root without a stage to write it back"
                )
    return tiled_roots(state)


def _fuse_outer_space(state: State, stage_id: int) -> tuple[State, Iterator]:
    outer: list[Iterator] = []
    for i, it in enumerate(state.stages[stage_id].iters):
        if it.kind is IterKind.REDUCTION or it.annotation is not Annotation.NONE:
            break
        if i > 0 and state.attach_map.attached_at(stage_id, i - 1):
            break
        outer.append(it)
    if len(outer) == 1:
        return state, outer[0]
    return state.fuse(stage_id, outer)


def _bind_plain(context: Context, state: State, stage_id: int, rng: Rng) -> State:
    state, fused = _fuse_outer_space(state, stage_id)
    threads, lanes = context.hardware.warp_size, 1
    if context.options.space != "ansor":
        lanes = one_of(rng, _lanes(state, stage_id))
        most = context.hardware.max_threads_per_block
        counts = [n for n in _THREADS if n <= most] or [threads]
        if _has_inside(state, stage_id):  # or each axis of the inner stage would need a guard
            size = fused.extent_or_unknown
            whole = [n for n in counts if size % n == 0]
            counts = whole or [n for n in divisors(size) if counts[0] <= n <= counts[-1]] or counts
        threads = one_of(rng, counts)
    if lanes == 1 and fused.extent_or_unknown <= threads:
        return state.bind(stage_id, fused, "threadIdx.x")[0]
    state, pieces = state.split(stage_id, fused, [threads, lanes] if lanes > 1 else [threads])
    if lanes > 1:
        state, _ = state.vectorize(stage_id, pieces[2])
    state, _ = state.bind(stage_id, pieces[0], "blockIdx.x")
    return state.bind(stage_id, pieces[1], "threadIdx.x")[0]


def _has_inside(state: State, stage_id: int) -> bool:
    """Whether another stage is computed in the stage's loops."""
    places = map(state.attach_map.target_of, range(len(state.stages)))
    return any(place is not None and place[0] == stage_id for place in places)


def _lanes(state: State, stage_id: int) -> list[int]:
    """The vector lengths that a thread may compute with: up to 16 bytes that divide a row.

    Only 1 where loops would be inside the vector.
    """
    stage = state.stages[stage_id]
    op = stage.op
    assert isinstance(op, ComputeOp)
    extent = op.axis[-1].dom.extent if op.axis and op.axis[-1].dom else None
    inside = len(stage.iters) > 1 or state.attach_map.attached_at(stage_id, 0)
    if inside or not isinstance(extent, IntImm):
        return [1]
    types = [op.output(0).dtype, *(load.dtype for load in op.loads)]
    most = WIDEST // max(dtype.bytes for dtype in types)
    return [n for n in _VECTORS if n <= most and extent.value % n == 0]


def _memory_order(state: State, stage_id: int) -> list[int]:
    """The axes of a copy in the memory order of its source."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    axes = [axis.var for axis in op.axis]
    own = list(range(len(axes)))
    for load in op.loads:
        found = [axes.index(e) for e in load.indices if isinstance(e, Var) and e in axes]
        if sorted(found) == own:
            return found
    return own


def _fetched_lanes(state: State, stage_id: int) -> int:
    """The length of the widest vector that divides rows of the tile and of the tensor."""
    stage = state.stages[stage_id]
    assert isinstance(stage.op, ComputeOp)
    if not stage.iters:
        return 1
    lengths = (stage.iters[-1].extent_or_unknown, sizes_of(state, stage_id)[-1])
    most = WIDEST // stage.op.output(0).dtype.bytes
    return max(n for n in _VECTORS if n <= max(most, 1) and not any(k % n for k in lengths))


_LEVELS = ("blockIdx.x", "vthread", "threadIdx.x")


def _in_range(context: Context, state: State, stage_id: int, tiled: Sequence[int]) -> bool:
    """Whether a root stage has enough threads, and not too many virtual ones, for its results.

    Bounds need not be inferred: the steps say the extents of a stage at the root.
    """
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    total = 1
    for axis in op.root_iter_vars:
        assert axis.dom is not None and isinstance(axis.dom.extent, IntImm)
        total *= axis.dom.extent.value
    hardware = context.hardware
    groups = _tile_groups(state, stage_id)
    _, vthreads, threads = (math.prod(it.extent_or_unknown for it in group) for group in groups)
    if context.fits_tiles:
        inside = state.stages[stage_id].iters[sum(map(len, groups)) :]
        own = vthreads * math.prod(it.extent_or_unknown for it in inside)
        tile = ThreadTile(vthreads, threads, own)
        return bool(suits(hardware, sizes_of(state, stage_id), bytes_of(state, tiled), tile))
    enough = threads >= hardware.warp_size or total <= 2 * hardware.warp_size
    return vthreads <= hardware.max_vthread_extent and enough


def _tile_groups(state: State, stage_id: int) -> list[list[Iterator]]:
    """The iterators of a tiled stage that become blocks, virtual threads and threads."""
    stage = state.stages[stage_id]
    assert isinstance(stage.op, ComputeOp)
    rest, rank = list(stage.iters), len(stage.op.axis)
    groups = []
    for level in range(len(_LEVELS)):
        group: list[Iterator] = []
        while rest and len(group) < rank and rest[0].name.endswith(f".{level}"):
            group.append(rest.pop(0))
        groups.append(group)
    return groups


def _bind_tiled(state: State, stage_id: int) -> State:
    for thread, group in zip(_LEVELS, _tile_groups(state, stage_id), strict=True):
        state, fused = state.fuse(stage_id, group)
        state, _ = state.bind(stage_id, fused, thread)
    return state


def _bind_fetch(context: Context, state: State, stage_id: int) -> State:
    """Share a cooperative fetch among the threads of the stage it is attached to.

    Each thread copies vectors of up to 16 bytes that divide a row; in Ansor's space one element at
    a time.
    """
    place = state.attach_map.target_of(stage_id)
    assert place is not None
    for it in state.stages[place[0]].iters:
        if it.annotation is Annotation.THREAD_X:  # the sketch has bound the threads itself
            state, fused = state.fuse(stage_id, list(state.stages[stage_id].iters))
            state, pieces = state.split(stage_id, fused, [it.extent_or_unknown])
            return state.bind(stage_id, pieces[1], "threadIdx.x")[0]
    split_ids = queries.spatial_split_step_ids(state, place[0])
    lanes = 1
    if context.options.space != "ansor":
        iters, order = state.stages[stage_id].iters, _memory_order(state, stage_id)
        if order != sorted(order):
            state = state.reorder(stage_id, [iters[k] for k in order])
        else:
            lanes = _fetched_lanes(state, stage_id)
    state, fused = state.fuse(stage_id, list(state.stages[stage_id].iters))
    state, pieces = state.split(stage_id, fused, [lanes])
    state, _ = state.vectorize(stage_id, pieces[1])
    outer = state.stages[stage_id].iters[0]
    state, pieces = state.follow_fused_split(stage_id, outer, split_ids, 1, True)
    return state.bind(stage_id, pieces[1], "threadIdx.x")[0]
