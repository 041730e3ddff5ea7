"""Which tile, and which order of the loops around it, moves least.

A reduction of few steps between loading and storing its accumulators spends most of its time on
that; taking the reduction outside of it along removes it, but moves the loops between out of the
way: what they read again and again in the nearest cache, they then read once for every output.

    for rc in 256:                            for h in 14:
        for h in 14:                              for rc in 256:
            for rh, rw in 3 x 3:        or            for rh, rw in 3 x 3:
                Y[h, 128] += ...                          Y[h, 128] += ...
    (9 steps; 5 KB of weights stay)           (2304 steps; 1.2 MB of weights for each h)

Tiles that keep the core's units equally busy differ in what they read, too: sixteen vectors of one
row read a whole row of the other matrix, four of each of four rows a quarter of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from autosched.nest.core import Core, Memory
from autosched.nest.memory_walk import walk
from autosched.nest.piece import Piece
from autosched.nest.register_tile import ENDLESS, TileProblem, cost, window_of
from autosched.nest.total import total
from autosched.nest.visits import visits

# Fitted by hand to the 128 schedules of Ansor's two logs on one busy Sapphire Rapids core: cycles
# for an accumulator between two visits (load, store, the loop around them); for a line from L2, L3
# and memory while others are under way, and for one that does not follow its predecessor. With
# them, 114 other candidates of 21 shapes (AVX-512 and AVX2) took 0.85 of the time, the worst 1.3.
HELD_CYCLES = 3.0
LINE_CYCLES = (1.0, 5.0, 15.0)
RUN_CYCLES = (2.0, 5.0, 15.0)

WORTH = 0.2
"""Another tile must save that share of the arithmetic's cycles: what is not modelled (addresses,
the TLB, the units that fetch ahead) differs as much between tiles."""

LEAST_STEPS, LEAST_SHARE = 12, 0.1
"""A less busy tile must accumulate that long (loading what was stored a few steps ago waits), and
save that share of all cycles."""

MEMORY = Memory((48 * 2**10, 2**20, 32 * 2**20), tlb=())
"""That of Intel's cores since Ice Lake (L1 of 12 ways), whatever the machine, so that the code for
a candidate is the same wherever it is made. Pages have no part in what is weighed."""


def least_moved(
    tiles: Iterable[Iterable[Piece]], near: Iterable[Iterable[Piece]], element: int
) -> Piece:
    """The best of `tiles`, each a nest of `element` bytes with one tile in its possible orders.

    The first tile has the preference; the others must be worth it. Those of `near` keep the core
    less busy. They are looked at only in orders with fewer steps (a tile that takes whole loops
    between two reductions leaves itself no order but that with both reductions inside), and for
    lanes that fill half a register: with fewer, three of four candidates took longer. In the order
    that is best, a tile that becomes a window (nest/window.py) may take its place.
    """
    remaining = iter(tiles)
    first = tuple(next(remaining))
    if not _problem(first[0]).window:
        return _least_moved(first, remaining, near, element)
    good, behind = [tuple(orders) for orders in remaining], [tuple(orders) for orders in near]
    best = _least_moved(first, good, behind, element)
    windows = [
        piece
        for piece in chain(first, *good, *behind)
        if _inside(piece) == _inside(best) and _is_window(piece)
    ]
    return _cheapest([best, *windows], element, _unrolled_cycles)[0]


def _least_moved(
    first: Sequence[Piece],
    tiles: Iterable[Iterable[Piece]],
    near: Iterable[Iterable[Piece]],
    element: int,
) -> Piece:
    """The best of all when each goes step by step."""
    best, least = _cheapest(first, element)
    busy = _arithmetic(best)  # no other tile has less
    worth = WORTH * busy
    if least - busy <= worth:
        return best
    limit = least - worth
    for others in tiles:
        piece, cycles = _cheapest(others, element)
        if cycles < limit:
            best, limit = piece, cycles
    if 2 * best.lanes < _core(best).lanes(element):
        return best
    most = _steps(best)
    fewer = [p for orders in near for p in orders if LEAST_STEPS <= _steps(p) < most]
    if fewer:
        piece, cycles = _cheapest(fewer, element)
        if cycles < min(limit, (1 - LEAST_SHARE) * least):
            return piece
    return best


def _problem(piece: Piece) -> TileProblem:
    assert piece.tile is not None
    return piece.tile.problem


def _inside(piece: Piece) -> tuple[int, ...]:
    assert piece.tile is not None
    return piece.tile.inside


def _is_window(piece: Piece) -> bool:
    assert piece.tile is not None
    return window_of(piece.tile.problem, piece.tile.chosen, _steps(piece)) is not None


def _core(piece: Piece) -> Core:
    assert piece.tile is not None
    return piece.tile.problem.core


def _steps(piece: Piece) -> int:
    """Steps between loading and storing the accumulators."""
    assert piece.tile is not None
    return math.prod([piece.nest.loops[k].extent for k in piece.tile.inside])


def _arithmetic(piece: Piece) -> float:
    """Cycles of all steps, without what surrounds them."""
    assert piece.tile is not None
    each = cost(_stepwise(piece.tile.problem), piece.tile.chosen, ENDLESS)
    return each * piece.nest.iterations / piece.lanes


def _cycles(piece: Piece, element: int) -> float:
    """Of all steps one after the other."""
    return _computed(piece, _stepwise(_problem(piece))) + _moved(piece, element)


def _stepwise(problem: TileProblem) -> TileProblem:
    return replace(problem, window=()) if problem.window else problem


def _unrolled_cycles(piece: Piece, element: int) -> float:
    """Of all steps, in a window where the tile becomes one."""
    return _computed(piece, _problem(piece)) + _moved(piece, element)


def _cheapest(
    pieces: Iterable[Piece], element: int, cycles: Callable[[Piece, int], float] = _cycles
) -> tuple[Piece, float]:
    return min(((p, cycles(p, element)) for p in pieces), key=lambda pair: pair[1])


def _computed(piece: Piece, problem: TileProblem) -> float:
    assert piece.tile is not None
    if problem.finish < HELD_CYCLES:
        problem = replace(problem, finish=HELD_CYCLES)
    return cost(problem, piece.tile.chosen, _steps(piece)) * piece.nest.iterations / piece.lanes


def _moved(piece: Piece, element: int) -> float:
    accesses = 1 + len(piece.nest.steps)
    moved = walk(visits(piece, accesses), (element,) * accesses, MEMORY)
    lines = total(n * cycles for n, cycles in zip(moved.lines, LINE_CYCLES, strict=True))
    runs = total(n * cycles for n, cycles in zip(moved.runs, RUN_CYCLES, strict=True))
    return lines + runs
