"""Sketch rules beyond Ansor's, of the search space `autosched`: operators without data reuse.

Softmax, layer norm and the like go through each row several times: FuseRows computes all stages of
a few rows before the next ones, while they are in the nearest cache. What one row waits for at the
end of its sum is hidden by the others.

A pooling or depthwise convolution reads its padded input through a copy in Ansor's sketches;
InlineBorder lets its window ask for the border itself, and the code generator leaves those
conditions to the ends of loops.

Ansor tiles a stage only where it reads something more than once. A sum over rows, a transposition
or a copy then has a single loop structure, in which vectors run along the reduction or against the
order of memory. These rules add a tiled one beside it:

C[j] = sum(i, A[i, j])        for j.0:              C[j, i] = A[i, j]      for j.0, i.0:
                          ->    for i:                                 ->    for j.1, i.1:
                                  for j.1: C[j] +=                             C[j, i] = ...
"""

from __future__ import annotations

from collections.abc import Iterator as Iterating
from collections.abc import Sequence

from autosched.search.rules.common import structure
from autosched.search.rules.operand import is_operand
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.rules.tiling import follow_tiling, iters_of, multi_level_tile
from autosched.state import queries
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.tir.expr import Expr, IntImm, ProducerLoad, Var
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars, pre_order

Next = list[tuple[State, int]]


def _innermost_indices(op: ComputeOp) -> Iterating[tuple[tuple[Expr, ...], set[Var]]]:
    """Each read with several indices, and the variables of the last one."""
    for body in op.body:
        for node in pre_order(body):
            if isinstance(node, ProducerLoad) and node.indices:
                yield node.indices, set(free_vars(node.indices[-1]))


def _untouched(state: State, stage_id: int) -> ComputeOp | None:
    """The operation of a stage that no other rule has tiled or is to tile."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or queries.needs_multi_level_tiling(state, stage_id):
        return None
    fresh = not queries.is_tiled(state, stage_id) and not queries.has_cache_write(state, stage_id)
    return op if fresh else None


def _sums_across_rows(context: Context, state: State, stage_id: int) -> Decision:
    """A reduction whose operands are contiguous along an axis of the result.

    So are those of a window that slides along rows, one element for each result: X[i + r].
    """
    op = _untouched(state, stage_id)
    if op is None or not op.reduce_axis or not op.axis:
        return Decision.SKIP
    spatial = {axis.var for axis in op.axis}
    reduced = {axis.var for axis in op.reduce_axis}
    for indices, last in _innermost_indices(op):
        rows = {v for index in indices[:-1] for v in free_vars(index)}
        if last & spatial and not last & reduced and rows & reduced:
            return Decision.APPLY
        terms = linear(indices[-1])[1]
        if last & reduced and any(terms.get(var) == 1 for var in spatial):
            return Decision.APPLY
    return Decision.SKIP


def _tile_reduction(context: Context, state: State, stage_id: int) -> Next:
    """What is computed from the sums element by element follows each tile."""
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    state, split_ids = multi_level_tile(state, stage_id, "SRS")
    if target >= 0:
        state = follow_tiling(state, target, split_ids, 1)
        state = state.compute_at(stage_id, target, state.stages[target].iters[len(split_ids) - 1])
    return [(state, stage_id - 1)]


TILE_REDUCTION = FunctionRule("TileReduction", _sums_across_rows, _tile_reduction)


def _moves_data(context: Context, state: State, stage_id: int) -> Decision:
    """A result with no reduction on the way from the inputs: a copy, a transposition."""
    op = _untouched(state, stage_id)
    if op is None or op.reduce_axis or not op.axis or not queries.is_output(state, stage_id):
        return Decision.SKIP
    work = [stage_id]
    while work:
        for producer in queries.direct_producers(state, work.pop()):
            if queries.has_reduce_iter(state, producer):
                return Decision.SKIP
            work.append(producer)
    return Decision.APPLY


def _tile_elements(context: Context, state: State, stage_id: int) -> Next:
    return [(multi_level_tile(state, stage_id, "SS")[0], stage_id - 1)]


TILE_ELEMENTS = FunctionRule("TileElements", _moves_data, _tile_elements)


def _row_stages(state: State, stage_id: int) -> list[int]:
    """The stages on the way to the output `stage_id`, the last first, as far as the stages that are
    to be tiled, which have no rows; or none.

    Without a reduction nothing is read again. What else is to be computed must come before them.
    """
    found: set[int] = set()
    work = [stage_id]
    while work:
        for producer in queries.direct_producers(state, work.pop()):
            skip = state.stages[producer].is_placeholder or producer in found
            if not skip and not queries.needs_multi_level_tiling(state, producer):
                found.add(producer)
                work.append(producer)
    # What a tiled stage reads is no part of the rows that are computed after it.
    found -= {k for k in found if _read_elsewhere(state, k, found, stage_id)}
    if not any(queries.has_reduce_iter(state, k) for k in found):
        return []
    others = [k for k, s in enumerate(state.stages) if not s.is_placeholder and k not in found]
    first = min(found)
    return sorted(found, reverse=True) if all(k < first or k >= stage_id for k in others) else []


def _read_elsewhere(state: State, stage_id: int, inside: set[int], last: int) -> bool:
    """True when a stage that is neither inside nor `last` needs the stage, directly or through
    those inside."""
    work, seen = [stage_id], {stage_id, last}
    while work:
        for consumer in queries.consumers(state, work.pop()):
            if consumer not in inside and consumer != last:
                return True
            if consumer not in seen:
                seen.add(consumer)
                work.append(consumer)
    return False


def _kept_axes(state: State, last: int, stages: Sequence[int]) -> list[int]:
    """The axes of the stage `last` that none of the reductions among `stages` goes through.

    A reduction that is read along two axes (s[i] and s[j]) keeps neither.
    """
    kept = set(range(len(state.stages[last].iters)))
    places: dict[int, list[int | None]] = {last: [*kept]}  # of the axes of a stage in `last`
    for producer in sorted(stages, reverse=True):
        found = [
            [_place(state, reader, e, places[reader]) for e in indices]
            for reader, accesses in state.access_dag.access.read_by[producer].items()
            for indices in accesses
        ]
        own = [each[0] if len(set(each)) == 1 else None for each in zip(*found, strict=True)]
        places[producer] = own
        if queries.has_reduce_iter(state, producer):
            kept.intersection_update(place for place in own if place is not None)
    return sorted(kept)


def _place(state: State, stage_id: int, e: Expr, places: list[int | None]) -> int | None:
    """Which of the stage's axes the index is, where that is in another stage; or None."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    number = next((n for n, axis in enumerate(op.axis) if axis.var is e), None)
    return None if number is None else places[number]


def _rows_of(state: State, stage_id: int) -> tuple[list[int], list[int]]:
    """What FuseRows computes together with the stage, the last first, and the axes of the rows."""
    stages = _row_stages(state, stage_id)
    kept = _kept_axes(state, stage_id, stages) if stages else []
    return (stages, kept) if len(kept) < len(state.stages[stage_id].iters) else ([], [])


def _has_rows(context: Context, state: State, stage_id: int) -> Decision:
    """An output with axes that only reductions on the way to it go through, and others.

    Behind a stage that is to be tiled there are no other sketches: rows in blocks are the best end
    of each tiling, and the trials are needed for the tiling (docs/searching.md has figures).
    """
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not queries.is_output(state, stage_id):
        return Decision.SKIP
    if queries.is_tiled(state, stage_id) or not _rows_of(state, stage_id)[1]:
        return Decision.SKIP
    others = [k for k in range(len(state.stages)) if k != stage_id]
    tiled = any(queries.needs_multi_level_tiling(state, k) for k in others)
    return Decision.APPLY_AND_SKIP_REST if tiled else Decision.APPLY


def _has_inner_rows(context: Context, state: State, stage_id: int) -> Decision:
    """As `_has_rows`, of what a stage to be tiled reads: the probabilities of an attention."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not is_operand(state, stage_id):
        return Decision.SKIP
    return Decision.APPLY_AND_SKIP_REST if _rows_of(state, stage_id)[1] else Decision.SKIP


def _fuse_rows(context: Context, state: State, stage_id: int) -> Next:
    """The axes of the rows come first. Where the last axis is one of them, rows are columns: some
    beside one another are innermost, for vectors, in the reductions as well."""
    found, kept = _rows_of(state, stage_id)
    iters = list(state.stages[stage_id].iters)
    across = kept[-1] == len(iters) - 1
    others = [it for axis, it in enumerate(iters) if axis not in kept]
    state, (rows, inner) = state.split(stage_id, iters[kept[-1]], [None])
    order = [*(iters[axis] for axis in kept[:-1]), rows]
    order += [*others, inner] if across else [inner, *others]
    if order != list(state.stages[stage_id].iters):
        state = state.reorder(stage_id, order)
    for producer in found:
        if not queries.has_reduce_iter(state, producer):
            if queries.is_strictly_inlineable(state, producer):
                state = state.compute_inline(producer)
                continue
        elif across:
            *spatial, last = iters_of(state, producer, IterKind.SPATIAL)
            terms = iters_of(state, producer, IterKind.REDUCTION)
            state = state.reorder(producer, [*spatial, *terms, last])
        state = state.compute_at(producer, stage_id, rows)
    return [(state, found[-1] - 1)]


FUSE_ROWS = FunctionRule("FuseRows", _has_rows, _fuse_rows)
FUSE_INNER_ROWS = FunctionRule("FuseInnerRows", _has_inner_rows, _fuse_rows)


def _borders(state: State, stage_id: int) -> list[int]:
    """The padded inputs that the stage alone reads, and that nothing else would inline."""
    return [
        k
        for k in queries.direct_producers(state, stage_id)
        if not state.stages[k].is_placeholder
        and not state.stages[k].is_inlined
        and not queries.has_reduce_iter(state, k)
        and not queries.is_strictly_inlineable(state, k)
        and queries.consumers(state, k) == [stage_id]
    ]


def _reads_border(context: Context, state: State, stage_id: int) -> Decision:
    """A reduction of a padded input whose elements are used by the outputs around them alone."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or not op.reduce_axis or not op.axis:
        return Decision.SKIP
    if queries.is_tiled(state, stage_id) or queries.has_cache_write(state, stage_id):
        return Decision.SKIP
    borders = [state.stages[k].op for k in _borders(state, stage_id)]
    if not borders or not all(_is_local(op, border) for border in borders):
        return Decision.SKIP
    return Decision.APPLY


def _is_local(op: ComputeOp, border: Operation) -> bool:
    """Whether every read of the padded input moves along all axes of the result."""
    axes = {axis.var for axis in op.axis if axis.dom and axis.dom.extent is not IntImm(1)}
    loads = op.loads
    return all(
        axes.issubset([v for index in load.indices for v in free_vars(index)])
        for load in loads
        if load.producer.op is border
    )


def _inline_border(context: Context, state: State, stage_id: int) -> Next:
    for producer in _borders(state, stage_id):
        state = state.compute_inline(producer)
    if queries.needs_multi_level_tiling(state, stage_id):
        state = multi_level_tile(state, stage_id, structure(context))[0]
    return [(state, stage_id - 1)]


INLINE_BORDER = FunctionRule("InlineBorder", _reads_border, _inline_border)
