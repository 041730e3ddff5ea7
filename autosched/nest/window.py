"""The window of a reduction: steps unrolled whole because neighbouring outputs read the same.

    for h in 7:                                   y0 += x0*k0
        for rh in 3:                              y0 += x1*k1; y1 += x1*k0
            Y[h] += X[h + rh] * K[rh]      ->     y0 += x2*k2; y1 += x2*k1; y2 += x2*k0
                                                  ...
    (21 loads of X)                               (9 loads of X; K stays in registers)

Rolled, each step loads what each of its outputs reads. Unrolled, an element is loaded once for all
the steps that read it. The statements are put in the order of those elements, so that each takes a
register only for a moment; every output still sees its own steps in their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple, Protocol

from autosched.nest.total import total

MOST_COPIES = 256
"""Copies of the statement that a window may have: some 2 KB of code."""


class Moving(Protocol):
    """A read: the load instructions of one copy, and how far each loop of the tile and each of the
    window moves it, in elements."""

    @property
    def cost(self) -> float:
        """Load instructions of one copy."""

    @property
    def steps(self) -> tuple[int, ...]:
        """How far each loop of the tile moves it."""

    @property
    def along(self) -> tuple[int, ...]:
        """How far each loop of the window moves it."""


class Window(NamedTuple):
    """`loops` of the reduction, the innermost ones, of which all `steps` are unrolled, with
    `copies` of the statement in each.

    `loads` are those of one step on average, `live` the registers that operands take, `shared` the
    position of the read whose elements are used in turn.
    """

    loops: int
    steps: int
    copies: int
    loads: float
    live: int
    shared: int


def elements(moves: Sequence[tuple[int, int]]) -> int:
    """How many elements loops with these (stride, extent) read.

    Runs of multiples that overlap count once: for 4 outputs and a window of 3, all one apart, 6.
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
    """Whether several steps of the window read the same for different outputs of the tile."""
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
    """The window of all `steps` that the accumulators of `tile` live for.

    `extents` are those of the reduction's innermost loops, `weight` counts the instructions of a
    statement besides loads. None when other loops are among these steps, when none of them reads
    what another one does, or where registers do not suffice.
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
    """The statements of a window over loops of `extents`, those that read one element together.

    Each is an iteration of the window's loops and a point of the tile. For each point, its steps
    are in the order of the loops.
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
    """The loop of the window that moves the read the way a loop of the tile with `stride` does."""
    found = [
        (max(abs(stride), abs(along)) // min(abs(stride), abs(along)), k)
        for k, along in enumerate(window)
        if stride and along and (stride % along == 0 or along % stride == 0)
    ]
    return min(found)[1] if found else None
