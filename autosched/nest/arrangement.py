"""Choose the register tile, and the order of the loops around it, that move the least data.

A reduction of few steps spends most of its time loading and storing its accumulators. Moving an
outer reduction loop inside, next to the inner ones, removes that cost. But the loops in between
then move outside: data that they read again and again from the nearest cache is then read once for
every output.

    for rc in 256:                            for h in 14:
        for h in 14:                              for rc in 256:
            for rh, rw in 3 x 3:        or            for rh, rw in 3 x 3:
                Y[h, 128] += ...                          Y[h, 128] += ...
    (9 steps; 5 KB of weights stay)           (2304 steps; 1.2 MB of weights for each h)

Tiles that keep the core's units equally busy also differ in what they read. A tile of sixteen
vectors of one row reads a whole row of the other matrix; a tile of four vectors of each of four
rows reads a quarter of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from autosched.nest.core import Memory
from autosched.nest.memory_walk import walk
from autosched.nest.piece import Piece, Tile
from autosched.nest.register_tile import ENDLESS, TileProblem, cost, window_of
from autosched.nest.total import total
from autosched.nest.visits import visits

# Cycles, fitted by hand to the 128 schedules of Ansor's two logs on one busy Sapphire Rapids core:
# for an accumulator each time that it is loaded and stored (load, store, the loop around them); for
# a line from L2, L3 and memory while other lines are in flight; and for a line that does not follow
# its predecessor. With these values, 114 other candidates of 21 shapes (AVX-512 and AVX2) took 0.85
# of the time they took before, the worst 1.3.
HELD_CYCLES = 3.0
LINE_CYCLES = (1.0, 5.0, 15.0)
RUN_CYCLES = (2.0, 5.0, 15.0)

WORTH = 0.2
"""Another tile must save this share of the cycles of the arithmetic. Effects that are not modelled
(addresses, the TLB, hardware prefetchers) differ between tiles by as much."""

LEAST_STEPS, LEAST_SHARE = 12, 0.1
"""A tile that keeps the core less busy must accumulate for at least `LEAST_STEPS` steps (a load of
what was stored a few steps ago waits), and must save at least `LEAST_SHARE` of all cycles."""

MEMORY = Memory((48 * 2**10, 2**20, 32 * 2**20), tlb=())
"""The caches of Intel's cores since Ice Lake (L1 of 12 ways), whatever the machine, so that the
code for a candidate is the same wherever it is generated. TLB misses are not weighed."""


def least_moved(
    tiles: Iterable[Iterable[Piece]], near: Iterable[Iterable[Piece]], element: int
) -> Piece:
    """Return the piece that costs the fewest cycles, memory traffic included.

    Each of `tiles` has the pieces with one good tile, one for each order of the loops around it;
    each of `near` has the same for a tile that keeps the core less busy. An element has `element`
    bytes. The first tile is preferred: another one must save `WORTH`. Tiles of `near` are
    considered only in orders with fewer steps than the best piece (a tile that takes whole loops
    between two reduction loops leaves only the order with both reduction loops inside), and only
    where the lanes fill at least half a register: with fewer lanes, three of four candidates took
    longer. Among the pieces with the same reduction loops inside as the best one, a piece whose
    tile becomes a window (nest/window.py) may take its place.
    """
    remaining = iter(tiles)
    first = tuple(next(remaining))
    if not _tile(first[0]).problem.window:
        return _least_moved(first, remaining, near, element)
    good, behind = [tuple(orders) for orders in remaining], [tuple(orders) for orders in near]
    best = _least_moved(first, good, behind, element)
    windows = [
        piece
        for piece in chain(first, *good, *behind)
        if _tile(piece).inside == _tile(best).inside and _is_window(piece)
    ]
    return _cheapest([best, *windows], element, _unrolled_cycles)[0]


def _least_moved(
    first: Sequence[Piece],
    tiles: Iterable[Iterable[Piece]],
    near: Iterable[Iterable[Piece]],
    element: int,
) -> Piece:
    """The best piece when no reduction is unrolled into a window."""
    best, least = _cheapest(first, element)
    busy = _arithmetic(best)  # the first tile is the busiest: no other one needs fewer cycles
    worth = WORTH * busy
    if least - busy <= worth:
        return best
    limit = least - worth
    for others in tiles:
        piece, cycles = _cheapest(others, element)
        if cycles < limit:
            best, limit = piece, cycles
    if 2 * best.lanes < _tile(best).problem.core.lanes(element):
        return best
    most = _steps(best)
    fewer = [p for orders in near for p in orders if LEAST_STEPS <= _steps(p) < most]
    if fewer:
        piece, cycles = _cheapest(fewer, element)
        if cycles < min(limit, (1 - LEAST_SHARE) * least):
            return piece
    return best


def _tile(piece: Piece) -> Tile:
    assert piece.tile is not None  # all pieces here are parts of a reduction
    return piece.tile


def _is_window(piece: Piece) -> bool:
    tile = _tile(piece)
    return window_of(tile.problem, tile.chosen, _steps(piece)) is not None


def _steps(piece: Piece) -> int:
    """The number of reduction steps between loading and storing the accumulators."""
    return math.prod([piece.nest.loops[k].extent for k in _tile(piece).inside])


def _arithmetic(piece: Piece) -> float:
    """Cycles of all reduction steps, without accumulator loads and stores and memory traffic."""
    tile = _tile(piece)
    each = cost(_stepwise(tile.problem), tile.chosen, ENDLESS)
    return each * piece.nest.iterations / piece.lanes


def _cycles(piece: Piece, element: int) -> float:
    """Cycles of the piece, memory traffic included, without unrolling into a window."""
    return _computed(piece, _stepwise(_tile(piece).problem)) + _moved(piece, element)


def _stepwise(problem: TileProblem) -> TileProblem:
    return replace(problem, window=()) if problem.window else problem


def _unrolled_cycles(piece: Piece, element: int) -> float:
    """Cycles of the piece, memory traffic included, with a window where its tile becomes one."""
    return _computed(piece, _tile(piece).problem) + _moved(piece, element)


def _cheapest(
    pieces: Iterable[Piece], element: int, cycles: Callable[[Piece, int], float] = _cycles
) -> tuple[Piece, float]:
    return min(((p, cycles(p, element)) for p in pieces), key=lambda pair: pair[1])


def _computed(piece: Piece, problem: TileProblem) -> float:
    if problem.finish < HELD_CYCLES:
        problem = replace(problem, finish=HELD_CYCLES)
    each = cost(problem, _tile(piece).chosen, _steps(piece))
    return each * piece.nest.iterations / piece.lanes


def _moved(piece: Piece, element: int) -> float:
    accesses = 1 + len(piece.nest.steps)
    moved = walk(visits(piece, accesses), (element,) * accesses, MEMORY)
    lines = total(n * cycles for n, cycles in zip(moved.lines, LINE_CYCLES, strict=True))
    runs = total(n * cycles for n, cycles in zip(moved.runs, RUN_CYCLES, strict=True))
    return lines + runs
