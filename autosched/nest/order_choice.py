"""Which of several orders of a nest's loops moves least, counted together with its accumulators.

A reduction of few steps between loading and storing its accumulators spends most of its time on
that; taking the reduction outside of it along removes it, but moves the loops between out of the
way: what they read again and again in the nearest cache, they then read once for every output.

    for rc in 256:                            for h in 14:
        for h in 14:                              for rc in 256:
            for rh, rw in 3 x 3:        or            for rh, rw in 3 x 3:
                Y[h, 128] += ...                          Y[h, 128] += ...
    (9 steps; 5 KB of weights stay)           (2304 steps; 1.2 MB of weights for each h)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.nest.core import Memory
from autosched.nest.memory_walk import walk
from autosched.nest.piece import Piece
from autosched.nest.visits import visits

# Fitted by hand, after several settings were tried, to the times of the 128 schedules of Ansor's
# two logs on one busy AVX-512 machine; other operators checked them only in part. The cycles for an
# accumulator between two visits (load, store, the loop around them), and for a line from L2, L3 and
# memory when others are under way.
_HELD_CYCLES = 3.0
_LINE_CYCLES = (1.0, 5.0, 15.0)

_MEMORY = Memory()
"""A typical one: the code for a candidate is the same wherever it is made."""


def least_moved(pieces: Sequence[Piece], element: int) -> Piece:
    """The piece whose order costs least; all have the same nest, of `element` bytes, and tile."""
    return pieces[0] if len(pieces) == 1 else min(pieces, key=lambda p: _cycles(p, element))


def _cycles(piece: Piece, element: int) -> float:
    nest, tile = piece.nest, piece.tile
    assert tile is not None
    steps = math.prod([nest.loops[k].extent for k in tile.inside])
    held = nest.iterations / (piece.lanes * steps) * _HELD_CYCLES
    accesses = 1 + len(nest.steps)
    lines = walk(visits(piece, accesses), (element,) * accesses, _MEMORY).lines
    return held + sum(n * cycles for n, cycles in zip(lines, _LINE_CYCLES, strict=True))
