"""FuseProducts: several products and what lies between them by rows, in the space `autosched`.

S[i, j] = sum(e, Q[i, e] * K[j, e])             for e, j:  K.t[e, j] = K[j, e]
E[i, j] = exp(S[i, j] - max(j, S[i, j]))   ->   for i.0:                    blocks, in parallel
Y[i, f] = sum(j, E[i, j] * V[j, f])               S, the maxima, E, Y of the rows i.1

The products of an attention are the largest tensors in it: as a whole they leave all caches between
one stage and the next. Here a block of their rows stays in the second cache. An operand of which
nothing is contiguous along the last axis of a product is copied with that axis innermost, once, by
all threads (as PackTransposed does). `search/fused_products.py` draws the sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from autosched.search.rules.blocking import blockable, extent_of
from autosched.search.rules.instruction import USE_INSTRUCTION
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.space import axis_places, kept_axes
from autosched.search.rules.tiling import iters_of
from autosched.search.rules.transposing import TURNED_STAGES, turnable_to, turned_copy
from autosched.state import queries
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import Call, Var
from autosched.tir.walk import free_vars, pre_order

_PRODUCTS = 2
"""Fewer products have sketches of their own (FuseInnerRows)."""

Places = Mapping[int, Sequence[int | None]]


class _Chain(NamedTuple):
    """Products by rows, seen from the output.

    `stages` are the stages before the output, the last first, `kept` the axes of the output that
    all their reductions have, and `rows` the one of these that is cut into blocks. `products` maps
    each product to the number of the axis that is `rows`.
    """

    stages: tuple[int, ...]
    kept: tuple[int, ...]
    rows: int
    products: Mapping[int, int]


def _chain(state: State, stage_id: int) -> _Chain | None:
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not queries.is_output(state, stage_id):
        return None
    if queries.is_tiled(state, stage_id):
        return None
    stages = sorted(_before(state, stage_id), reverse=True)
    inside = {*stages, stage_id}
    if not all(inside.issuperset(queries.consumers(state, k)) for k in stages):
        return None  # another stage reads a result that would be computed for some rows only
    products = [k for k in stages if queries.needs_multi_level_tiling(state, k)]
    if not _alternate(state, stages, products):
        return None
    places = axis_places(state, stage_id, stages)
    kept = kept_axes(state, places)
    if len(kept) == len(op.axis):
        return None
    for axis in reversed(kept):
        rows = {k: _rows_of(state, k, places[k], kept, axis) for k in products}
        found = {k: number for k, number in rows.items() if number is not None}
        if len(found) == len(products):
            return _Chain(tuple(stages), tuple(kept), axis, found)
    return None


def _before(state: State, stage_id: int) -> set[int]:
    """The computed stages that the stage needs."""
    found: set[int] = set()
    work = [stage_id]
    while work:
        for producer in queries.direct_producers(state, work.pop()):
            if not state.stages[producer].is_placeholder and producer not in found:
                found.add(producer)
                work.append(producer)
    return found


def _alternate(state: State, stages: Collection[int], products: Sequence[int]) -> bool:
    """Whether a reduction without reuse reads one of several products, and another reads it."""
    if len(products) < _PRODUCTS or any(blockable(state, k) is None for k in products):
        return False
    return any(
        not _before(state, k).isdisjoint(products)
        and any(k in _before(state, product) for product in products)
        for k in stages
        if queries.has_reduce_iter(state, k) and k not in products
    )


def _rows_of(
    state: State, product: int, places: Sequence[int | None], kept: Sequence[int], axis: int
) -> int | None:
    """The number of the product's axis that is `axis` of the output, if it can be cut into rows.

    It can if an operand is the same for all rows, the other axes but the last are kept ones, and
    vectors can be loaded along the last axis, from an operand or a copy of it.
    """
    op = state.stages[product].op
    *outer, last = places
    if not isinstance(op, ComputeOp) or axis not in outer or last in kept or {*outer} - {*kept}:
        return None
    number = outer.index(axis)
    row = op.axis[number]
    rows = 0 if row.dom is None else extent_of(row.dom.extent)
    reused = any(row.var not in {v for e in x.indices for v in free_vars(e)} for x in op.loads)
    has_lanes = _has_lanes(op) or _turned(state, product) is not None
    return number if reused and has_lanes and rows > 1 else None


def _has_lanes(op: ComputeOp) -> bool:
    """Whether an operand is contiguous along the last axis."""
    last: Var = op.axis[-1].var
    return any(load.indices and load.indices[-1] is last for load in op.loads)


def _fuse(context: Context, state: State, stage_id: int) -> Next:
    chain = _chain(state, stage_id)
    assert chain is not None
    state, ids = _with_copies(state, chain.products)
    stage_id += ids[stage_id]
    iters = list(state.stages[stage_id].iters)
    batch = [iters[axis] for axis in chain.kept if axis != chain.rows]
    others = [it for axis, it in enumerate(iters) if axis not in chain.kept]
    state, (rows, inner) = state.split(stage_id, iters[chain.rows], [None])
    state = state.reorder(stage_id, [*batch, rows, inner, *others])
    for k in chain.stages:
        stage = k + ids[k]
        if k in chain.products:
            state = _product(state, stage, chain.products[k])
        elif _is_inlined(state, stage):
            state = state.compute_inline(stage)
            continue
        state = state.compute_at(stage, stage_id, rows)
    return [(state, chain.stages[-1] + ids[chain.stages[-1]] - 1)]


def _with_copies(state: State, products: Iterable[int]) -> tuple[State, list[int]]:
    """Let products without vectors read copies; also how far each stage moves behind these."""
    moved = [0] * len(state.stages)
    wanted = [(_turned(state, k), k) for k in products]
    for found, product in sorted((f, k) for f, k in wanted if f is not None):
        operand, place = found
        reader = product + moved[product]
        state = turned_copy(state, operand + moved[operand], place, reader)
        for k in range(operand + 1, len(moved)):
            moved[k] += TURNED_STAGES
    return state, moved


def _turned(state: State, product: int) -> tuple[int, int] | None:
    """The operand of the product to copy, and the place of its index that becomes the last one."""
    op = state.stages[product].op
    assert isinstance(op, ComputeOp)
    return None if _has_lanes(op) else turnable_to(state, product, len(op.axis) - 1)


def _is_inlined(state: State, stage_id: int) -> bool:
    """Whether the stage is computed where it is read: a function is only if it is read once."""
    if not queries.is_strictly_inlineable(state, stage_id):
        return False
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    functions = any(
        isinstance(e, Call) and e.op != "if_then_else" for body in op.body for e in pre_order(body)
    )
    return not functions or len(queries.consumers(state, stage_id)) == 1


def _product(state: State, stage_id: int, rows: int) -> State:
    """Block the product; the loops over the longest reduction are cut, and those over rows."""
    *batch, last = iters_of(state, stage_id, IterKind.SPATIAL)
    row = batch.pop(rows)
    terms = iters_of(state, stage_id, IterKind.REDUCTION)
    longest = max(terms, key=lambda it: it.extent_or_unknown)
    state, (row, tile) = state.split(stage_id, row, [None])
    state, (panel, column, lanes) = state.split(stage_id, last, [None, None])
    state, (part, term) = state.split(stage_id, longest, [None])
    inner = [term if it is longest else it for it in terms]
    order = [*batch, part, panel, row, column, *inner, tile, lanes]
    return state.reorder(stage_id, order)


def _decide(context: Context, state: State, stage_id: int) -> Decision:
    """Apply to products by rows; without other sketches unless there is an instruction for one."""
    chain = _chain(state, stage_id)
    if chain is None:
        return Decision.SKIP
    fitting = (USE_INSTRUCTION.condition(context, state, k) for k in chain.products)
    others = any(decision is not Decision.SKIP for decision in fitting)
    return Decision.APPLY if others else Decision.APPLY_AND_SKIP_REST


FUSE_PRODUCTS = FunctionRule("FuseProducts", _decide, _fuse)
