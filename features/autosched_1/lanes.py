"""Which loops around a store become lanes of vectors: foreseen from strides alone.

The same steps as of the code generator (transform/vector/reduction_nest.py), which works on
expressions: a vectorised loop has its lanes, loops over consecutive outputs add theirs, a loop that
does not divide into vectors is cut in two, and sums whose operands are contiguous only along the
reduction take their lanes from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autosched.transform.vector.reduction_nest import LEAST_LANES, lanes_from


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop of the nest around a store: `stride` is how far it moves the stored element, `reads`
    how far each element that is read, all in elements. `vector`: the schedule vectorises it."""

    extent: int
    stride: int
    reads: tuple[int, ...]
    vector: bool = False


@dataclass(frozen=True, slots=True)
class LaneNest:
    """A store of `width` neighbouring elements at a time inside `loops` (outermost first).

    `steps` is how far apart the lanes of each read are, `own` those of the store: 0 where they are
    parts of one output's sum instead.
    """

    loops: tuple[InnerLoop, ...]
    width: int
    steps: tuple[int, ...]
    own: int = 1

    @property
    def folded(self) -> bool:
        """Whether the lanes run along the reduction."""
        return self.own == 0

    @property
    def scattered(self) -> bool:
        """Whether the lanes are stored apart, which the code generator leaves as it is."""
        return self.own not in (0, 1)

    @property
    def iterations(self) -> int:
        """Of single elements."""
        return self.width * math.prod(loop.extent for loop in self.loops)

    @property
    def gathers(self) -> int:
        """Reads whose lanes are neither one element nor neighbours."""
        return sum(map(self.gathered, range(len(self.steps))))

    def gathered(self, read: int) -> bool:
        return self.width > 1 and self.steps[read] not in (0, 1)


def lane_nests(
    loops: tuple[InnerLoop, ...], reads: int, fit: int, *, reduces: bool
) -> Iterator[LaneNest]:
    """The nests that `loops` become, for vectors of `fit` lanes."""
    running = [loop for loop in loops if loop.extent > 1]
    vectors = [k for k, loop in enumerate(running) if loop.vector]
    nest = LaneNest(tuple(running), 1, (0,) * reads)
    if vectors:
        lane = running.pop(vectors[-1])
        nest = LaneNest(tuple(running), lane.extent, lane.reads, lane.stride)
    if nest.own == 1:
        yield from _vectorised(nest, fit, reduces)
    else:
        yield nest


def _vectorised(nest: LaneNest, fit: int, reduces: bool) -> Iterator[LaneNest]:
    wide = nest
    while wide.width < fit and (wider := _widened(wide, fit)) is not None:
        wide = wider
    if reduces and (2 * wide.width < fit or wide.gathers):
        folded = list(_folded(nest, fit))
        if folded:
            yield from folded
            return
    parts = _cut(nest, fit) if 2 * wide.width < fit else []
    for part in parts:
        yield from _vectorised(part, fit, reduces)
    if not parts:
        yield wide


def _cut(nest: LaneNest, fit: int) -> list[LaneNest]:
    """The nest in two where the loop over consecutive outputs is longer than whole vectors."""
    for k, loop in enumerate(nest.loops):
        if loop.stride == nest.width:
            rest = loop.extent % max(1, fit // nest.width)
            return _at(nest, k, loop.extent - rest) if 0 < rest < loop.extent else []
    return []


def _at(nest: LaneNest, k: int, count: int) -> list[LaneNest]:
    """Two nests: `count` iterations of the k-th loop, and the others."""
    loop = nest.loops[k]
    return [
        replace(nest, loops=(*nest.loops[:k], replace(loop, extent=e), *nest.loops[k + 1 :]))
        for e in (count, loop.extent - count)
    ]


def _widened(nest: LaneNest, fit: int) -> LaneNest | None:
    """The nest with lanes from the loop that moves the store by just its lanes."""
    found = [k for k, loop in enumerate(nest.loops) if loop.stride == nest.width]
    if not found:
        return None
    loop = nest.loops[found[0]]
    count = lanes_from(loop.extent, fit // nest.width)
    return _taken(nest, found[0], count) if count > 1 and _continues(nest, loop) else None


def _continues(nest: LaneNest, loop: InnerLoop) -> bool:
    """Whether the lanes of every read go on along `loop` as they began."""
    return nest.width == 1 or all(
        read == step * nest.width for read, step in zip(loop.reads, nest.steps, strict=True)
    )


def _taken(nest: LaneNest, k: int, count: int) -> LaneNest:
    """The nest with `count` iterations of its k-th loop as lanes."""
    loop = nest.loops[k]
    reads = tuple(read * count for read in loop.reads)
    less = InnerLoop(loop.extent // count, loop.stride * count, reads)
    steps = loop.reads if nest.width == 1 else nest.steps
    loops = (*nest.loops[:k], less, *nest.loops[k + 1 :])
    return replace(nest, loops=loops, width=nest.width * count, steps=steps)


def _folded(nest: LaneNest, fit: int) -> Iterator[LaneNest]:
    """Nests with partial results in lanes; none when loads are not contiguous that way."""
    loops = nest.loops
    if nest.width > 1:
        loops = (*loops, InnerLoop(nest.width, 1, nest.steps))
    scalar = LaneNest(loops, 1, (0,) * len(nest.steps))
    for k in range(len(loops) - 1, -1, -1):
        loop = loops[k]
        rest = loop.extent % fit
        if loop.stride == 0 and loop.extent >= fit and rest:
            first, second = _at(scalar, k, loop.extent - rest)
            whole = _folded_whole(first, fit)
            if whole is not None:
                yield whole
                yield _folded_whole(second, fit) or second
                return
    whole = _folded_whole(scalar, fit)
    if whole is not None:
        yield whole


def _folded_whole(scalar: LaneNest, fit: int) -> LaneNest | None:
    nest = scalar
    for k in range(len(scalar.loops) - 1, -1, -1):
        loop = nest.loops[k]
        count = min(loop.extent & -loop.extent, fit // nest.width)
        if loop.stride == 0 and count > 1 and _continues(nest, loop):
            wider = _taken(nest, k, count)
            nest = nest if wider.gathers else wider
    if nest.width < min(fit, LEAST_LANES) or nest.width == 1:
        return None
    return replace(nest, own=0)
