"""Sketch rules for every target."""

from __future__ import annotations

from autosched.errors import ScheduleError
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import follow_tiling, fuse_reductions, multi_level_tile
from autosched.state import queries
from autosched.state.iterator import Iterator, IterKind
from autosched.state.state import State
from autosched.te.operations.operation import CONST_TENSOR_ATTR
from autosched.te.schedule.use_instruction import instruction_of

MOST_READS = 64
"""The most reads that inlining a stage may cause. In a chain of stencils, each inlined into the
next, reads multiply: eight stencils of five points read an input 390,625 times for each result."""

MOST_READS_AS_ANSOR = 1 << 12
"""As MOST_READS, in Ansor's space. Ansor has no limit: of 40 stages that each read the two before
them, its sketch reads the first 100 million times."""

FEW_BLOCKS = 128
"""Fewer blocks leave multiprocessors of a large GPU (an A100 has 108, an H100 132) without work."""


def always_inlinable(context: Context, state: State, stage_id: int) -> bool:
    """Whether the stage is inlined wherever it is read, because it costs nothing to repeat.

    Inlining must not cause more than MOST_READS reads, in Ansor's space MOST_READS_AS_ANSOR.
    """
    most = MOST_READS_AS_ANSOR if context.options.space == "ansor" else MOST_READS
    return (
        not state.stages[stage_id].is_placeholder
        and not queries.is_output(state, stage_id)
        and len(state.stages[stage_id].op.outputs) == 1
        and not queries.has_reduce_iter(state, stage_id)
        and (context.is_gpu or queries.is_strictly_inlineable(state, stage_id))
        and _reads_if_inlined(state, stage_id) <= most
        and not _read_by_instruction(state, stage_id)
    )


def _read_by_instruction(state: State, stage_id: int) -> bool:
    """Whether a tensor instruction reads the stage: it reads memory."""
    readers = queries.consumers(state, stage_id)
    return any(instruction_of(state.stages[k].op) is not None for k in readers)


def _reads_if_inlined(state: State, stage_id: int) -> int:
    """How many reads inlining the stage causes in total; 0 if it is read in a single place."""
    places = _places(state, stage_id, {})
    reads = sum(map(len, state.access_dag.access.read_from[stage_id].values()))
    return places * reads if places > 1 else 0


def _places(state: State, stage_id: int, known: dict[int, int]) -> int:
    """In how many places the stage is read, with those of readers that are inlined themselves.

    `known` are those of stages that have been asked for.
    """
    if stage_id not in known:
        readers = state.access_dag.access.read_by[stage_id].items()
        known[stage_id] = sum(
            len(accesses) * (_places(state, k, known) if state.stages[k].is_inlined else 1)
            for k, accesses in readers
        )
    return known[stage_id]


def structure(context: Context) -> str:
    """The multi-level tiling structure for the task's kind of device."""
    options = context.options
    if context.is_gpu:
        return options.gpu_multi_level_tiling_structure
    return options.cpu_multi_level_tiling_structure


def _when(flag: bool, decision: Decision = Decision.APPLY_AND_SKIP_REST) -> Decision:
    return decision if flag else Decision.SKIP


# ---- SkipStage


def _skip(context: Context, state: State, stage_id: int) -> Next:
    return [(state, stage_id - 1)]


SKIP_STAGE = FunctionRule("SkipStage", lambda *_: Decision.APPLY, _skip)


# ---- AlwaysInline


def _inline(context: Context, state: State, stage_id: int) -> Next:
    return [(state.compute_inline(stage_id), stage_id - 1)]


ALWAYS_INLINE = FunctionRule(
    "AlwaysInline", lambda c, s, i: _when(always_inlinable(c, s, i)), _inline
)


# ---- MultiLevelTiling


def _tile(context: Context, state: State, stage_id: int) -> Next:
    return [(multi_level_tile(state, stage_id, structure(context))[0], stage_id - 1)]


MULTI_LEVEL_TILING = FunctionRule(
    "MultiLevelTiling", lambda _, s, i: _when(queries.needs_multi_level_tiling(s, i)), _tile
)


# ---- MultiLevelTilingWithFusion


def _fusion_condition(context: Context, state: State, stage_id: int) -> Decision:
    if not queries.needs_multi_level_tiling(state, stage_id):
        return Decision.SKIP
    if queries.has_single_elementwise_matched_consumer(state, stage_id) < 0:
        return Decision.SKIP
    alone = queries.has_cache_write(state, stage_id) or context.is_gpu
    return Decision.APPLY_AND_SKIP_REST if alone else Decision.APPLY


def _tile_and_fuse(context: Context, state: State, stage_id: int) -> Next:
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    form = structure(context)
    base, split_ids = multi_level_tile(state, stage_id, form)
    n_spatial = len(split_ids)
    results: Next = []
    for level in (3,) if context.is_gpu else (1, 2):
        if form[level - 1 : level].upper() != "S":
            continue
        fused = follow_tiling(base, target, split_ids, level)
        at = fused.stages[target].iters[level * n_spatial - 1]
        results.append((fused.compute_at(stage_id, target, at), stage_id - 1))
    return results


MULTI_LEVEL_TILING_WITH_FUSION = FunctionRule(
    "MultiLevelTilingWithFusion", _fusion_condition, _tile_and_fuse
)


# ---- AddCacheWrite


def _cache_write_condition(context: Context, state: State, stage_id: int) -> Decision:
    wanted = (
        queries.needs_multi_level_tiling(state, stage_id)
        and queries.has_single_elementwise_matched_consumer(state, stage_id) < 0
        and not state.stages[stage_id].is_placeholder
    )
    return _when(wanted, Decision.APPLY_AND_SKIP_REST if context.is_gpu else Decision.APPLY)


def _cache_write(context: Context, state: State, stage_id: int) -> Next:
    return [state.cache_write(stage_id, "local")]


ADD_CACHE_WRITE = FunctionRule("AddCacheWrite", _cache_write_condition, _cache_write)


# ---- AddRfactor


def _rfactor_condition(context: Context, state: State, stage_id: int) -> Decision:
    wanted = queries.needs_rfactor(
        state, stage_id, context.hardware.num_cores
    ) and not queries.has_cache_write(state, stage_id)
    return _when(wanted, Decision.APPLY)


def _rfactor(context: Context, state: State, stage_id: int) -> Next:
    n_space = sum(it.kind is IterKind.SPATIAL for it in state.stages[stage_id].iters)
    base, fused = fuse_reductions(state, stage_id, as_ansor=context.options.space == "ansor")
    split, pieces = base.split(stage_id, fused, [1])
    results: Next = []
    for piece in pieces:
        factored, rf_id = split.rfactor(stage_id, piece, n_space)
        if piece is pieces[1]:
            iters = list(factored.stages[rf_id].iters)
            factored_axis = iters.pop(n_space)
            factored = factored.reorder(rf_id, [*iters, factored_axis])
        results.append((factored, rf_id - 1))
    return results


ADD_RFACTOR = FunctionRule("AddRfactor", _rfactor_condition, _rfactor)


# ---- SimplifyComputeWithConstTensor


def _const_tensor(context: Context, state: State, stage_id: int) -> Next:
    unrolled_names = queries.stage_attr_names(state, stage_id, CONST_TENSOR_ATTR)
    unrolled: list[Iterator] = []
    tiles: list[list[Iterator]] = [[], []]
    for it in state.stages[stage_id].iters:
        if it.name in unrolled_names:
            state, new = state.unroll(stage_id, it)
            unrolled.append(new)
            continue
        if it.kind is not IterKind.SPATIAL:
            raise ScheduleError(
                f"stage {stage_id}: reduction {it.name} is not listed in {CONST_TENSOR_ATTR}"
            )
        state, pieces = state.split(stage_id, it, [None])
        for tile, piece in zip(tiles, pieces, strict=True):
            tile.append(piece)
    state = state.reorder(stage_id, [*tiles[0], *tiles[1], *unrolled])
    return [(state, stage_id - 1)]


SIMPLIFY_COMPUTE_WITH_CONST_TENSOR = FunctionRule(
    "SimplifyComputeWithConstTensor",
    lambda _, s, i: _when(CONST_TENSOR_ATTR in s.stages[i].op.attrs),
    _const_tensor,
)
