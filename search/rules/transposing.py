"""PackTransposed: vectors along an axis that no operand has innermost, in the space `autosched`.

T[i, j] = sum(k, A[i, k] * W[j, k])         for k, i:
D[i, j] = max(T[i, j], 0)                     A.t[k, i] = A[i, k]
                                      ->    for i.0, j.0:
                                              for k.0, j.1.0, i.1.0, i.1.1, k.1, j.1.1, i.1.2:
                                                T.t[j, i] += A.t[k, i] * W[j, k]
                                              for i.1, j.1:
                                                D[i, j] = max(T.t[j, i], 0)

In such a sum no operand is contiguous along an axis of the result; in an NCHW convolution it is
only along rows of the image, whose last vector is mostly incomplete. The operand that is read most
often is copied with an axis of the result innermost, once, by all threads. The sums have that axis
innermost until they are complete.

The steps are Ansor's: a CHW (cache write) right after an RE (reorder) makes a cache whose axes are
in that order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autosched.cpu_caches import TYPICAL
from autosched.nest.core import core_of
from autosched.search.rules.blocking import (
    LEAST_REUSE,
    PACKED_SCOPE,
    block,
    blockable,
    extent_of,
)
from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import follow_tiling
from autosched.state import queries
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import ProducerLoad, Var
from autosched.tir.walk import free_vars

MOST_BYTES, FAR_BYTES = TYPICAL[1], TYPICAL[2]
"""The largest copied operand in bytes, and the largest whose elements are read FAR_REUSE times or
more."""

FAR_REUSE = 128
"""An operand that does not stay in the second cache takes a nanosecond an element to copy (two
threads of a Zen 3), and 0.02 for each time it is read. The copy does not pay off for 49 reads (a
convolution of 7x7x512, where other sketches take half of the time); it does for 196 reads
(docs/searching.md)."""

TURNED_STAGES = 2

LINE = 64
"""Bytes of a cache line. The copy of an operand larger than MOST_BYTES reads as many rows at once
as fill a line: rows of all channels would lie in a few sets of the first cache, which evicts lines
before their next element is read."""

FULL = 0.95
"""If this share of the lanes is in use along the last axis, no other axis is tried: it could save a
twentieth of the vectors at most, which is not worth the copy (chosen, not measured)."""


class Turned(NamedTuple):
    """A copy to make.

    `operand` is the stage id of the operand, `place` that of the index that becomes its last one,
    and `axis` the number of the axis of the result that this index is.
    """

    operand: int
    place: int
    axis: int


def turned(context: Context, state: State, stage_id: int) -> Turned | None:
    """The copy to make for vectors along another axis; None when none is worth making."""
    op = blockable(state, stage_id)
    if op is None:
        return None
    # Lanes of Ansor's 64 bytes, whatever the CPU has: rows of 56 fill the vectors of AVX2, and a
    # convolution of 56x56x64 gained there nevertheless by packing (1.59 ms, and 1.72 without).
    lanes = core_of(context.hardware.vector_unit_bytes).lanes(op.output(0).dtype.bytes)
    loads = op.loads
    extents = [extent_of(axis.dom.extent) if axis.dom else 0 for axis in op.axis]
    least = 0.0
    if any(load.indices and op.axis[-1].var in free_vars(load.indices[-1]) for load in loads):
        least = _filled(extents[-1], lanes)
        if least >= FULL:
            return None
    found: list[tuple[int, Turned]] = []
    for load in loads:
        for index, axis in _turnable(op, load, loads):
            moved = {v for e in load.indices for v in free_vars(e)}
            still = [n for a, n in zip(op.axis, extents, strict=True) if a.var not in moved]
            reuse = math.prod(still)
            fills = extents[axis] >= lanes and _filled(extents[axis], lanes) > least
            if fills and _is_worth_a_copy(load, reuse):
                operand = [s.op for s in state.stages].index(load.producer.op)
                found.append((reuse, Turned(operand, index, axis)))
    if not found:
        return None
    # Of two operands that are read equally often, the first is copied. A result that other stages
    # read (scores of an attention) is read by rows: there the last axis is preferred.
    inner = not queries.is_output(state, stage_id)
    return max(found, key=lambda pair: (pair[0], inner and pair[1].axis))[1]


def _writer(state: State, stage_id: int) -> int:
    """The stage that writes the sums: the element-by-element consumer, or the stage itself."""
    if queries.is_output(state, stage_id):
        return stage_id
    target = queries.has_single_elementwise_matched_consumer(state, stage_id)
    return target if target >= 0 else stage_id


def _filled(extent: int, lanes: int) -> float:
    """The share of the lanes in use in vectors along an axis of `extent`."""
    return extent / (-(-extent // lanes) * lanes) if extent else 0.0


def _is_worth_a_copy(load: ProducerLoad, reuse: int) -> bool:
    """Whether the operand, each of whose elements is read `reuse` times, is to be copied."""
    most = FAR_BYTES if reuse >= FAR_REUSE else MOST_BYTES
    return reuse >= LEAST_REUSE and 0 < _bytes(load.producer) <= most


def _bytes(tensor: Tensor) -> int:
    """The size of a tensor, 0 where it is not constant."""
    return math.prod(map(extent_of, tensor.shape)) * tensor.dtype.bytes


def _turnable(
    op: ComputeOp, load: ProducerLoad, loads: Sequence[ProducerLoad]
) -> Iterator[tuple[int, int]]:
    """Yield the places of indices of `load` that may become the last, each with a result axis.

    `load` reads an argument. The index is not the last one, and it is an axis of the result that
    no other load and no other index uses. Other loads of the argument read the copy, too: of
    A[i, k] * A[j, k] both do.
    """
    if not isinstance(load.producer.op, PlaceholderOp):
        return
    elsewhere: set[Var] = set()
    for other in loads:
        if other is not load:
            elsewhere.update(v for e in other.indices for v in free_vars(e))
    numbers = {axis.var: number for number, axis in enumerate(op.axis)}
    for index, e in enumerate(load.indices[:-1]):
        uses = sum(e in free_vars(other) for other in load.indices)
        if isinstance(e, Var) and e in numbers and e not in elsewhere and uses == 1:
            yield index, numbers[e]


# ---- the loops


def _with_last(state: State, stage_id: int, axis: int) -> State:
    """Insert a cache with axis number `axis` innermost before the stage, under the stage's id."""
    iters = list(state.stages[stage_id].iters)
    spatial = [it for it in iters if it.kind is IterKind.SPATIAL]
    rest = [it for it in iters if it.kind is not IterKind.SPATIAL]
    last = spatial.pop(axis)
    state = state.reorder(stage_id, [*spatial, last, *rest])
    return state.cache_write(stage_id, PACKED_SCOPE)[0]


def _a_line_at_a_time(state: State, copy: int) -> State:
    """Split the copy of a large operand: rows that fill a cache line, or half, go innermost."""
    tensor = state.stages[copy].op.output(0)
    whole = LINE // tensor.dtype.bytes
    *others, last = state.stages[copy].iters
    rows = math.gcd(last.extent or 1, whole)
    if _bytes(tensor) <= MOST_BYTES or 2 * rows < whole or rows == last.extent:
        return state
    state, (blocks, line) = state.split(copy, last, [rows])
    return state.reorder(copy, [blocks, *others, line])


def turned_copy(state: State, operand: int, place: int, reader: int) -> State:
    """Let `reader` read a copy of an operand whose index number `place` is the last one.

    The copy is TURNED_STAGES stages, after the operand.
    """
    state, copy = state.cache_read(operand, PACKED_SCOPE, [reader])
    state = _a_line_at_a_time(_with_last(state, copy, place), copy)
    return state.compute_inline(copy + 1)


def turnable_to(state: State, stage_id: int, axis: int) -> tuple[int, int] | None:
    """The operand whose copy can be contiguous along axis number `axis`, and the index's place.

    None where there is no such operand of at most FAR_BYTES.
    """
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    for load in op.loads:
        for place, number in _turnable(op, load, op.loads):
            if number == axis and 0 < _bytes(load.producer) <= FAR_BYTES:
                return [s.op for s in state.stages].index(load.producer.op), place
    return None


def _turn(context: Context, state: State, stage_id: int) -> Next:
    found = turned(context, state, stage_id)
    writer = _writer(state, stage_id)
    assert found is not None
    state = turned_copy(state, found.operand, found.place, stage_id)
    stage_id, writer = stage_id + TURNED_STAGES, writer + TURNED_STAGES
    state = _with_last(state, stage_id, found.axis)
    if writer > stage_id:
        state = state.compute_inline(stage_id + 1)
    writer += 1
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    state, split_ids, _ = block(state, stage_id, frozenset({op.axis[-1].var}))
    split_ids.insert(found.axis, split_ids.pop())
    state = follow_tiling(state, writer, split_ids, 1)
    at = state.stages[writer].iters[len(split_ids) - 1]
    return [(state.compute_at(stage_id, writer, at), stage_id - 1)]


PACK_TRANSPOSED = FunctionRule(
    "PackTransposed",
    lambda c, s, i: Decision.APPLY if turned(c, s, i) is not None else Decision.SKIP,
    _turn,
)
