"""Sketch rules of the space `autosched`, beyond Ansor's: reductions with data reuse, in blocks.

C[i, j] = sum(k, A[i, k] * B[k, j])          for i.0, j.0:                    blocks, in parallel
                                        ->     for k.0:
                                                 for j.1.0:                   panels
                                                   B.global[...] = B[...]     packed, private
                                                   for i.1.0, j.1.1, k.1, i.1.1, j.1.2:
                                                     C[i, j] += A[i, k] * B.global[k, j]

BlockReduction makes these loops. PackOperand also copies the operand that vectors are loaded from
into memory private to the thread, one panel after the other. A packed panel is read in order and by
all rows, whereas the rows of the operand itself lie pages apart (and rows whose length is a power
of two lie in few sets of a cache). An operand that is read across its rows, one number of each
(A[k, i]), is copied too, for all panels of a block of k at once. An operand that is computed
element by element (converted weights) is computed into the copy.

Block sizes need not divide extents; `search/blocks.py` draws them. Two SP steps split each spatial
axis, one into blocks and one inside a block, so that the remainder of a block is treated like the
remainder of the axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import follow_tiling
from autosched.state import queries
from autosched.state.iterator import Iterator, IterKind, clean_name
from autosched.state.state import State
from autosched.state.steps import RfactorStep
from autosched.te.operations.operation import CONST_TENSOR_ATTR, ComputeOp, PlaceholderOp
from autosched.tir.expr import IntImm, ProducerLoad, Var
from autosched.tir.walk import free_vars

PACKED_SCOPE = "global"
"""The scope of a packed panel. A buffer allocated inside a parallel loop belongs to one thread."""

LEAST_BYTES = 2**15
"""Only larger operands are packed: one that fits the nearest cache as it is gains nothing."""

LEAST_REUSE = 8
"""An element must be read at least so often: packing it costs about two reads of it."""

LEAST_ROW = 1024
"""An operand that is read across its rows is copied if a row has so many bytes or more: products of
1000 and 1024 take 0.83 to 0.93 of the time, those with rows of 256 numbers 0.91 to 0.99, of 64 and
128 no less (an Emerald Rapids)."""

_OWN_LOOPS = (queries.NO_SPLIT_AT_INNER, queries.ALWAYS_UNROLL_INNER, CONST_TENSOR_ATTR)


def blockable(state: State, stage_id: int) -> ComputeOp | None:
    """The operation of a reduction with data reuse whose loops no rule has changed; else None."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or not queries.needs_multi_level_tiling(state, stage_id):
        return None
    if not op.reduce_axis or not op.axis or any(name in op.attrs for name in _OWN_LOOPS):
        return None
    touched = queries.is_tiled(state, stage_id) or queries.has_cache_write(state, stage_id)
    # The loops of a factored reduction are split, and its stages may be fused into each other.
    return None if touched or any(isinstance(s, RfactorStep) for s in state.steps) else op


def extent_of(extent: object) -> int:
    """The value of a constant extent; 0 if it is not constant."""
    return extent.value if isinstance(extent, IntImm) else 0


def packable(state: State, stage_id: int) -> tuple[int, frozenset[Var]] | None:
    """The stage id of the operand that is worth packing, and the spatial axes that index it.

    The operand can be copied, is read once in the body and in order along the last axis, and its
    elements are read for several values of other axes. None when there is no such operand.
    """
    op = blockable(state, stage_id)
    if op is None:
        return None
    loads = op.loads
    last = op.axis[-1].var
    for load in loads:
        operand = _copyable(state, load, loads)
        if operand is None or not _along(load, last):
            continue
        found = {v for index in load.indices for v in free_vars(index)}
        axes = frozenset(axis.var for axis in op.axis if axis.var in found)
        others = [extent_of(a.dom.extent) for a in op.axis if a.dom and a.var not in axes]
        size = math.prod(extent_of(n) for n in load.producer.shape) * load.producer.dtype.bytes
        if size > LEAST_BYTES and math.prod(others) >= LEAST_REUSE:
            return operand, axes
    return None


def _copyable(state: State, load: ProducerLoad, loads: Sequence[ProducerLoad]) -> int | None:
    """The stage id of the operand, if it can be copied; else None.

    It can if only this load reads it, and it is an argument or a stage that is inlined anyway.
    """
    if sum(other.producer is load.producer for other in loads) > 1:
        return None
    operand = [s.op for s in state.stages].index(load.producer.op)
    argument = isinstance(load.producer.op, PlaceholderOp)
    return operand if argument or queries.is_strictly_inlineable(state, operand) else None


def _along(load: ProducerLoad, axis: Var) -> bool:
    """Whether neighbours along `axis` are neighbours in the operand's memory."""
    return bool(load.indices) and load.indices[-1] is axis


def read_across(state: State, stage_id: int) -> int | None:
    """The stage id of the other operand, if the tiles of a block read it far apart; else None.

    It can be copied, and its rows, of LEAST_ROW bytes or more, run along an axis of the result that
    is not the last one, as in `sum(k, A[k, i] * B[k, j])`.
    """
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    loads = op.loads
    across = [load for load in loads if any(_along(load, axis.var) for axis in op.axis[:-1])]
    for load in across:
        row = extent_of(load.producer.shape[-1]) * load.producer.dtype.bytes
        if row >= LEAST_ROW:
            return _copyable(state, load, loads)
    return None


# ---- the loops


def block(state: State, stage_id: int, panel: frozenset[Var]) -> tuple[State, list[int], Iterator]:
    """Block the loops of the stage; in a block, the loops over the axes `panel` come first.

    Returns the state, the ids of the SP steps that make the blocks, and the loop over panels.
    """
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    names = {clean_name(var.name) for var in panel}
    outer: list[Iterator] = []
    panels: list[Iterator] = []
    middle: list[Iterator] = []
    inner: list[Iterator] = []
    outer_reduce: list[Iterator] = []
    inner_reduce: list[Iterator] = []
    split_ids: list[int] = []
    for it in state.stages[stage_id].iters:
        if it.kind is not IterKind.SPATIAL:
            state, (first, rest) = state.split(stage_id, it, [None])
            outer_reduce.append(first)
            inner_reduce.append(rest)
            continue
        split_ids.append(len(state.steps))
        state, (first, rest) = state.split(stage_id, it, [None])
        outer.append(first)
        in_panel = it.name in names
        state, parts = state.split(stage_id, rest, [None, None] if in_panel else [None])
        if in_panel:
            panels.append(parts[0])
        middle.append(parts[-2])
        inner.append(parts[-1])
    order = [*outer, *outer_reduce, *panels, *middle, *inner_reduce, *inner]
    return state.reorder(stage_id, order), split_ids, panels[-1]


def _finished(state: State, stage_id: int, split_ids: list[int]) -> State:
    """Compute the blocked stage in the blocks of its element-by-element consumer, if it has one."""
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    if target < 0:
        return state
    state = follow_tiling(state, target, split_ids, 1)
    at = state.stages[target].iters[len(split_ids) - 1]
    return state.compute_at(stage_id, target, at)


# ---- BlockReduction


def _vector_axes(op: ComputeOp) -> frozenset[Var]:
    """The axes that index the operand of vector loads; along the others vectors are reused."""
    last = op.axis[-1].var
    axes = {axis.var for axis in op.axis}
    found = [
        frozenset(axes.intersection(v for index in load.indices for v in free_vars(index)))
        for load in op.loads
        if load.indices and last in free_vars(load.indices[-1])
    ]
    reused = [vars_ for vars_ in found if len(vars_) < len(axes)]
    return min(reused, key=lambda vars_: len(vars_), default=frozenset({last}))


def _block(context: Context, state: State, stage_id: int) -> Next:
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    state, split_ids, _ = block(state, stage_id, _vector_axes(op))
    return [(_finished(state, stage_id, split_ids), stage_id - 1)]


BLOCK_REDUCTION = FunctionRule(
    "BlockReduction",
    lambda _, s, i: Decision.APPLY if blockable(s, i) is not None else Decision.SKIP,
    _block,
)


# ---- PackOperand


def _pack(context: Context, state: State, stage_id: int) -> Next:
    found = packable(state, stage_id)
    assert found is not None
    other = read_across(state, stage_id)
    made = [_packed(state, stage_id, *found, None)]
    return made if other is None else [*made, _packed(state, stage_id, *found, other)]


def _packed(
    state: State, stage_id: int, operand: int, axes: frozenset[Var], other: int | None
) -> tuple[State, int]:
    """Block the stage to read copies: of `operand` by panels, of `other` for all panels at once."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    copied = [operand] if other is None else sorted((operand, other))
    for k in reversed(copied):
        state, _ = state.cache_read(k, PACKED_SCOPE, [stage_id])
        stage_id += 1  # the copy comes right after its operand
    state, split_ids, panels = block(state, stage_id, axes)
    sums = state.stages[stage_id].iters[len(op.axis) + len(op.reduce_axis) - 1]
    for n, k in enumerate(copied):
        state = state.compute_at(k + n + 1, stage_id, panels if k == operand else sums)
    return _finished(state, stage_id, split_ids), stage_id - 1


PACK_OPERAND = FunctionRule(
    "PackOperand",
    lambda _, s, i: Decision.APPLY if packable(s, i) is not None else Decision.SKIP,
    _pack,
)


# ---- KeepPacked


KEEP_PACKED = FunctionRule(
    "KeepPacked",
    lambda _, s, i: Decision.APPLY_AND_SKIP_REST if queries.is_cache_read(s, i) else Decision.SKIP,
    lambda _, s, i: [(s, i - 1)],
)
