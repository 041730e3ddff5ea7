"""FuseTiles: compute Winograd convolutions tile row by tile row, in the space `autosched`.

Y = inverse(M), M = V * U, V = transformed(X)    ->    for n, th.0:         parallel
                                                         pad, R, V          of these rows of tiles
                                                         M                  a product each element
                                                         S, T
                                                         for th.1, tw, co: Y = ...

Where channels come before rows and columns, Y is stored along columns instead. Ansor computes each
of these stages as a whole before the next one: their results are several times as large as the
image, and leave the caches. Here a transform is computed in vectors of channels, with the loops of
its constants unrolled around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from autosched.search.rules.protocol import Context, Decision, FunctionRule, Next
from autosched.search.rules.tiling import iters_of
from autosched.state import queries
from autosched.state.iterator import Annotation, IterKind
from autosched.state.state import State
from autosched.state.steps import AnnotationStep, SplitStep, Step
from autosched.te.operations.operation import CONST_TENSOR_ATTR, ComputeOp, Operation
from autosched.tir.expr import FloorDiv, IntImm, Var

_PRODUCT_AXES = 3
"""The fewest spatial axes of the product: rows of tiles, columns of tiles, and channels."""


@dataclass(frozen=True)
class _Tiles:
    """A convolution in tiles, seen from its output.

    `sizes` maps each axis of the output that runs through tiles to the elements of a tile along it.
    `channels` is the axis of channels. `stages` are all stages before the output, the last first:
    the `product`, the `transforms` around it, the `reader` of the transformed tiles (which may be
    the output instead), and others.
    """

    sizes: dict[int, int]
    channels: int
    stages: tuple[int, ...]
    transforms: frozenset[int]
    product: int
    reader: int


def _tiles(state: State, stage_id: int) -> _Tiles | None:
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp) or op.reduce_axis or not queries.is_output(state, stage_id):
        return None
    if queries.is_tiled(state, stage_id):
        return None
    found: set[int] = set()
    work = [stage_id]
    while work:
        for producer in _computed_producers(state, work.pop()):
            if producer not in found:
                found.add(producer)
                work.append(producer)
    inside = found | {stage_id}
    if any(not inside.issuperset(queries.consumers(state, k)) for k in found):
        return None  # another stage reads a result that would be computed for some rows only
    transforms = {k for k in found if _is_transform(state, k)}
    products = [k for k in found - transforms if queries.has_reduce_iter(state, k)]
    readers = [
        k
        for k in inside - transforms - {*products}
        if transforms.intersection(_computed_producers(state, k))
    ]
    if len(products) != 1 or len(readers) != 1:
        return None
    if len(iters_of(state, products[0], IterKind.SPATIAL)) < _PRODUCT_AXES:
        return None
    (reader,) = readers
    sizes = _tile_sizes(state.stages[reader].op)
    if reader != stage_id and not queries.elementwise_match(state, reader, stage_id):
        return None
    channels = _channels(sizes, len(op.axis))
    if channels is None:
        return None
    stages = tuple(sorted(found, reverse=True))
    return _Tiles(sizes, channels, stages, frozenset(transforms), products[0], reader)


def _channels(sizes: dict[int, int], axes: int) -> int | None:
    """The axis of channels: the last one, or the one before the tiled axes if those are last.

    None if there is neither.
    """
    if not sizes:
        return None
    last = axes - 1
    if last not in sizes:
        return last
    first = min(sizes)
    return first - 1 if first and len(sizes) == axes - first else None


def _is_transform(state: State, stage_id: int) -> bool:
    """Whether the stage is a product with constants whose last axis is not one of theirs."""
    constants = queries.stage_attr_names(state, stage_id, CONST_TENSOR_ATTR)
    spatial = iters_of(state, stage_id, IterKind.SPATIAL)
    return bool(constants) and spatial[-1].name not in constants


def _computed_producers(state: State, stage_id: int) -> list[int]:
    producers = queries.direct_producers(state, stage_id)
    return [k for k in producers if not state.stages[k].is_placeholder]


def _tile_sizes(op: Operation) -> dict[int, int]:
    """The tile size by axis: the divisor of the axis in the indices of reads."""
    assert isinstance(op, ComputeOp)
    found: dict[int, int] = {}
    axes = {axis.var: k for k, axis in enumerate(op.axis)}
    for index in (index for load in op.loads for index in load.indices):
        if isinstance(index, FloorDiv) and isinstance(index.a, Var) and index.a in axes:
            if isinstance(index.b, IntImm):
                found[axes[index.a]] = index.b.value
    return found


def _fuse(context: Context, state: State, stage_id: int) -> Next:
    tiles = _tiles(state, stage_id)
    assert tiles is not None
    outer, inside = [], []
    for axis, it in enumerate(list(state.stages[stage_id].iters)):
        if axis in tiles.sizes:
            state, (tile, element) = state.split(stage_id, it, [tiles.sizes[axis]])
            state, element = state.unroll(stage_id, element)
            outer.append(tile)
            inside.append(element)
        else:
            outer.append(it)
    first, own = min(tiles.sizes), tiles.channels
    state, (row, rows) = state.split(stage_id, outer[first], [None])
    state, (blocks, channels) = state.split(stage_id, outer[own], [None])
    if own > first:  # vectors run along channels
        order = [*outer[:first], row, rows, *outer[first + 1 : own], blocks, *inside, channels]
    else:  # vectors run along columns, in which the elements of a row are contiguous
        *upper, last = inside
        columns = outer[first + 1 :]
        order = [*outer[:own], row, rows, blocks, channels, *upper, *columns, last]
    state = state.reorder(stage_id, order)
    for stage in tiles.stages:
        if stage in tiles.transforms:
            state = _transform(state, stage)
        elif stage == tiles.product:
            state = _product(state, stage)
        elif stage == tiles.reader or queries.is_strictly_inlineable(state, stage):
            state = state.compute_inline(stage)
            continue
        state = state.compute_at(stage, stage_id, row)
    return [(state, tiles.stages[-1] - 1)]


def _transform(state: State, stage_id: int) -> State:
    """Split the channels into vectors, and unroll the loops of the constants around them."""
    constants = queries.stage_attr_names(state, stage_id, CONST_TENSOR_ATTR)
    iters = state.stages[stage_id].iters
    unrolled = [it for it in iters if it.name in constants]
    others = [it for it in iters if it.name not in constants]
    state, (blocks, channels) = state.split(stage_id, others[-1], [None])
    state = state.reorder(stage_id, [*others[:-1], blocks, *unrolled, channels])
    for it in unrolled:
        state, _ = state.unroll(stage_id, it)
    return state


def _product(state: State, stage_id: int) -> State:
    """Block the product: for each element of a tile it is a matrix product, tiles by channels."""
    spatial = iters_of(state, stage_id, IterKind.SPATIAL)
    terms = iters_of(state, stage_id, IterKind.REDUCTION)
    elements, rows, columns, channels = spatial[:-3], spatial[-3], spatial[-2], spatial[-1]
    state, (columns, column) = state.split(stage_id, columns, [None])
    state, (blocks, channel) = state.split(stage_id, channels, [None])
    return state.reorder(stage_id, [*elements, columns, blocks, *terms, rows, column, channel])


def tile_splits(steps: Sequence[Step]) -> frozenset[int]:
    """The indices of the splits into tiles, whose lengths must not change.

    The step after such a split unrolls its inner loop.
    """
    return frozenset(
        k
        for k, (step, following) in enumerate(pairwise(steps))
        if isinstance(step, SplitStep)
        and isinstance(following, AnnotationStep)
        and following.annotation is Annotation.UNROLL
        and following.stage_id == step.stage_id
        and following.iter_id == step.iter_id + 1 == step.iter_id + len(step.lengths)
    )


FUSE_TILES = FunctionRule(
    "FuseTiles",
    lambda _, s, i: Decision.SKIP if _tiles(s, i) is None else Decision.APPLY,
    _fuse,
)
