"""SliceReduction: cut long sums with few results into slices, for GPUs in the space `autosched`.

S[i] = sum(k, A[i, k])    ->    S.rf[n, i] = sum(k', A[i, n * K' + k'])      blocks of slices
                                S[i] = sum(n, S.rf[n, i])

Ansor gives each result a thread or a warp: a single warp then sums up a whole matrix. The number of
slices is drawn like the lengths of other splits. A thread or a warp computes each sum of a slice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.search.factors import divisors
from autosched.search.rules.gpu import CROSS_THREAD_REDUCTION
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import fuse_reductions, iters_of
from autosched.state import queries
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp
from autosched.tir.walk import free_vars

LEAST_TERMS = 1024
FEW, FEW_ROWS = 4096, 64
"""So few results leave a GPU idle: with a thread each, and, where terms are neighbours in memory,
with a warp each (chosen, not measured)."""


def is_sliced(state: State, stage_id: int) -> bool:
    """Whether the stage has few results of many terms each, which can be cut into slices."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        return False
    if queries.needs_multi_level_tiling(state, stage_id) or queries.is_tiled(state, stage_id):
        return False
    if queries.has_cache_write(state, stage_id):
        return False
    elements, terms = queries.cumulative_lengths(state, stage_id)
    reduced = {axis.var for axis in op.reduce_axis}
    loads = [load for load in op.loads if load.indices]
    rows = any(reduced & set(free_vars(load.indices[-1])) for load in loads)
    if terms < LEAST_TERMS or elements > (FEW_ROWS if rows else FEW):
        return False
    return (
        _least([it.extent_or_unknown for it in iters_of(state, stage_id, IterKind.REDUCTION)]) > 1
    )


def _least(lengths: Sequence[int]) -> int:
    """The smallest number of slices of loops of these lengths; 1 if their terms cannot be cut."""
    terms = math.prod(lengths)
    return min((d for length in lengths for d in divisors(length) if 1 < d < terms), default=1)


def _slice(context: Context, state: State, stage_id: int) -> Next:
    state, fused = fuse_reductions(state, stage_id)
    least = _least([fused.extent_or_unknown])
    if least == 1:  # too many terms for one loop: a part of them was fused, which cannot be cut
        return []
    state, (outer, _) = state.split(stage_id, fused, [least], inner_to_outer=False)
    state, sums = state.rfactor(stage_id, outer, 0)
    results: Next = []
    if not queries.needs_multi_level_tiling(state, sums):  # it is tiled if slices share an operand
        results.append((state, sums - 1))
    if CROSS_THREAD_REDUCTION.condition(context, state, sums) is Decision.APPLY:
        results += CROSS_THREAD_REDUCTION.apply(context, state, sums)
    return results


SLICE_REDUCTION = FunctionRule(
    "SliceReduction",
    lambda _, s, i: Decision.APPLY if is_sliced(s, i) else Decision.SKIP,
    _slice,
)
