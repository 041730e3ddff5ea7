"""A loop nest around one store, described in numbers: extents, strides and lanes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias


class InnerLoop(NamedTuple):
    """A loop of the nest; distances are in elements.

    `stride` is how far an iteration moves the stored element, 0 for a reduction loop; `reads` has
    the stride of each read. A read whose index has a quotient or remainder of the loop variable
    moves evenly only inside blocks: `blocks` has their length for each read, 0 where all iterations
    are even (empty: for every read). `lanes` limits the numbers of iterations that can become
    lanes: 0 allows any, another value its divisors. `conditional` tells that what a condition
    guards varies along the loop; lanes that begin with such a loop cannot grow. `vector` tells that
    the schedule vectorises the loop.
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
        """Whether the loop is a reduction loop, which leaves the stored element where it is."""
        return self.stride == 0


@dataclass(frozen=True, slots=True)
class Slice:
    """Keep only the iterations [start, start + extent) of the loop at position `loop`."""

    loop: int
    start: int
    extent: int


@dataclass(frozen=True, slots=True)
class Take:
    """Turn `count` neighbouring iterations of the loop at position `loop` into lanes."""

    loop: int
    count: int


@dataclass(frozen=True, slots=True)
class Unlane:
    """Turn the lanes back into an innermost loop."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Let the lanes taken from here on hold partial results of one output, folded at the end."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the loops at the positions `loops`, which run once."""

    loops: tuple[int, ...]


Move: TypeAlias = Slice | Take | Unlane | Fold | Drop


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A store of `width` neighbouring elements at a time inside `loops` (outermost first).

    `steps` has the distance between the lanes of each read, `own` is the distance between those of
    the store: 0 where the lanes hold partial results of one output instead. `apart` marks reads
    whose lanes are not evenly spaced (empty: none). `closed` tells that the lanes cannot grow.
    `moves` are the changes that made this nest from the described one, in order.
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
        """Whether the lanes are stored at a distance other than 0 or 1; the code generator leaves
        such a nest unchanged."""
        return self.own not in (0, 1)

    @property
    def iterations(self) -> int:
        """The number of iterations when each computes one element."""
        return self.width * math.prod([loop.extent for loop in self.loops])

    @property
    def gathers(self) -> int:
        """The number of reads whose lanes are neither one common element nor neighbours."""
        return sum(map(self.gathered, range(len(self.steps))))

    def gathered(self, read: int) -> bool:
        """Whether the lanes of the read `read` are neither one common element nor neighbours."""
        if self.width == 1:
            return False
        return self.steps[read] not in (0, 1) or (bool(self.apart) and self.apart[read])


def is_injective(loops: tuple[InnerLoop, ...], width: int = 1) -> bool:
    """Whether no two iterations of the loops that move the store write a common element.

    An iteration writes `width` neighbouring elements.
    """
    reach = width
    for stride, extent in sorted((abs(loop.stride), loop.extent) for loop in loops if loop.stride):
        if extent > 1 and stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def without_single_iterations(nest: LoopNest) -> LoopNest:
    """The nest without loops that run once; if all reduction loops do, the last of them stays."""
    single = [k for k, loop in enumerate(nest.loops) if loop.extent == 1]
    if not single:
        return nest
    reducing = [k for k, loop in enumerate(nest.loops) if loop.reduces]
    if reducing and all(nest.loops[k].extent == 1 for k in reducing):
        single.remove(reducing[-1])
    if not single:
        return nest
    loops = tuple(loop for k, loop in enumerate(nest.loops) if k not in single)
    return replace(nest, loops=loops, moves=(*nest.moves, Drop(tuple(single))))
