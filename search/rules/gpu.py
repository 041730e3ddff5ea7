"""Sketch rules for GPUs alone."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.search.rules.common import Next, always_inlinable
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.rules.tiling import fuse_all_reductions
from autosched.search.rules.turned_tile import BANK, BANKS
from autosched.state import queries
from autosched.state.access import CONST_TENSOR_ATTR
from autosched.state.iterator import Annotation
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, tensor_loads
from autosched.tir.expr import Var
from autosched.transform.device.alignment import WIDEST

# ---- AddCacheRead


def _fetchers(context: Context, state: State, stage_id: int) -> list[int]:
    """The consumers whose threads fetch the stage together: they are tiled, over a reduction.

    Others, such as D in C = A @ B, D = C + A or the sums of A's rows, have no loop to fetch in, or
    one that each thread is in by itself: Ansor fails on them, or has no legal candidate. They go on
    reading the tensor itself. Where the first consumer is one of them, Ansor fetches for none.
    """
    found = [
        reader
        for reader in queries.consumers(state, stage_id)
        if queries.needs_multi_level_tiling(state, reader)
        and queries.has_reduce_iter(state, reader)
        and not queries.has_cross_thread_reduction(state, reader)
        and stage_id in queries.direct_producers(state, reader)
    ]
    first = queries.consumers(state, stage_id)[:1]
    return found if context.options.space == "autosched" or found[:1] == first else []


def _cache_read_condition(context: Context, state: State, stage_id: int) -> Decision:
    found = _fetchers(context, state, stage_id)
    return Decision.APPLY_AND_SKIP_REST if found else Decision.SKIP


def _cache_read(context: Context, state: State, stage_id: int) -> Next:
    """One cache for each consumer that fetches; in the space `autosched` turned ones, too."""
    readers = _fetchers(context, state, stage_id)
    found = [(_fetched(state, stage_id, readers, []), stage_id)]
    if context.options.space == "autosched":
        turned = [_summed_axes(state, stage_id, reader) for reader in readers]
        if all(turned):
            found.append((_fetched(state, stage_id, readers, turned), stage_id))
    return found


def _fetched(state: State, stage_id: int, readers: list[int], turned: list[list[int]]) -> State:
    inserted = 0
    for k, reader in enumerate(readers):
        before = len(state.stages)
        state, cache = state.cache_read(stage_id, "shared", [reader + inserted])
        if turned:
            state, cache = _turned(state, cache, turned[k])
        inserted += len(state.stages) - before
        at = queries.last_reduce_iterator_of_outermost_tile(state, reader + inserted)
        state = state.compute_at(cache, reader + inserted, at)
    return state


def _summed_axes(state: State, stage_id: int, reader: int) -> list[int]:
    """The axes of the stage along which its reader adds up, where rows are among them.

    In each step of the sum a thread has elements of several rows, which are neighbours in a turned
    tile: one access of 16 bytes has four. None where there is a window, or nothing but the sum.
    """
    op = state.stages[reader].op
    assert isinstance(op, ComputeOp)
    own = state.stages[stage_id].op
    loads = [load for body in op.body for load in tensor_loads(body) if load.producer.op is own]
    if len(loads) != 1 or not all(isinstance(index, Var) for index in loads[0].indices):
        return []
    sums = {axis.var for axis in op.reduce_axis}
    found = [k for k, index in enumerate(loads[0].indices) if index in sums]
    rows = len(loads[0].indices)
    return found if rows - 1 in found and len(found) < rows else []


def _turned(state: State, cache: int, sums: list[int]) -> tuple[State, int]:
    """The cache with the axes of the sum first. Their rows are 16 bytes longer than a multiple of
    all banks: neighbours along the sum, fetched by neighbouring threads, go to different banks."""
    iters = state.stages[cache].iters
    others = [it for k, it in enumerate(iters) if k not in sums]
    state = state.reorder(cache, [*(iters[k] for k in sums), *others])
    state, cache = state.cache_write(cache, "shared")
    state = state.compute_inline(cache + 1)
    width = state.stages[cache].op.output(0).dtype.bytes
    last = state.stages[cache].iters[len(sums) - 1]
    banks, piece = BANKS * BANK // width, WIDEST // width
    return state.storage_align(cache, last, banks, piece), cache


ADD_CACHE_READ = FunctionRule("AddCacheRead", _cache_read_condition, _cache_read)


# ---- CrossThreadReduction


def _cross_thread_condition(context: Context, state: State, stage_id: int) -> Decision:
    stage = state.stages[stage_id]
    if stage.is_placeholder or queries.has_cache_write(state, stage_id):
        return Decision.SKIP
    space, reduce = queries.cumulative_lengths(state, stage_id)
    if queries.needs_multi_level_tiling(state, stage_id):
        if space > context.hardware.max_threads_per_block:
            return Decision.SKIP
        return Decision.APPLY if space < reduce else Decision.SKIP
    if reduce > 1 and reduce > context.hardware.warp_size:
        return Decision.APPLY
    return Decision.SKIP


def _cross_thread(context: Context, state: State, stage_id: int) -> Next:
    warp = context.hardware.warp_size
    state, fused = fuse_all_reductions(state, stage_id)
    target = queries.single_consumer_id(state, stage_id)
    common = queries.num_common_outer_iterators(state, stage_id, target) if target >= 0 else 0
    if target < 0 or common == 0 or queries.needs_multi_level_tiling(state, target):
        state, pieces = state.split(stage_id, fused, [warp])
        state, _ = state.bind(stage_id, pieces[1], "threadIdx.x")
        return [(state, stage_id - 1)]
    splits = queries.split_step_ids(state, target)
    if not splits:
        split_id = len(state.steps)
        state, pieces = state.split(target, state.stages[target].iters[-1], [warp])
        state, _ = state.bind(target, pieces[1], "threadIdx.x")
        splits = [split_id]
    if len(splits) != 1:
        raise ScheduleError(f"cross-thread reduction: stage {target} is split more than once")
    state, pieces = state.follow_split(stage_id, fused, splits[0], 1)
    state, _ = state.bind(stage_id, pieces[1], "threadIdx.x")
    at = state.stages[target].iters[common - 1]
    return [(state.compute_at(stage_id, target, at), stage_id - 1)]


CROSS_THREAD_REDUCTION = FunctionRule(
    "CrossThreadReduction", _cross_thread_condition, _cross_thread
)


# ---- SpecialComputeLocationGPU


def _special_location_condition(context: Context, state: State, stage_id: int) -> Decision:
    if not queries.producers(state, stage_id) or not always_inlinable(context, state, stage_id):
        return Decision.SKIP
    readers = queries.consumers(state, stage_id)
    if len(readers) == 1 and CONST_TENSOR_ATTR in state.stages[readers[0]].op.attrs:
        return Decision.APPLY_AND_SKIP_REST
    return Decision.SKIP


def _special_location(context: Context, state: State, stage_id: int) -> Next:
    target = queries.consumers(state, stage_id)[0]
    iters = state.stages[target].iters
    first = next(
        (k for k, it in enumerate(iters) if it.annotation is Annotation.UNROLL), len(iters)
    )
    if first == 0:
        raise ScheduleError(f"stage {target} has no iterator before its unrolled ones")
    return [(state.compute_at(stage_id, target, iters[first - 1]), stage_id - 1)]


SPECIAL_COMPUTE_LOCATION_GPU = FunctionRule(
    "SpecialComputeLocationGPU", _special_location_condition, _special_location
)
