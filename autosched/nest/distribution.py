"""Decide whether one loop over a reduction's initialisation and update becomes one loop for each.

    for w in range(14):                        for w in range(14):
        Y[w] = 0                        ->         Y[w] = 0
        for k in range(9):                     for w in range(14):
            Y[w] = Y[w] + A[w + k]                 for k in range(9):
                                                       Y[w] = Y[w] + A[w + k]

After this loop distribution, the loop belongs to the nest of the reduction, which can accumulate
several outputs at once. It is done for outputs that stay in the nearest cache between the two
loops.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

MAX_ELEMENTS = 4096
"""The most outputs between the two loops: 16 KiB of float32, half of a usual first-level cache."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The elements that one part of a loop's body writes in one iteration of the loop.

    `place` is the buffer and the part of the address that neither the loop nor the loops inside it
    change. `step` is the stride of the loop. `axes` are (stride, extent) of the inner loops that
    move the address, by rising stride; loops that continue each other are merged into one.
    """

    place: Hashable
    step: int
    axes: tuple[tuple[int, int], ...]


def footprint(place: Hashable, step: int, axes: Iterable[tuple[int, int]]) -> Footprint | None:
    """The footprint of one part; None when its addresses do not rise along the loops.

    `axes` are (stride, extent) of the inner loops, in any order.
    """
    moving = sorted((stride, extent) for stride, extent in axes if stride and extent > 1)
    if step <= 0 or (moving and moving[0][0] < 0):
        return None
    merged: list[tuple[int, int]] = []
    for stride, extent in moving:
        if merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0], merged[-1][1] * extent)
        else:
            merged.append((stride, extent))
    return Footprint(place, step, tuple(merged))


def is_distributable(parts: Sequence[Footprint | None], extent: int) -> bool:
    """Whether a loop of `extent` over these parts may be distributed over them, and should be.

    All parts must write the same elements, at most `MAX_ELEMENTS` over all iterations. No iteration
    may touch an element that another one writes.
    """
    first = parts[0]
    if first is None or any(part != first for part in parts[1:]):
        return False
    axes = sorted((*first.axes, (first.step, extent)))
    reach = 1
    for stride, count in axes:
        if stride < reach:
            return False
        reach += stride * (count - 1)
    return math.prod([count for _, count in axes]) <= MAX_ELEMENTS
