"""Whether one loop over a reduction's start and its steps becomes one loop for each.

    for w in range(14):                        for w in range(14):
        Y[w] = 0                        ->         Y[w] = 0
        for k in range(9):                     for w in range(14):
            Y[w] = Y[w] + A[w + k]                 for k in range(9):
                                                       Y[w] = Y[w] + A[w + k]

Then the loop belongs to the nest of the reduction, which can accumulate several of its outputs at
once. It is done for outputs that stay in the nearest cache meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

MAX_ELEMENTS = 4096
"""Outputs between the two loops: 16 KiB of float32, half of a usual first-level cache."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one iteration of a loop writes in one of its parts.

    `place` is the buffer and all of the address that neither the loop nor those inside it change,
    `step` how far the loop moves the address, `axes` are (stride, extent) of the loops inside that
    move it, by rising stride, those that continue each other as one.
    """

    place: Hashable
    step: int
    axes: tuple[tuple[int, int], ...]


def footprint(place: Hashable, step: int, axes: Iterable[tuple[int, int]]) -> Footprint | None:
    """The footprint of a part; None when its addresses do not rise.

    `axes` are (stride, extent) of the loops inside, in any order.
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
    """True when a loop of `extent` over these parts can become a loop for each, and should.

    No iteration may touch what another one writes.
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
