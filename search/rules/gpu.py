"""Sketch rules for GPUs only."""

from __future__ import annotations

import math

from autosched.errors import ScheduleError
from autosched.search.rules.common import always_inlinable
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import fuse_reductions
from autosched.state import queries
from autosched.state.iterator import Annotation, Iterator
from autosched.state.state import State
from autosched.te.operations.operation import CONST_TENSOR_ATTR, ComputeOp
from autosched.tir.expr import Expr, IntImm, Mul, ProducerLoad, Reduce, Var
from autosched.tir.gpu import BANK, BANKS
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars, pre_order
from autosched.transform.device.alignment import WIDEST

# ---- AddCacheRead


def _fetchers(context: Context, state: State, stage_id: int) -> list[int]:
    """The consumers that fetch the stage to shared memory, by all threads of a block.

    They are tiled reductions. Other consumers, such as D in C = A @ B, D = C + A or the sums of A's
    rows, have no loop to fetch in, or only one that each thread runs by itself: Ansor fails on
    them, or has no legal candidate. They go on reading the tensor itself, as do consumers that
    would fetch a table too large for shared memory. If the first consumer does not fetch, none does
    in Ansor's space. In the space `autosched`, a consumer that reads the stage in two roles does
    not fetch: for A[i, k] * A[j, k] it would fetch all rows between those of i and of j.
    """
    as_ansor = context.options.space == "ansor"
    found = [
        reader
        for reader in queries.consumers(state, stage_id)
        if queries.needs_multi_level_tiling(state, reader)
        and queries.has_reduce_iter(state, reader)
        and not queries.has_cross_thread_reduction(state, reader)
        and stage_id in queries.direct_producers(state, reader)
        and _looked_up_bytes(state, stage_id, reader) <= context.most_shared_bytes
        and (as_ansor or not queries.reads_in_two_roles(state, reader, stage_id))
    ]
    first = queries.consumers(state, stage_id)[:1]
    return found if not as_ansor or found[:1] == first else []


def _looked_up_bytes(state: State, stage_id: int, reader: int) -> int:
    """The least bytes of the stage that a block of the reader fetches.

    A block fetches whole axes whose index is data or a product of axes, as in T[I[n], k] and
    A[i * j]. 0 if there is no such axis.
    """
    op, source = state.stages[reader].op, state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    table = source.output(0)
    loads = [load for load in op.loads if load.producer.op is source]
    whole = [
        size.value
        for k, size in enumerate(table.shape)
        if any(_goes_anywhere(load.indices[k]) for load in loads) and isinstance(size, IntImm)
    ]
    return math.prod(whole) * table.dtype.bytes if whole else 0


def _goes_anywhere(index: Expr) -> bool:
    """Whether the bounds of the axes give an index no constant bounds: it has data or a product."""
    return any(
        isinstance(e, ProducerLoad)
        or (isinstance(e, Mul) and bool(free_vars(e.a)) and bool(free_vars(e.b)))
        for e in pre_order(index)
    )


def _cache_read_condition(context: Context, state: State, stage_id: int) -> Decision:
    found = _fetchers(context, state, stage_id)
    return Decision.APPLY_AND_SKIP_REST if found else Decision.SKIP


def _cache_read(context: Context, state: State, stage_id: int) -> Next:
    """Make one cache for each consumer that fetches.

    In the space `autosched` a second sketch has turned (transposed) caches.
    """
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
    """The axes of the stage along which its reader sums, if the last axis is one; else empty.

    In each step of the sum a thread reads elements of several rows. They are neighbours in a turned
    tile, where one access of 16 bytes reads four. Empty where an index is a window, or all axes are
    summed.
    """
    op = state.stages[reader].op
    assert isinstance(op, ComputeOp)
    own = state.stages[stage_id].op
    loads = [load for load in op.loads if load.producer.op is own]
    if len(loads) != 1:
        return []
    indices = [_within_slice(index, op) for index in loads[0].indices]
    if not all(isinstance(index, Var) for index in indices):
        return []
    sums = {axis.var for axis in op.reduce_axis}
    found = [k for k, index in enumerate(indices) if index in sums]
    rows = len(indices)
    return found if rows - 1 in found and len(found) < rows else []


def _within_slice(index: Expr, op: ComputeOp) -> Expr:
    """The place of a term in its slice; any other index as it is.

    The index of a term is `slice * length + term` in a stage that sums slices (SliceProduct).
    """
    terms = linear(index)[1]
    for axis in op.reduce_axis if ".rf" in op.name and len(terms) == 2 else ():
        assert axis.dom is not None and isinstance(axis.dom.extent, IntImm)
        if terms.get(axis.var) == 1 and terms.get(op.axis[0].var) == axis.dom.extent.value:
            return axis.var
    return index


def _turned(state: State, cache: int, sums: list[int]) -> tuple[State, int]:
    """Turn the cache: the axes `sums` come first.

    Its rows are 16 bytes longer than a multiple of all banks: neighbours along the sum, fetched by
    neighbouring threads, go to different banks.
    """
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

_WARPS_OF_A_SUM = (4, 8)
_LEAST_TERMS = 4
"""The fewest terms of each thread where several warps share a sum."""


def _cross_thread_condition(context: Context, state: State, stage_id: int) -> Decision:
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or queries.has_cache_write(state, stage_id):
        return Decision.SKIP
    if any(isinstance(e, Reduce) and e.init for e in op.body):
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
    state, fused = fuse_reductions(state, stage_id, as_ansor=context.options.space == "ansor")
    target = queries.single_consumer_id(state, stage_id)
    common = queries.num_common_outer_iterators(state, stage_id, target) if target >= 0 else 0
    if context.options.space != "ansor" and target >= 0 and _is_of_a_tile(state, target):
        target = -1
    if target < 0 or common == 0 or queries.needs_multi_level_tiling(state, target):
        return [
            (_by_threads(state, stage_id, fused, threads), stage_id - 1)
            for threads in _threads_of_a_sum(context, state, stage_id)
        ]
    if queries.split_step_ids(state, target):
        return [(_beside(state, stage_id, fused, target, common), stage_id - 1)]
    last = state.stages[target].iters[-1]
    return [
        (
            _beside(_by_threads(state, target, last, threads), stage_id, fused, target, common),
            stage_id - 1,
        )
        for threads in _threads_of_a_sum(context, state, stage_id)
    ]


def _is_of_a_tile(state: State, stage_id: int) -> bool:
    """Whether the threads of a tile compute the stage: it is a fetch, or has a product inside."""
    if state.stages[stage_id].name.endswith(".shared"):
        return True
    inside = (k for k in range(len(state.stages)) if queries.needs_multi_level_tiling(state, k))
    places = (state.attach_map.target_of(k) for k in inside)
    return any(place is not None and place[0] == stage_id for place in places)


def _threads_of_a_sum(context: Context, state: State, stage_id: int) -> list[int]:
    """The numbers of threads that may share the terms of a sum.

    A warp, as in Ansor; in the space `autosched` also four or eight warps, if each thread has four
    terms or more. All sums of a candidate have the same number.
    """
    hardware = context.hardware
    warp = hardware.warp_size
    if context.options.space == "ansor":
        return [warp]
    bound = (it for stage in state.stages for it in stage.iters)
    lanes = (it for it in bound if it.annotation is Annotation.THREAD_X)
    known = [it.extent_or_unknown for it in lanes if it.extent_or_unknown > 0]
    if known:
        return known[:1]
    _, terms = queries.cumulative_lengths(state, stage_id)
    most = min(hardware.max_threads_per_block, terms // _LEAST_TERMS)
    return [warp, *(warp * n for n in _WARPS_OF_A_SUM if warp * n <= most)]


def _by_threads(state: State, stage_id: int, it: Iterator, threads: int) -> State:
    state, pieces = state.split(stage_id, it, [threads])
    return state.bind(stage_id, pieces[1], "threadIdx.x")[0]


def _beside(state: State, stage_id: int, fused: Iterator, target: int, common: int) -> State:
    """Compute the sum by the threads of its reader, in the last loop that both have in common."""
    splits = queries.split_step_ids(state, target)
    if len(splits) != 1:
        raise ScheduleError(f"cross-thread reduction: stage {target} is split more than once")
    state, pieces = state.follow_split(stage_id, fused, splits[0], 1)
    state, _ = state.bind(stage_id, pieces[1], "threadIdx.x")
    return state.compute_at(stage_id, target, state.stages[target].iters[common - 1])


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
