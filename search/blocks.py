"""Draw the sizes of blocks, panels and register tiles for the sketches of rules/blocking.py.

Ansor draws tile sizes among the divisors of an extent. Fast sizes depend on the machine instead:
register tiles (rows times vectors) that fill the registers, panels that fill a cache, and as many
blocks as threads. Such sizes are drawn before all others and need not divide the extent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autosched.cpu_caches import TYPICAL
from autosched.search.initial import Rng, one_of, pick
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step
from autosched.te.operations.operation import ComputeOp

PANELS = (1, 2, 3, 4, 8)
"""How many register tiles lie side by side along the last axis of a panel."""

_SIDES = (1, 1, 2, 4)
"""How many register tiles lie along each other axis of a panel."""

_REDUCTION_PARTS = (1, 1, 2, 3, 4, 8)
_WHOLE_OFTEN = (1, 1)
"""Added to _REDUCTION_PARTS where registers are few and a panel two vectors wide fits the cache: an
uncut reduction is then drawn more often. On a Zen 3 the best of 20 random packed candidates took
14.9 ms with an uncut reduction and 15.8 with parts (matmul 1024; medians 17.0 and 17.7), 2.09 and
2.35 (500x1000x333; 2.43 and 2.51)."""

_BLOCKS_OF_A_THREAD, _BLOCKS_HANDED_ON = (1, 2, 4), (1, 2, 4, 8, 16)
"""Blocks for each thread. The second one holds where another stage reads each block right after it
is computed: the block should still be in a cache."""

_MOST_LOADS, _LEAST_ROWS = 0.75, 3
"""Limits of register tiles where registers are few: loads per multiply-add in a step, and rows that
reuse the packed operand. On a Zen 3 (AVX2, operands in the second cache) tiles of 3 rows of 4
vectors reach 0.82 of the peak, 4x3 and 6x2 0.79, 5x2 and 3x3 0.75, 4x2, 2x4 and 2x6 0.68, one row
or one vector 0.45 at most."""

_LEAST_SUMS = 10
"""The fewest accumulators of a tile where registers are few, unless the tile divides both its axes.
Two multiply-add units with a latency of four cycles need eight accumulators to be busy, and more
to stay busy when an operand is late. A remainder costs more than that: rows of 56 and 64 channels
of a convolution take 1.46 ms in tiles of 4x2, 1.65 in others."""

_MANY_REGISTERS = 32
_LEAST_STEPS = 64
"""The fewest iterations of a part of a reduction: with fewer, the loops around it take longer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A blocked stage: the steps that split it, and what its sizes depend on.

    `axes` has the index of the first of the two SP steps of each spatial axis, `reductions` the
    index of the SP step of each reduction axis. A vector register holds `lanes` elements of
    `element` bytes, and there are `registers` of them. `threads` is the number of cores.
    `handed_on` says that the stage is computed inside the loops of another one. `most_packed` is
    the largest size of a packed panel in bytes.
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
"""The lengths of SP steps, by the index of the step."""


def nested_splits(steps: Sequence[Step]) -> Iterator[int]:
    """Yield the index of each SP step whose inner loop the next step splits again.

    Ansor's sketches have no such steps.
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
    """The stages that rules/blocking.py has split, with sizes drawn or still open."""
    found: dict[int, list[int]] = {}
    for k in nested_splits(state.steps):
        found.setdefault(queries.current_stage_id(state.steps, k), []).append(k)
    blocks = (_blocks(context, state, stage_id, axes) for stage_id, axes in found.items())
    return [b for b in blocks if b is not None]


def _blocks(context: Context, state: State, stage_id: int, axes: list[int]) -> Blocks | None:
    """The blocks of a stage; None if its nested splits are those of another rule (a user's)."""
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
    """Draw the lengths of all splits of a blocked stage."""
    extents = [split_step(steps, k).extent or 1 for k in blocks.axes]
    in_panel = [len(split_step(steps, k + 1).lengths) == 2 for k in blocks.axes]
    across = [n for n, inside in enumerate(in_panel) if not inside and extents[n] > 1][::-1]
    rows, width = register_tile(blocks, rng, extents[across[0]] if across else 1, extents[-1])
    tile = [1] * len(extents)
    tile[-1] = width
    for n in across:
        tile[n] = min(rows, extents[n])
        rows //= tile[n]
        if rows <= 1:
            break
    parts, depth = reduction_parts(steps, blocks, rng)
    most = extents[-1] + blocks.lanes
    widths = [
        w for w in PANELS if w == 1 or (w * width < most and fits_panel(blocks, depth, w * width))
    ]
    panel = one_of(rng, widths)
    lengths = dict(parts)
    for k, chunk in zip(blocks.axes, _chunks(blocks, extents, tile, rng), strict=True):
        lengths[k] = (chunk,)
    for n, k in enumerate(blocks.axes):
        side = panel if n == len(extents) - 1 else one_of(rng, _SIDES)
        lengths[k + 1] = (side, tile[n]) if in_panel[n] else (tile[n],)
    return lengths


def register_tile(blocks: Blocks, rng: Rng, height: int, extent: int) -> tuple[int, int]:
    """Draw a register tile: its rows, of `height`, and the elements of a row, of `extent`.

    The accumulators leave registers for the operands. Half of the time the tile is one whose rows
    divide `height`, if there is any, and of these one that also divides `extent`, if there is any.
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
    rows, wide = one_of(rng, fitting)
    return rows, min(wide * blocks.lanes, extent)


def _tiles(registers: int, height: int) -> list[tuple[int, int]]:
    """The tiles that suit `registers`, as (rows, vectors of a row).

    Their accumulators take half of the registers or more, and leave enough for the operands.
    """
    tiles = [(rows, wide) for wide in range(1, 7) for rows in range(1, 17)]
    if registers >= _MANY_REGISTERS or height < _LEAST_ROWS:
        return [
            (rows, wide)
            for rows, wide in tiles
            if registers // 2 <= rows * wide and rows * wide + wide + 1 <= registers
        ]
    # The operand with fewer vectors in a step is held; the other one passes through one register.
    return [
        (rows, wide)
        for rows, wide in tiles
        if registers // 2 <= rows * wide < registers - min(rows, wide)
    ]


def _of_few_loads(tiles: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The tiles within _LEAST_ROWS and _MOST_LOADS; none if all are one vector wide."""
    return [
        (rows, wide)
        for rows, wide in tiles
        if rows >= _LEAST_ROWS and rows + wide <= _MOST_LOADS * rows * wide
    ]


def reduction_parts(steps: Sequence[Step], blocks: Blocks, rng: Rng) -> tuple[Lengths, int]:
    """Draw the inner lengths of the reductions, of which the longest is cut; also their product."""
    extents = {k: split_step(steps, k).extent or 1 for k in blocks.reductions}
    longest = max(blocks.reductions, key=lambda k: extents[k])
    total = math.prod(extents.values())
    parts = [p for p in _REDUCTION_PARTS if p == 1 or total // p >= _LEAST_STEPS]
    if blocks.registers < _MANY_REGISTERS and fits_panel(blocks, total, 2 * blocks.lanes):
        parts += _WHOLE_OFTEN
    extents[longest] = part_of(extents[longest], one_of(rng, parts), 1)
    return {k: (extent,) for k, extent in extents.items()}, math.prod(extents.values())


def fits_panel(blocks: Blocks, depth: int, width: int) -> bool:
    """Whether a panel of `depth` rows of `width` elements stays in the second cache."""
    return depth * width * blocks.element <= blocks.most_packed


def _chunks(blocks: Blocks, extents: Sequence[int], tile: Sequence[int], rng: Rng) -> list[int]:
    """Draw the size of the blocks along each axis, so that there are blocks for all threads.

    Only one axis may have a smaller last block, which then is the last iteration of the loop over
    all blocks (LoopPartition gives it code of its own).
    """
    counts = _BLOCKS_HANDED_ON if blocks.handed_on else _BLOCKS_OF_A_THREAD
    wanted = blocks.threads * one_of(rng, counts)
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
            count = one_of(rng, exact) if several else exact[0]
            chunks[n] = extent // count
        else:
            chunks[n] = part_of(extent, count, tile[n])
        if extent % chunks[n]:
            return chunks
        several = True
        wanted = -(-wanted // -(-extent // chunks[n]))
    return chunks


def part_of(extent: int, parts: int, multiple: int) -> int:
    """The size of one of `parts` nearly equal parts of `extent`.

    It is rounded up to a multiple of `multiple`, and at most `extent`.
    """
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
    """`steps` with `lengths`, of which those inside a block are cut to the size of the block."""
    result = list(steps)
    for k in blocks.reductions:
        result[k] = split_step(steps, k).with_lengths(lengths[k])
    for k in blocks.axes:
        (chunk,) = lengths[k]
        result[k] = split_step(steps, k).with_lengths((chunk,))
        *sides, tile = lengths[k + 1]
        tile = min(tile, chunk)
        inside = (*(min(side, -(-chunk // tile)) for side in sides), tile)
        result[k + 1] = split_step(steps, k + 1).with_extent(chunk).with_lengths(inside)
    return tuple(result)


def split_step(steps: Sequence[Step], k: int) -> SplitStep:
    """Step `k`, which must be a SplitStep."""
    step = steps[k]
    assert isinstance(step, SplitStep)
    return step
