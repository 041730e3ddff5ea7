"""SliceColumns: cut long sums of few columns into slices, for CPUs in the space `autosched`.

d[j] = sum(i, A[i, j])    ->    d.rf.rf[p, r, j] = sum(m, A[(p * M + m) * R + r, j])
                                d.rf[r, j] = sum(p, d.rf.rf[p, r, j])
                                d[j] = sum(r, d.rf[r, j])

Few columns make few parallel tasks, and short rows fill no vector. Such sums are the gradients of a
bias, the statistics of a batch or of the channels of an image, and `X.T @ X` of a tall matrix. Each
slice p is summed up by one thread. Where rows are short, R rows that are neighbours in memory are
joined to one row of vectors. A product, such as `X.T @ X`, has tiles of its sums instead of joined
rows. search/column_slices.py draws the numbers, which need not divide extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autosched.search.rules.blocking import extent_of
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import fuse_reductions, iters_of
from autosched.state import queries
from autosched.state.iterator import Iterator, IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import ProducerLoad, Var
from autosched.tir.iteration import IterVar
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars

_LEAST_TERMS = 256
_LEAST_OF_PRODUCTS, _MOST_PRODUCTS = 1024, 4096
"""The fewest terms of a product that are worth slices, and the most results of a product, whose
sums then stay in the nearest cache."""

_SHORT_ROW = 4
"""Joining rows of so many vectors or more gains nothing."""

_MOST_SERIAL = 1024
"""With so few results, adding up the slices is not worth sharing among threads."""

_TASKS_OF_A_THREAD = 16
"""With so many vectors of results for each thread, threads are busy without slices."""

_LEAST_ALONE = 1 << 18
"""With so many elements to sum up, slices were always as fast as all other sketches, or faster."""


class _Columns(NamedTuple):
    """A long sum of few columns.

    `in_order` says that its terms lie in memory at equal distances, in the order of the reduction;
    `joined` that its rows are joined; `alone` that no other sketch is worth a trial.
    """

    in_order: bool
    joined: bool = False
    is_product: bool = False
    alone: bool = False


def most_lanes(context: Context, element_bytes: int) -> int:
    """The number of sums that three quarters of the vector registers hold."""
    core = context.core
    return core.registers * 3 // 4 * core.lanes(element_bytes)


def _columns(context: Context, state: State, stage_id: int) -> _Columns | None:
    """Describe the stage if it is a long sum of few columns that no rule has tiled; else None."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or not op.reduce_axis or not op.axis:
        return None
    if queries.is_tiled(state, stage_id) or queries.has_cache_write(state, stage_id):
        return None
    column, reduced = op.axis[-1].var, [axis.var for axis in op.reduce_axis]
    loads = [load for load in op.loads if load.indices]
    summed = [load for load in loads if _uses(load, reduced)]
    across = [load for load in summed if linear(load.indices[-1])[1].get(column) == 1]
    if not across or any(_runs_along(load, reduced) for load in summed):
        return None
    elements, terms = queries.cumulative_lengths(state, stage_id)
    columns = extent_of(op.output(0).shape[-1])
    in_order = all(_in_order(load, op.reduce_axis) for load in summed)
    if queries.needs_multi_level_tiling(state, stage_id):
        few = elements <= min(_MOST_PRODUCTS, terms)
        sliced = few and terms >= _LEAST_OF_PRODUCTS
        return _Columns(in_order, is_product=True) if sliced else None
    element = op.output(0).dtype.bytes
    lanes, most = context.core.lanes(element), most_lanes(context, element)
    if terms < _LEAST_TERMS or columns > most:
        return None
    short = columns < _SHORT_ROW * lanes and 2 * columns <= most
    dense = all(extent_of(load.producer.shape[-1]) == columns for load in across)
    tasks = elements // columns * -(-columns // lanes)
    few = tasks < _TASKS_OF_A_THREAD * max(1, context.hardware.num_cores)
    joined = short and dense and in_order
    if not few and not joined:
        return None
    large = few and elements * terms >= _LEAST_ALONE
    return _Columns(in_order, joined, alone=large or (joined and columns % lanes > 0))


def _uses(load: ProducerLoad, variables: Sequence[Var]) -> bool:
    return any(v in variables for index in load.indices for v in free_vars(index))


def _runs_along(load: ProducerLoad, reduced: Sequence[Var]) -> bool:
    """Whether the tensor has several axes, and terms are neighbours along the last one."""
    return len(load.indices) > 1 and any(v in reduced for v in free_vars(load.indices[-1]))


def _in_order(load: ProducerLoad, reductions: Sequence[IterVar]) -> bool:
    """Whether all neighbouring terms have the same distance in memory.

    The reduction's axes then index the tensor in their order and, but for the first, as a whole.
    """
    variables = [axis.var for axis in reductions]
    if len(variables) == 1:
        return any(index is variables[0] for index in load.indices)
    first = next((k for k, index in enumerate(load.indices) if index is variables[0]), None)
    if first is None:
        return False
    inside = [axis.dom.extent for axis in reductions[1:] if axis.dom is not None]
    places = slice(first, first + len(variables))
    read, shape = load.indices[places], load.producer.shape[places]
    return [*read] == variables and [*shape[1:]] == inside


def _slice(context: Context, state: State, stage_id: int) -> Next:
    columns = _columns(context, state, stage_id)
    assert columns is not None
    elements, _ = queries.cumulative_lengths(state, stage_id)
    if columns.in_order:
        state, whole = fuse_reductions(state, stage_id)
    else:
        whole = _longest(context, iters_of(state, stage_id, IterKind.REDUCTION))
    if columns.joined:
        last = len(iters_of(state, stage_id, IterKind.SPATIAL)) - 1
        state, (_, rows) = state.split(stage_id, whole, [1])
        state, _ = state.rfactor(stage_id, rows, last)
        (whole,) = iters_of(state, stage_id, IterKind.REDUCTION)
    state, (slices, _) = state.split(stage_id, whole, [1], inner_to_outer=False)
    state, _ = state.rfactor(stage_id, slices, 0)
    if columns.is_product:
        state = _tiled(state, stage_id)
    else:
        state = _around_rows(state, stage_id, columns.joined)
    serial = elements <= _MOST_SERIAL
    if columns.joined:
        state = _around_rows(state, stage_id + 1, True, serial)
    state = _around_rows(state, stage_id + 1 + columns.joined, False, serial)
    return [(state, stage_id - 1)]


def _terms(state: State, stage_id: int) -> list[Iterator]:
    """The reduction loops of a slice: first what is left of the axis that was cut."""
    *others, left = iters_of(state, stage_id, IterKind.REDUCTION)
    return [left, *others]


def _longest(context: Context, reductions: Sequence[Iterator]) -> Iterator:
    """The first reduction loop that has a slice for each thread, or else the longest one."""
    threads = max(1, context.hardware.num_cores)
    enough = [it for it in reductions if it.extent_or_unknown >= threads]
    return enough[0] if enough else max(reductions, key=lambda it: it.extent_or_unknown)


def _around_rows(state: State, stage_id: int, joined: bool, serial: bool = False) -> State:
    """Reorder loops: the terms go around a row of results, or around the rows that are `joined`.

    Slices, and other loops before the rows, stay outermost, where threads share them; if `serial`,
    they go inside the terms.
    """
    *outer, row = iters_of(state, stage_id, IterKind.SPATIAL)
    terms = _terms(state, stage_id)
    rows = [outer.pop(), row] if joined else [row]
    order = [*terms, *outer, *rows] if serial else [*outer, *terms, *rows]
    state = state.reorder(stage_id, order)
    return state.fuse(stage_id, state.stages[stage_id].iters[-2:])[0] if joined else state


def _tiled(state: State, stage_id: int) -> State:
    """Reorder loops: slices, parts of their terms, tiles of results, terms of a part, a tile."""
    slices, *space = iters_of(state, stage_id, IterKind.SPATIAL)
    *others, last = _terms(state, stage_id)
    state, (parts, terms) = state.split(stage_id, last, [None])
    tiles, inner = [], []
    for it in space:
        state, (tile, within) = state.split(stage_id, it, [None])
        tiles.append(tile)
        inner.append(within)
    return state.reorder(stage_id, [slices, *others, parts, *tiles, terms, *inner])


def _decision(context: Context, state: State, stage_id: int) -> Decision:
    """Exclude other sketches, but not for products and for small sums whose rows fill vectors."""
    columns = _columns(context, state, stage_id)
    if columns is None:
        return Decision.SKIP
    return Decision.APPLY_AND_SKIP_REST if columns.alone else Decision.APPLY


SLICE_COLUMNS = FunctionRule("SliceColumns", _decision, _slice)
