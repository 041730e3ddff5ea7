"""TurnInShared: turn (transpose) tiles in a GPU's shared memory, in the space `autosched`.

Y[.., j, i] = f(X[.., i, j])    ->    for .., j.0, i.0:             blocks
                                        X.shared[...] = X[...]      a tile, by all threads
                                        for j.1:
                                          for j.2, i.1:             threads
                                            Y[.., j, i] = f(X.shared[.., i, j])

If the last axis of the result is not the last axis of an operand, the operand is read against the
order of memory: each thread of a warp moves 32 bytes for one element. Here threads fetch a tile of
the operand along its rows instead. The rows of the tile are padded by a bank, so that the elements
of a column lie in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from autosched.search.rules.blocking import extent_of
from autosched.search.rules.common import always_inlinable
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.state import queries
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import Var
from autosched.tir.gpu import BANK, BANKS

THREADS = 256
"""The most threads of a block."""

LEAST_EDGE = 8
"""The least edge of a tile: a sector of 32 bytes then has elements for several threads."""


class Read(NamedTuple):
    """A read against the order of memory.

    `width` is the bytes of an element, `reader` and `operand` are stage ids. `row` is the axis of
    the reader that is the operand's last, `column` the axis of the operand that is the reader's
    last.
    """

    width: int
    reader: int
    operand: int
    row: int
    column: int


def _chain(context: Context, state: State, stage_id: int) -> Iterator[int]:
    """Yield the stage, and the stages that will be inlined into it element by element."""
    yield stage_id
    for producer in queries.direct_producers(state, stage_id):
        target = queries.has_single_elementwise_matched_consumer(state, producer)
        if target == stage_id and always_inlinable(context, state, producer):
            yield from _chain(context, state, producer)


def _turned_reads(context: Context, state: State, stage_id: int) -> Iterator[Read]:
    """Yield the reads whose indices are a permutation of the axes with another axis last."""
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    sizes = {axis.var: extent_of(axis.dom.extent) if axis.dom else 0 for axis in op.axis}
    variables = list(sizes)
    loads = op.loads
    for load in loads:
        indices = [index for index in load.indices if isinstance(index, Var)]
        permuted = len(indices) == len(load.indices) and sorted(map(id, indices)) == sorted(
            map(id, variables)
        )
        once = sum(other.producer is load.producer for other in loads) == 1
        if not once or not permuted or not indices or indices[-1] is variables[-1]:
            continue
        if min(sizes[indices[-1]], sizes[variables[-1]]) < LEAST_EDGE:
            continue
        operand = [s.op for s in state.stages].index(load.producer.op)
        if state.stages[operand].is_placeholder or always_inlinable(context, state, operand):
            row, column = variables.index(indices[-1]), indices.index(variables[-1])
            yield Read(load.dtype.bytes, stage_id, operand, row, column)


def turned_read(context: Context, state: State, stage_id: int) -> Read | None:
    """The read against the order of memory with the widest elements; None without one."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not queries.is_output(state, stage_id):
        return None
    if queries.needs_multi_level_tiling(state, stage_id) or queries.is_tiled(state, stage_id):
        return None
    chain = _chain(context, state, stage_id)
    return max((r for k in chain for r in _turned_reads(context, state, k)), default=None)


def _turn(context: Context, state: State, stage_id: int) -> Next:
    read = turned_read(context, state, stage_id)
    assert read is not None
    bank = max(1, BANK // read.width)
    edge = BANKS * min(bank, 2)
    state, tile = state.cache_read(read.operand, "shared", [read.reader])
    stage_id += 1
    iters = state.stages[stage_id].iters
    sizes = [it.extent or 1 for it in iters]
    width = min(edge, sizes[-1])
    height = min(edge, sizes[read.row])
    step = math.gcd(height, max(1, THREADS // width))
    state, (row_tiles, row) = state.split(stage_id, iters[read.row], [height])
    state, (steps, row) = state.split(stage_id, row, [step])
    state, (column_tiles, lane) = state.split(stage_id, iters[-1], [width])
    others = [it for n, it in enumerate(iters[:-1]) if n != read.row]
    state = state.reorder(stage_id, [*others, row_tiles, column_tiles, steps, row, lane])
    blocks = state.stages[stage_id].iters[: len(iters)]
    state, block = state.fuse(stage_id, blocks)
    state, block = state.bind(stage_id, block, "blockIdx.x")
    state, threads = state.fuse(stage_id, state.stages[stage_id].iters[-2:])
    state, _ = state.bind(stage_id, threads, "threadIdx.x")
    state = state.compute_at(tile, stage_id, block)
    padded = state.stages[tile].iters[read.column]
    state = state.storage_align(tile, padded, BANKS * bank, bank)
    return [(state, stage_id - 1)]


TURN_IN_SHARED = FunctionRule(
    "TurnInShared",
    lambda c, s, i: Decision.APPLY if turned_read(c, s, i) is not None else Decision.SKIP,
    _turn,
)
