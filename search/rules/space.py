"""Sketch rules of the space `autosched`, beyond Ansor's: operators without data reuse.

Softmax, layer norm and the like read each row several times. FuseRows computes all stages of a few
rows before the next rows, while these are in the nearest cache. The latency at the end of the sum
of one row is hidden by the other rows.

In Ansor's sketches, a pooling or depthwise convolution reads its padded input through a copy.
InlineBorder inlines the border, so that the window checks for it; the code generator leaves these
conditions to the ends of loops.

Ansor tiles a stage only if it reads elements more than once. A sum over rows, a transposition or a
copy then has a single loop structure, in which vectors run along the reduction or against the order
of memory. TileReduction and TileElements add a tiled structure:

C[j] = sum(i, A[i, j])        for j.0:              C[j, i] = A[i, j]      for j.0, i.0:
                          ->    for i:                                 ->    for j.1, i.1:
                                  for j.1: C[j] +=                             C[j, i] = ...
"""

from __future__ import annotations

from collections.abc import Iterator as Iterating
from collections.abc import Mapping, Sequence

from autosched.search.rules.common import structure
from autosched.search.rules.operand import is_operand
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import follow_tiling, iters_of, multi_level_tile
from autosched.state import queries
from autosched.state.access import is_ragged
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.tir.expr import Expr, IntImm, ProducerLoad, Var
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars, pre_order


def _innermost_indices(op: ComputeOp) -> Iterating[tuple[tuple[Expr, ...], set[Var]]]:
    """Yield the indices of each read, and the variables of the last one."""
    for body in op.body:
        for node in pre_order(body):
            if isinstance(node, ProducerLoad) and node.indices:
                yield node.indices, set(free_vars(node.indices[-1]))


def _untouched(state: State, stage_id: int) -> ComputeOp | None:
    """The operation of a stage that no other rule has tiled or will tile; else None."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or queries.needs_multi_level_tiling(state, stage_id):
        return None
    fresh = not queries.is_tiled(state, stage_id) and not queries.has_cache_write(state, stage_id)
    return op if fresh else None


def _sums_across_rows(context: Context, state: State, stage_id: int) -> Decision:
    """Apply to a reduction with an operand that is contiguous along an axis of the result.

    The operand of a window that slides along rows by one element for each result is, too: X[i + r].
    """
    op = _untouched(state, stage_id)
    if op is None or not op.reduce_axis or not op.axis or is_ragged(op):
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
    """Tile the reduction; an element-by-element consumer follows each tile."""
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    state, split_ids = multi_level_tile(state, stage_id, "SRS")
    if target >= 0:
        state = follow_tiling(state, target, split_ids, 1)
        state = state.compute_at(stage_id, target, state.stages[target].iters[len(split_ids) - 1])
    return [(state, stage_id - 1)]


TILE_REDUCTION = FunctionRule("TileReduction", _sums_across_rows, _tile_reduction)


def _moves_data(context: Context, state: State, stage_id: int) -> Decision:
    """Apply to an output without a reduction between inputs and it: a copy, a transposition."""
    op = _untouched(state, stage_id)
    if op is None or op.reduce_axis or not op.axis or not queries.is_output(state, stage_id):
        return Decision.SKIP
    work, seen = [stage_id], {stage_id}
    while work:
        for producer in queries.direct_producers(state, work.pop()):
            if queries.has_reduce_iter(state, producer):
                return Decision.SKIP
            if producer not in seen:
                seen.add(producer)
                work.append(producer)
    return Decision.APPLY


def _tile_elements(context: Context, state: State, stage_id: int) -> Next:
    return [(multi_level_tile(state, stage_id, "SS")[0], stage_id - 1)]


TILE_ELEMENTS = FunctionRule("TileElements", _moves_data, _tile_elements)


def _row_stages(state: State, stage_id: int) -> list[int]:
    """The stages on the way to the output `stage_id`, the last first, that may be fused by rows.

    Stages that are to be tiled have no rows: the way ends there. The result is empty if there is no
    reduction on the way, because then nothing is read twice. It is also empty if another stage lies
    between those found.
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
    """Whether a stage that is neither in `inside` nor `last` reads the stage.

    It may do so directly, or through stages in `inside`.
    """
    work, seen = [stage_id], {stage_id, last}
    while work:
        for consumer in queries.consumers(state, work.pop()):
            if consumer not in inside and consumer != last:
                return True
            if consumer not in seen:
                seen.add(consumer)
                work.append(consumer)
    return False


def axis_places(state: State, last: int, stages: Sequence[int]) -> dict[int, list[int | None]]:
    """For each of `stages` and `last`, the axis of the stage `last` that each of its axes is.

    None for an axis that is none of these, or that is read along several (s[i] and s[j]).
    """
    places: dict[int, list[int | None]] = {last: [*range(len(state.stages[last].iters))]}
    for producer in sorted(stages, reverse=True):
        found = [
            [_place(state, reader, e, places[reader]) for e in indices]
            for reader, accesses in state.access_dag.access.read_by[producer].items()
            for indices in accesses
        ]
        own = [each[0] if len(set(each)) == 1 else None for each in zip(*found, strict=True)]
        places[producer] = own
    return places


def kept_axes(state: State, places: Mapping[int, Sequence[int | None]]) -> list[int]:
    """The axes in `places` that all reductions among its stages have: none sums over them."""
    kept = {place for own in places.values() for place in own if place is not None}
    for stage_id, own in places.items():
        if queries.has_reduce_iter(state, stage_id):
            kept.intersection_update(place for place in own if place is not None)
    return sorted(kept)


def _place(state: State, stage_id: int, e: Expr, places: list[int | None]) -> int | None:
    """The entry in `places` of the stage's axis that `e` is; None if it is no axis."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    number = next((n for n, axis in enumerate(op.axis) if axis.var is e), None)
    return None if number is None else places[number]


def _rows_of(state: State, stage_id: int) -> tuple[list[int], list[int]]:
    """The stages that FuseRows computes with the stage, the last first, and the axes of the rows.

    Both are empty if there is nothing to fuse.
    """
    stages = _row_stages(state, stage_id)
    kept = kept_axes(state, axis_places(state, stage_id, stages)) if stages else []
    return (stages, kept) if len(kept) < len(state.stages[stage_id].iters) else ([], [])


def _has_rows(context: Context, state: State, stage_id: int) -> Decision:
    """Apply to an output with rows: some axes, but not all, are axes of all reductions before it.

    After a stage that is to be tiled other sketches are excluded: rows in blocks are the best end
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
    """As `_has_rows`, for a stage that a stage to be tiled reads: an attention's probabilities."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not is_operand(state, stage_id):
        return Decision.SKIP
    return Decision.APPLY_AND_SKIP_REST if _rows_of(state, stage_id)[1] else Decision.SKIP


def _fuse_rows(context: Context, state: State, stage_id: int) -> Next:
    """Fuse the stages by rows: the axes of the rows come first.

    If the last axis is one of them, the rows are columns: some neighbouring ones are innermost, for
    vectors, in the reductions as well.
    """
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
    """The padded inputs that only this stage reads, and that no other rule would inline."""
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
    """Apply to a reduction of a padded input that uses each element only for outputs around it."""
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
    """Whether every read of the padded input moves along all axes of the result (longer than 1)."""
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
