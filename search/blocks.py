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
from autosched.nest.core import core_of
from autosched.search.initial import Rng, pick
from autosched.search.rules.protocol import Context
from autosched.state import queries
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step

_PANELS = (1, 2, 3, 4, 8)
"""Register tiles side by side in a panel."""

_REDUCTION_PARTS = (1, 1, 2, 3, 4, 8)
_BLOCKS_OF_A_THREAD = (1, 2, 4)
_MOST_PACKED = TYPICAL[1] // 2
_LEAST_STEPS = 64
"""Of a part of a reduction: what surrounds it takes longer than fewer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A blocked stage: the steps that split it, and what its sizes depend on.

    `axes` has the index of the first of the two steps of each spatial axis, `reductions` that of
    each reduction's step. `lanes` is how many elements of `element` bytes a vector register holds,
    `registers` how many of those there are.
    """

    axes: tuple[int, ...]
    reductions: tuple[int, ...]
    lanes: int
    registers: int
    element: int
    threads: int


Lengths = dict[int, tuple[int, ...]]
"""The lengths of split steps, by the indices of the steps."""


def nested_splits(steps: Sequence[Step]) -> Iterator[int]:
    """The indices of the SP steps that make blocks: the next step splits their inner part again.

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
    """The blocked stages of a state, whether their sizes are known or not."""
    steps = state.steps
    found: dict[int, list[int]] = {}
    for k in nested_splits(steps):
        found.setdefault(queries.current_stage_id(steps, k), []).append(k)
    core = core_of(context.hardware.vector_unit_bytes)
    result: list[Blocks] = []
    for stage_id, axes in found.items():
        own = {k + n for k in axes for n in (0, 1)}
        reductions = tuple(
            k
            for k in range(axes[0], len(steps))
            if isinstance(steps[k], SplitStep)
            and k not in own
            and queries.current_stage_id(steps, k) == stage_id
        )
        element = state.stages[stage_id].op.output(0).dtype.bytes
        threads = max(1, context.hardware.num_cores)
        blocks = Blocks(
            tuple(axes), reductions, core.lanes(element), core.registers, element, threads
        )
        result.append(blocks)
    return result


# ---- drawing sizes


def draw(steps: Sequence[Step], blocks: Blocks, rng: Rng) -> Lengths:
    """Lengths for all splits of a blocked stage, at random."""
    extents = [_split(steps, k).extent or 1 for k in blocks.axes]
    in_panel = [len(_split(steps, k + 1).lengths) == 2 for k in blocks.axes]
    rows, width = _register_tile(blocks, rng, extents[-1])
    tile = [1] * len(extents)
    tile[-1] = width
    for n in reversed(range(len(extents))):
        if not in_panel[n] and rows > 1:
            tile[n] = min(rows, extents[n])
            rows //= tile[n]
    parts, depth = _reduction(steps, blocks, rng)
    widths = [w for w in _PANELS if w == 1 or _packed(blocks, depth, w * width, extents[-1])]
    panel = widths[pick(rng, len(widths))]
    lengths = dict(parts)
    for k, chunk in zip(blocks.axes, _chunks(blocks, extents, tile, rng), strict=True):
        lengths[k] = (chunk,)
    for n, k in enumerate(blocks.axes):
        side = panel if n == len(extents) - 1 else 1
        lengths[k + 1] = (side, tile[n]) if in_panel[n] else (tile[n],)
    return lengths


def _register_tile(blocks: Blocks, rng: Rng, extent: int) -> tuple[int, int]:
    """Rows, and elements of each: accumulators that leave registers for what they multiply."""
    most = blocks.registers
    tiles = [
        (rows, vectors)
        for vectors in range(1, 7)
        for rows in range(1, 17)
        if most // 2 <= rows * vectors and rows * vectors + vectors + 1 <= most
    ]
    vectors = -(-extent // blocks.lanes)
    fitting = [tile for tile in tiles if tile[1] <= vectors] or tiles
    rows, vectors = fitting[pick(rng, len(fitting))]
    return rows, min(vectors * blocks.lanes, extent)


def _reduction(steps: Sequence[Step], blocks: Blocks, rng: Rng) -> tuple[Lengths, int]:
    """The lengths of the reductions' inner parts, and their product: the longest is cut."""
    extents = {k: _split(steps, k).extent or 1 for k in blocks.reductions}
    longest = max(blocks.reductions, key=lambda k: extents[k])
    total = math.prod(extents.values())
    parts = [p for p in _REDUCTION_PARTS if p == 1 or total // p >= _LEAST_STEPS]
    extents[longest] = _part(extents[longest], parts[pick(rng, len(parts))], 1)
    return {k: (extent,) for k, extent in extents.items()}, math.prod(extents.values())


def _packed(blocks: Blocks, depth: int, width: int, extent: int) -> bool:
    """A panel that wide and deep stays in the second cache, and is no wider than all there is."""
    return depth * width * blocks.element <= _MOST_PACKED and width < extent + blocks.lanes


def _chunks(blocks: Blocks, extents: Sequence[int], tile: Sequence[int], rng: Rng) -> list[int]:
    """The size of the blocks along each axis: blocks for all threads, along one axis or two.

    Only one axis may have a smaller last block, which then is the last iteration of the loop over
    all blocks (LoopPartition gives it code of its own).
    """
    wanted = blocks.threads * _BLOCKS_OF_A_THREAD[pick(rng, len(_BLOCKS_OF_A_THREAD))]
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


# ---- filling in and mutating


def fill_blocks(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the sizes of blocked stages; other splits stay open."""
    for blocks in blocked_stages(context, state):
        lengths = draw(state.steps, blocks, rng)
        state = state.with_steps(_with(state.steps, blocks, lengths))
    return state


def mutate_blocks(context: Context, steps: Sequence[Step], rng: Rng) -> tuple[Step, ...] | None:
    """Draw anew the blocks of a stage, its panels and tiles, or the parts of its reductions."""
    stages = blocked_stages(context, context.dag.state_of(steps))
    blocks = stages[pick(rng, len(stages))]
    drawn = draw(steps, blocks, rng)
    kinds = (blocks.axes, tuple(k + 1 for k in blocks.axes), blocks.reductions)
    kept = {k: _split(steps, k).lengths for kind in kinds for k in kind}
    changed = kinds[pick(rng, len(kinds))]
    lengths = {k: drawn[k] if k in changed else _known(old) for k, old in kept.items()}
    mutated = _with(steps, blocks, lengths)
    return None if mutated == tuple(steps) else mutated


def _with(steps: Sequence[Step], blocks: Blocks, lengths: Lengths) -> tuple[Step, ...]:
    """`steps` with these lengths, those inside a block no longer than the block."""
    result = list(steps)
    for k in blocks.reductions:
        result[k] = replace(_split(steps, k), lengths=lengths[k])
    for k in blocks.axes:
        (chunk,) = lengths[k]
        result[k] = replace(_split(steps, k), lengths=(chunk,))
        *sides, tile = lengths[k + 1]
        tile = min(tile, chunk)
        inside = (*(min(side, -(-chunk // tile)) for side in sides), tile)
        result[k + 1] = replace(_split(steps, k + 1), extent=chunk, lengths=inside)
    return tuple(result)


def _split(steps: Sequence[Step], k: int) -> SplitStep:
    step = steps[k]
    assert isinstance(step, SplitStep)
    return step


def _known(lengths: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(length for length in lengths if length is not None)
