"""Choose which iterations of a loop nest become vector lanes.

Loops over consecutive outputs become lanes. Where the reads are contiguous only along the
reduction, the lanes hold partial results of one output instead, which are folded at the end. A loop
whose extent is not a multiple of the vector length is cut into two nests.

    for i in 25: C[i*4 : +4] = ...   ->   for i in 6: C[i*16 : +16] = ...;  C[96 : +4] = ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from autosched.nest.loop_nest import Fold, InnerLoop, LoopNest, Slice, Take, Unlane

LEAST_LANES = 4
"""The fewest lanes along a reduction that are worth folding."""

MOST_DEALT, LEAST_READ = 4, 256
"""A reduction of at most `MOST_DEALT` steps (the largest stride that `codegen/llvm_memory.py` deals
out) deals its reads out to the lanes of outputs rather than folding lanes, where at least
`LEAST_READ` elements are read. A shorter row may have been stored just before in vectors of that
few lanes, and a load that spans several stores waits until they have left the core (some 100 at
most)."""


def lanes_from(extent: int, limit: int) -> int:
    """How many iterations of a loop of `extent` become lanes, at most `limit`.

    A power of two that divides the extent, or all iterations of a short loop with an odd factor.
    """
    power = extent & -extent
    if power >= limit:
        return 1 << (limit.bit_length() - 1)
    return extent if extent <= limit and extent > 2 * power else power


def scheduled_lanes(loops: tuple[InnerLoop, ...], reads: int) -> LoopNest:
    """Describe a nest in which the loop that the schedule vectorises has become lanes.

    `reads` is the number of reads. Loops that run once are left out. A vectorised loop that
    reduces, or that has no vector form, stays a scalar loop.
    """
    running = tuple(loop for loop in loops if loop.extent > 1)
    nest = LoopNest(running, 1, (0,) * reads)
    for k in range(len(running) - 1, -1, -1):
        loop = running[k]
        if loop.vector:
            if loop.reduces or not _takes(loop, loop.extent):
                return nest
            whole = _taken(nest, k, loop.extent)
            rest = (*whole.loops[:k], *whole.loops[k + 1 :])
            return replace(whole, loops=rest, own=loop.stride, moves=())
    return nest


def output_lanes(nest: LoopNest, fit: int, *, folds: bool = False) -> Iterator[LoopNest]:
    """Yield the nests that replace `nest`, with vectors of up to `fit` lanes, in execution order.

    With `folds`, lanes may hold partial results of the reduction where that is better.
    """
    wide = nest
    while wide.width < fit and (wider := _widened(wide, fit)) is not None:
        wide = wider
    if folds and (2 * wide.width < fit or wide.gathers) and not _is_dealt(nest, fit):
        folded = list(_folded(nest, fit))
        if folded:
            yield from folded
            return
    parts = _cut(nest, fit) if 2 * wide.width < fit or _is_long(wide, nest, fit) else []
    for part in parts:
        yield from output_lanes(part, fit, folds=folds)
    if not parts:
        yield wide


def _is_dealt(nest: LoopNest, fit: int) -> bool:
    """Whether each vector of memory is loaded once and dealt out to lanes of consecutive outputs.

        for i in 64: for k in 4: C[i] += A[i*4 + k]

    The few steps of the reduction must read all elements between the reads of neighbouring lanes.
    """
    steps = math.prod([loop.extent for loop in nest.loops if loop.reduces])
    if nest.width > 1 or steps > MOST_DEALT or nest.iterations < LEAST_READ:
        return False
    for loop in nest.loops:
        if loop.stride == 1 and 2 * loop.extent >= fit:
            even = not loop.conditional and not any(loop.blocks) and _takes(loop, fit)
            return even and all(0 <= read <= steps for read in loop.reads)
    return False


def _widened(nest: LoopNest, fit: int) -> LoopNest | None:
    """The nest with lanes from the loop whose stride is the current width; None without any."""
    for k, loop in enumerate(nest.loops):
        if loop.stride == nest.width and loop.extent > 1:
            count = lanes_from(loop.extent, fit // nest.width)
            return _taken(nest, k, count) if count > 1 and _continues(nest, loop, count) else None
    return None


def _takes(loop: InnerLoop, count: int) -> bool:
    """Whether `count` scalar iterations of the loop have a vector form."""
    return not loop.lanes or loop.lanes % count == 0


def _continues(nest: LoopNest, loop: InnerLoop, count: int) -> bool:
    """Whether `count` iterations of `loop` can become lanes.

    If the nest has lanes, every read must continue along the loop at the distance of its lanes.
    """
    if not _takes(loop, count):
        return False
    if nest.width == 1:
        return True
    if nest.closed or loop.conditional or any(nest.apart) or any(loop.blocks):
        return False
    return all(read == step * nest.width for read, step in zip(loop.reads, nest.steps, strict=True))


def _taken(nest: LoopNest, k: int, count: int) -> LoopNest:
    """The nest with `count` iterations of its k-th loop as lanes."""
    loop = nest.loops[k]
    less = loop._replace(
        extent=loop.extent // count,
        stride=loop.stride * count,
        reads=tuple([read * count for read in loop.reads]),
        blocks=tuple([block and max(1, block // count) for block in loop.blocks]),
    )
    first = nest.width == 1
    return LoopNest(
        (*nest.loops[:k], less, *nest.loops[k + 1 :]),
        nest.width * count,
        loop.reads if first else nest.steps,
        nest.own,
        tuple([block % count > 0 for block in loop.blocks]) if first else nest.apart,
        loop.conditional if first else nest.closed,
        (*nest.moves, Take(k, count)),
    )


def _is_long(wide: LoopNest, nest: LoopNest, fit: int) -> bool:
    """Whether the lanes of `wide` leave registers partly empty although `nest` stores enough
    consecutive elements to fill at least two."""
    if wide.width >= fit:
        return False
    return any(p.stride == nest.width and p.extent * nest.width >= 2 * fit for p in nest.loops)


def _cut(nest: LoopNest, fit: int) -> list[LoopNest]:
    """Cut the nest in two where the loop over consecutive outputs leaves a rest beyond whole
    vectors; an empty list where it does not."""
    for k, loop in enumerate(nest.loops):
        if loop.stride == nest.width:
            rest = loop.extent % max(1, fit // nest.width)
            return _split_at(nest, k, loop.extent - rest) if 0 < rest < loop.extent else []
    return []


def _split_at(nest: LoopNest, k: int, at: int) -> list[LoopNest]:
    """Two nests: the first `at` iterations of the k-th loop, and its remaining iterations."""
    loop = nest.loops[k]
    return [
        replace(
            nest,
            loops=(*nest.loops[:k], loop._replace(extent=extent), *nest.loops[k + 1 :]),
            moves=(*nest.moves, Slice(k, start, extent)),
        )
        for start, extent in ((0, at), (at, loop.extent - at))
    ]


def _folded(nest: LoopNest, fit: int) -> Iterator[LoopNest]:
    """Yield nests with partial results in lanes; none where that would make a read gather."""
    scalar = _unlaned(nest)
    for k in range(len(scalar.loops) - 1, -1, -1):
        loop = scalar.loops[k]
        rest = loop.extent % fit
        if loop.reduces and loop.extent >= fit and rest:
            first, second = _split_at(scalar, k, loop.extent - rest)
            whole = _folded_whole(first, fit)
            if whole is not None:
                yield whole
                yield _folded_rest(second, k) or _folded_whole(second, fit) or second
                return
    whole = _folded_whole(scalar, fit)
    if whole is not None:
        yield whole


def _unlaned(nest: LoopNest) -> LoopNest:
    """The nest with its lanes turned back into an innermost loop."""
    if nest.width == 1:
        return nest
    blocks = tuple([int(apart) for apart in nest.apart])
    lane = InnerLoop(nest.width, 1, nest.steps, blocks=blocks, conditional=nest.closed)
    moves = (*nest.moves, Unlane())
    return LoopNest((*nest.loops, lane), 1, (0,) * len(nest.steps), moves=moves)


def _folded_rest(scalar: LoopNest, k: int) -> LoopNest | None:
    """The nest with all iterations of the k-th loop, too few for a whole vector, as lanes; None
    when they cannot be."""
    nest = replace(scalar, moves=(*scalar.moves, Fold()))
    loop = nest.loops[k]
    if loop.extent < LEAST_LANES or nest.width > 1 or not _continues(nest, loop, loop.extent):
        return None
    wider = _taken(nest, k, loop.extent)
    return None if wider.gathers else replace(wider, own=0)


def _folded_whole(scalar: LoopNest, fit: int) -> LoopNest | None:
    nest = replace(scalar, moves=(*scalar.moves, Fold()))
    for k in range(len(scalar.loops) - 1, -1, -1):
        loop = nest.loops[k]
        count = min(loop.extent & -loop.extent, fit // nest.width)
        if loop.reduces and count > 1 and _continues(nest, loop, count):
            wider = _taken(nest, k, count)
            nest = nest if wider.gathers else wider
    if nest.width < min(fit, LEAST_LANES) or nest.width == 1:
        return None
    return replace(nest, own=0)
