"""A loop nest around one store, described in numbers: extents, strides and lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class InnerLoop(NamedTuple):
    """A loop of the nest: `stride` is how far it moves the stored element, 0 when it reduces;
    `reads` how far each element that is read, all in elements.

    An index with a quotient or remainder of the loop's variable moves evenly only inside blocks:
    `blocks` has their length for each read, 0 where all iterations are even (empty: everywhere).
    `lanes` tells which numbers of iterations can become lanes at all: 0 any, else the divisors of
    it. `conditional`: what a condition guards varies along the loop; lanes that begin with it
    cannot grow. `vector`: the schedule vectorises the loop.
    """

    extent: int
    stride: int
    reads: tuple[int, ...]
    vector: bool = False
    blocks: tuple[int, ...] = ()
    lanes: int = 0
    conditional: bool = False

    @property
    def reduces(self) -> bool:
        """Whether the loop leaves the stored element where it is."""
        return self.stride == 0


@dataclass(frozen=True, slots=True)
class Slice:
    """Iterations [start, start + extent) of the loop at position `loop` alone."""

    loop: int
    start: int
    extent: int


@dataclass(frozen=True, slots=True)
class Take:
    """`count` neighbouring iterations of the loop at position `loop` become lanes."""

    loop: int
    count: int


@dataclass(frozen=True, slots=True)
class Unlane:
    """The lanes become an innermost loop."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Lanes taken from here on are parts of one output's result, folded at the end."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The loops at the positions `loops`, which run once, disappear."""

    loops: tuple[int, ...]


Move: TypeAlias = Slice | Take | Unlane | Fold | Drop


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A store of `width` neighbouring elements at a time inside `loops` (outermost first).

    `steps` is how far apart the lanes of each read are, `own` those of the store: 0 where they are
    parts of one output's result instead. `apart` marks reads whose lanes are at no even distance
    (empty: none). `closed`: the lanes cannot grow. `moves` made the nest from the one described.
    """

    loops: tuple[InnerLoop, ...]
    width: int
    steps: tuple[int, ...]
    own: int = 1
    apart: tuple[bool, ...] = ()
    closed: bool = False
    moves: tuple[Move, ...] = ()

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
        return self.width * math.prod([loop.extent for loop in self.loops])

    @property
    def gathers(self) -> int:
        """Reads whose lanes are neither one element nor neighbours."""
        return sum(map(self.gathered, range(len(self.steps))))

    def gathered(self, read: int) -> bool:
        """Whether the lanes of that read are neither one element nor neighbours."""
        if self.width == 1:
            return False
        return self.steps[read] not in (0, 1) or (bool(self.apart) and self.apart[read])


def is_injective(loops: tuple[InnerLoop, ...], width: int = 1) -> bool:
    """True when no two iterations that move the store write a common element."""
    reach = width
    for stride, extent in sorted((abs(loop.stride), loop.extent) for loop in loops if loop.stride):
        if extent > 1 and stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def without_single_iterations(nest: LoopNest) -> LoopNest:
    """The nest without loops that run once; one loop that reduces stays in any case."""
    single = [k for k, loop in enumerate(nest.loops) if loop.extent == 1]
    if not single:
        return nest
    reducing = [k for k, loop in enumerate(nest.loops) if loop.reduces]
    if reducing and all(nest.loops[k].extent == 1 for k in reducing):
        single.remove(reducing[-1])
    if not single:
        return nest
    loops = tuple(loop for k, loop in enumerate(nest.loops) if k not in single)
    return LoopNest(
        loops,
        nest.width,
        nest.steps,
        nest.own,
        nest.apart,
        nest.closed,
        (*nest.moves, Drop(tuple(single))),
    )
