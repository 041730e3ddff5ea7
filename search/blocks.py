"""The sizes of blocks, panels and register tiles of the sketches that rules/blocking.py makes.

Ansor draws tile sizes among the divisors of an extent. What is fast hangs on the machine instead:
rows times vectors that fill its registers, panels that fill a cache, as many blocks as threads.
These sizes are drawn first, and need not divide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from autosched.cpu_caches import TYPICAL
from autosched.search.initial import Rng, pick
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step
from autosched.te.operations.operation import ComputeOp

_PANELS = (1, 2, 3, 4, 8)
"""Register tiles side by side in a panel."""

_SIDES = (1, 1, 2, 4)
"""The same along the other axes of a panel."""

_REDUCTION_PARTS = (1, 1, 2, 3, 4, 8)
_WHOLE_OFTEN = (1, 1)
"""More of the first where registers are few and a panel of two vectors fits: on a Zen 3 the best of
20 random packed candidates took 14.9 ms with all of the reduction and 15.8 with parts (matmul 1024;
medians 17.0 and 17.7), 2.09 and 2.35 (500x1000x333; 2.43 and 2.51)."""

_BLOCKS_OF_A_THREAD, _BLOCKS_HANDED_ON = (1, 2, 4), (1, 2, 4, 8, 16)
"""The second where another stage reads what a block holds: that should still be in a cache."""

_MOST_LOADS, _LEAST_ROWS = 0.75, 3
"""Of a step where registers are few: loads over multiply-adds, and rows that use what is packed. On
a Zen 3 (AVX2, operands in the second cache) tiles of 3 rows of 4 vectors reach 0.82 of the peak,
4x3 and 6x2 0.79, 5x2 and 3x3 0.75, 4x2, 2x4 and 2x6 0.68, one row or one vector 0.45 at most."""

_LEAST_SUMS = 10
"""Accumulators where registers are few, but for tiles that divide both their axes. Two units that
take four cycles each need eight to be busy, and idle where anything is late. A rest costs more:
rows of 56 and 64 channels of a convolution take 1.46 ms in tiles of 4x2, 1.65 in others."""

_MANY_REGISTERS = 32
_LEAST_STEPS = 64
"""Of a part of a reduction: what surrounds it takes longer than fewer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A blocked stage: the steps that split it, and what its sizes depend on.

    `axes` has the index of the first of the two steps of each spatial axis, `reductions` that of
    each reduction's step. `lanes` is how many elements of `element` bytes a vector register holds,
    `registers` how many of those there are. `handed_on`: another stage is computed along with it.
    `most_packed` is how many bytes a panel may have.
    """

    axes: tuple[int, ...]
    reductions: tuple[int, ...]
    lanes: int
    registers: int
    element: int
    threads: int
    handed_on: bool
    most_packed: int


Lengths = dict[int, tuple[int, ...]]
"""The lengths of split steps, by the indices of the steps."""


def nested_splits(steps: Sequence[Step]) -> Iterator[int]:
    """The indices of the SP steps whose inner part the next step splits again.

    No sketch of Ansor's has such.
    """
    for k, (step, following) in enumerate(pairwise(steps)):
        if (
            isinstance(step, SplitStep)
            and isinstance(following, SplitStep)
            and step.stage_id == following.stage_id
            and following.iter_id == step.iter_id + 1 == step.iter_id + len(step.lengths)
        ):
            yield k


def blocked_stages(context: Context, state: State) -> list[Blocks]:
    """The stages that rules/blocking.py has split, whether their sizes are known or not."""
    found: dict[int, list[int]] = {}
    for k in nested_splits(state.steps):
        found.setdefault(queries.current_stage_id(state.steps, k), []).append(k)
    blocks = (_blocks(context, state, stage_id, axes) for stage_id, axes in found.items())
    return [b for b in blocks if b is not None]


def _blocks(context: Context, state: State, stage_id: int, axes: list[int]) -> Blocks | None:
    """The blocks of a stage; None where other splits, of a user's rule, only look like them."""
    stage = state.stages[stage_id]
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis or len(axes) != len(op.axis):
        return None
    first = axes[-1] + 2
    reductions = tuple(range(first, first + len(op.reduce_axis)))
    own = state.steps[axes[0] : reductions[-1] + 1]
    shapes = [len(step.lengths) for step in own if isinstance(step, SplitStep)]
    inner = shapes[1 : 2 * len(axes) : 2]
    whole = len(shapes) == len(own) == 2 * len(axes) + len(reductions)
    if not whole or inner[-1] != 2 or set(inner) - {1, 2} or set(shapes[2 * len(axes) :]) != {1}:
        return None
    core = context.core
    element = op.output(0).dtype.bytes
    return Blocks(
        tuple(axes),
        reductions,
        core.lanes(element),
        core.registers,
        element,
        max(1, context.hardware.num_cores),
        stage.compute_at is ComputeAt.ITER,
        min(context.second_cache, TYPICAL[1]) // 2,
    )


# ---- drawing sizes


def draw(steps: Sequence[Step], blocks: Blocks, rng: Rng) -> Lengths:
    """Lengths for all splits of a blocked stage, at random."""
    extents = [split_step(steps, k).extent or 1 for k in blocks.axes]
    in_panel = [len(split_step(steps, k + 1).lengths) == 2 for k in blocks.axes]
    across = [n for n, inside in enumerate(in_panel) if not inside and extents[n] > 1][::-1]
    rows, width = _register_tile(blocks, rng, extents[across[0]] if across else 1, extents[-1])
    tile = [1] * len(extents)
    tile[-1] = width
    for n in across:
        tile[n] = min(rows, extents[n])
        rows //= tile[n]
        if rows <= 1:
            break
    parts, depth = _reduction(steps, blocks, rng)
    most = extents[-1] + blocks.lanes
    widths = [
        w for w in _PANELS if w == 1 or (w * width < most and _packed(blocks, depth, w * width))
    ]
    panel = widths[pick(rng, len(widths))]
    lengths = dict(parts)
    for k, chunk in zip(blocks.axes, _chunks(blocks, extents, tile, rng), strict=True):
        lengths[k] = (chunk,)
    for n, k in enumerate(blocks.axes):
        side = panel if n == len(extents) - 1 else _SIDES[pick(rng, len(_SIDES))]
        lengths[k + 1] = (side, tile[n]) if in_panel[n] else (tile[n],)
    return lengths


def _register_tile(blocks: Blocks, rng: Rng, height: int, extent: int) -> tuple[int, int]:
    """Rows of `height`, and elements of each, of `extent`: accumulators that leave registers for
    what they multiply. Half of the time the rows divide, where some can, and then both if some do.
    """
    vectors = -(-extent // blocks.lanes)
    tiles = _tiles(blocks.registers, height)
    fitting = [tile for tile in tiles if tile[1] <= vectors] or tiles
    if blocks.registers < _MANY_REGISTERS and height >= _LEAST_ROWS:
        fitting = _of_few_loads(fitting) or fitting
    even = [tile for tile in fitting if height % tile[0] == 0]
    whole = [tile for tile in even if extent % (tile[1] * blocks.lanes) == 0]
    if even and pick(rng, 2):
        fitting = whole or even
    if fitting is not whole and blocks.registers < _MANY_REGISTERS:
        fitting = [tile for tile in fitting if math.prod(tile) >= _LEAST_SUMS] or fitting
    rows, wide = fitting[pick(rng, len(fitting))]
    return rows, min(wide * blocks.lanes, extent)


def _tiles(registers: int, height: int) -> list[tuple[int, int]]:
    """Rows and vectors of each, as many accumulators as leave `registers` for the operands."""
    tiles = [(rows, wide) for wide in range(1, 7) for rows in range(1, 17)]
    if registers >= _MANY_REGISTERS or height < _LEAST_ROWS:
        return [
            (rows, wide)
            for rows, wide in tiles
            if registers // 2 <= rows * wide and rows * wide + wide + 1 <= registers
        ]
    # What has fewer vectors in a step is held in registers, the other passes through one.
    return [
        (rows, wide)
        for rows, wide in tiles
        if registers // 2 <= rows * wide < registers - min(rows, wide)
    ]


def _of_few_loads(tiles: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of a few registers where there are rows enough; none where one vector is all."""
    return [
        (rows, wide)
        for rows, wide in tiles
        if rows >= _LEAST_ROWS and rows + wide <= _MOST_LOADS * rows * wide
    ]


def _reduction(steps: Sequence[Step], blocks: Blocks, rng: Rng) -> tuple[Lengths, int]:
    """The lengths of the reductions' inner parts, and their product: the longest is cut."""
    extents = {k: split_step(steps, k).extent or 1 for k in blocks.reductions}
    longest = max(blocks.reductions, key=lambda k: extents[k])
    total = math.prod(extents.values())
    parts = [p for p in _REDUCTION_PARTS if p == 1 or total // p >= _LEAST_STEPS]
    if blocks.registers < _MANY_REGISTERS and _packed(blocks, total, 2 * blocks.lanes):
        parts += _WHOLE_OFTEN
    extents[longest] = _part(extents[longest], parts[pick(rng, len(parts))], 1)
    return {k: (extent,) for k, extent in extents.items()}, math.prod(extents.values())


def _packed(blocks: Blocks, depth: int, width: int) -> bool:
    """A panel that wide and deep stays in the second cache."""
    return depth * width * blocks.element <= blocks.most_packed


def _chunks(blocks: Blocks, extents: Sequence[int], tile: Sequence[int], rng: Rng) -> list[int]:
    """The size of the blocks along each axis: blocks for all threads, along one axis or two.

    Only one axis may have a smaller last block, which then is the last iteration of the loop over
    all blocks (LoopPartition gives it code of its own).
    """
    counts = _BLOCKS_HANDED_ON if blocks.handed_on else _BLOCKS_OF_A_THREAD
    wanted = blocks.threads * counts[pick(rng, len(counts))]
    chunks = list(extents)
    several = False
    for n in rng.permutation(len(extents)):
        extent = extents[n]
        count = min(wanted, -(-extent // tile[n]))
        if count <= 1:
            continue
        exact = [c for c in range(count, 1, -1) if extent % c == 0]
        if several and not exact:
            continue
        if several or (exact and pick(rng, 2)):
            count = exact[pick(rng, len(exact))] if several else exact[0]
            chunks[n] = extent // count
        else:
            chunks[n] = _part(extent, count, tile[n])
        if extent % chunks[n]:
            return chunks
        several = True
        wanted = -(-wanted // -(-extent // chunks[n]))
    return chunks


def _part(extent: int, parts: int, multiple: int) -> int:
    """The size of `parts` parts of about the same size, of which `multiple` is a factor."""
    size = -(-extent // parts)
    return min(extent, -(-size // multiple) * multiple)


# ---- filling in


def fill_blocks(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the sizes of blocked stages; other splits stay open."""
    for blocks in blocked_stages(context, state):
        if None not in split_step(state.steps, blocks.axes[0]).lengths:
            continue
        lengths = draw(state.steps, blocks, rng)
        state = state.with_steps(_with(state.steps, blocks, lengths))
    return state


def _with(steps: Sequence[Step], blocks: Blocks, lengths: Lengths) -> tuple[Step, ...]:
    """`steps` with these lengths, those inside a block no longer than the block."""
    result = list(steps)
    for k in blocks.reductions:
        result[k] = replace(split_step(steps, k), lengths=lengths[k])
    for k in blocks.axes:
        (chunk,) = lengths[k]
        result[k] = replace(split_step(steps, k), lengths=(chunk,))
        *sides, tile = lengths[k + 1]
        tile = min(tile, chunk)
        inside = (*(min(side, -(-chunk // tile)) for side in sides), tile)
        result[k + 1] = replace(split_step(steps, k + 1), extent=chunk, lengths=inside)
    return tuple(result)


def split_step(steps: Sequence[Step], k: int) -> SplitStep:
    """Step k, which splits a loop."""
    step = steps[k]
    assert isinstance(step, SplitStep)
    return step
