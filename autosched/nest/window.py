"""The window of a reduction: steps unrolled because neighbouring outputs read common elements.

    for h in 7:                                   y0 += x0*k0
        for rh in 3:                              y0 += x1*k1; y1 += x1*k0
            Y[h] += X[h + rh] * K[rh]      ->     y0 += x2*k2; y1 += x2*k1; y2 += x2*k0
                                                  ...
    (21 loads of X)                               (9 loads of X; K stays in registers)

Rolled, each step loads every element that its outputs read. Fully unrolled, an element is loaded
once for all the steps that read it. The statements are ordered by those elements, so that each
element takes a register only for a moment; the steps of every output keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple, Protocol

from autosched.nest.total import total

MOST_COPIES = 256
"""The most copies of the statement in a window: some 2 KB of code."""


class Moving(Protocol):
    """A read: its load instructions, and its strides along the loops of tile and window."""

    @property
    def cost(self) -> float:
        """Load instructions of one copy."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Stride along each loop of the tile, in elements."""

    @property
    def along(self) -> tuple[int, ...]:
        """Stride along each loop of the window, in elements."""


class Window(NamedTuple):
    """Innermost reduction loops that are fully unrolled.

    `loops` is their number, `steps` the number of their iterations, `copies` the copies of the
    statement in each step. `loads` is the average number of loads of a step, `live` the registers
    that operands take, `shared` the position of the read whose elements order the statements.
    """

    loops: int
    steps: int
    copies: int
    loads: float
    live: int
    shared: int


def elements(moves: Sequence[tuple[int, int]]) -> int:
    """The number of different elements that loops with these (stride, extent) read.

    Overlapping runs of multiples count once: 4 outputs and a window of 3, all of stride 1, read 6.
    """
    runs: list[tuple[int, int]] = []
    for stride, extent in sorted((abs(stride), extent) for stride, extent in moves if stride):
        if runs:
            last, count = runs[-1]
            times, rest = divmod(stride, last)
            if rest == 0 and times <= count:
                runs[-1] = last, count + times * (extent - 1)
                continue
        runs.append((stride, extent))
    return math.prod([count for _, count in runs])


def shares(read: Moving, extents: Sequence[int], window: Sequence[int]) -> bool:
    """Whether steps of the window read common elements for different outputs of the tile."""
    tile = _moves(read.steps, extents)
    steps = _moves(read.along, window)
    return elements(tile + steps) < elements(tile) * elements(steps)


def window_over(
    reads: Sequence[Moving],
    extents: Sequence[int],
    steps: int,
    tile: Sequence[int],
    registers: int,
    weight: float,
) -> Window | None:
    """The window of all `steps` for which the accumulators of `tile` live.

    `extents` are those of the reduction's innermost loops, `weight` counts the instructions of a
    statement besides loads. None when these steps are not whole loops of `extents`, when no two of
    them read a common element, when the copies exceed `MOST_COPIES`, or where registers do not
    suffice.
    """
    copies, loops, reached = math.prod(tile), 0, 1
    while reached < steps and loops < len(extents):
        loops += 1
        reached *= extents[-loops]
    if not loops or reached != steps or copies * steps * max(1.0, weight) > MOST_COPIES:
        return None
    counts, saved = [], []
    for read in reads:
        at_once = _moves(read.steps, tile)
        along = _moves(read.along[-loops:], extents[-loops:])
        counts.append(elements(at_once + along))
        saved.append(read.cost * (elements(at_once) * elements(along) - counts[-1]))
    if max(saved) <= 0:
        return None
    shared = saved.index(max(saved))
    live = 1 + sum(count for k, count in enumerate(counts) if k != shared)
    if copies + live > registers:
        return None
    loads = total(read.cost * count for read, count in zip(reads, counts, strict=True)) / steps
    return Window(loops, steps, copies, loads, live, shared)


def _moves(strides: Sequence[int], extents: Sequence[int]) -> list[tuple[int, int]]:
    return [(s, n) for s, n in zip(strides, extents, strict=True) if s and n > 1]


Step = tuple[int, ...]
Point = tuple[int, ...]


def statements(
    read: Moving, extents: Sequence[int], tile: Sequence[int]
) -> list[tuple[Step, Point]]:
    """The statements of a window over loops of `extents`, grouped by the element of `read` used.

    A statement is an iteration of the window's loops and a point of the tile. For each point, its
    steps keep the order of the loops.
    """
    window = read.along[len(read.along) - len(extents) :]
    beside = [_beside(stride, window) for stride in read.steps]

    def key(statement: tuple[Step, Point]) -> tuple[tuple[int, ...], Point]:
        step, point = statement
        at = [abs(along) * k for along, k in zip(window, step, strict=True)]
        for loop, stride, k in zip(beside, read.steps, point, strict=True):
            if loop is not None:
                at[loop] += stride * k if window[loop] > 0 else -stride * k
        others = [k for k, stride in zip(point, read.steps, strict=True) if stride]
        return (*at, *others), point

    return sorted(_all(extents, tile), key=key)


def _all(extents: Sequence[int], tile: Sequence[int]) -> Iterator[tuple[Step, Point]]:
    yield from product(product(*map(range, extents)), product(*map(range, tile)))


def _beside(stride: int, window: Sequence[int]) -> int | None:
    """The position of the window loop whose stride is closest to `stride`, one dividing the other;
    None when there is none."""
    found = [
        (max(abs(stride), abs(along)) // min(abs(stride), abs(along)), k)
        for k, along in enumerate(window)
        if stride and along and (stride % along == 0 or along % stride == 0)
    ]
    return min(found)[1] if found else None
