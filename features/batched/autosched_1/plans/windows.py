"""Reductions that are fully unrolled because neighbouring outputs read common elements.

`nest/window.py` for many nests at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import picked
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.tiles import Problems, cost_of, innermost_run
from autosched.features.batched.autosched_1.sorted_loops import insert
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.stores import Floats
from autosched.nest.plan import WINDOW_LANES, load_pieces
from autosched.nest.register_tile import STORE_CYCLES, WINDOW
from autosched.nest.window import MOST_COPIES
from autosched.runtime.compiled_loops import compiled

_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Windows:
    """The windows of nests.

    `where` tells which nests have one. By (loop, nest), `run` marks its loops. By (read, dimension,
    nest), `moves` is the stride of each read along the loops of a tile.
    """

    where: Flags
    run: Flags
    moves: Ints


def with_windows(nests: Nests, problems: Problems, fit: int) -> tuple[Problems, Windows]:
    """The problems, with the load costs of nests that have windows (`nest.plan._with_window`), and
    these windows."""
    run = innermost_run(nests)
    every = np.arange(nests.count)
    there = problems.loop >= 0
    uneven = nests.conditional | (nests.blocks != 0).any(axis=0)
    guarded = (uneven & run).any(axis=0)
    guarded = guarded | (there & uneven[problems.loop, every]).any(axis=0)
    found: Flags = (nests.lane != 0) & ((nests.width <= fit) | (problems.chunks > 1))
    found = found & (nests.width >= WINDOW_LANES) & problems.core.windows & ~guarded
    width = nests.width // problems.chunks
    along = np.where(there, nests.reads[:, problems.loop, every], 0)
    moves = np.concatenate([along, (nests.steps * width)[:, None]], axis=1)
    those = found.nonzero()[0]
    shares = np.zeros(len(those), bool)
    extents, extent = picked(problems.extents, those), picked(nests.extent, those)
    running = picked(run, those)
    for tile, reads in zip(picked(moves, those), picked(nests.reads, those), strict=True):
        inside = np.where(running, reads, 0)
        shares |= _elements(tile, extents, inside, extent) < (
            elements(tile, extents) * elements(inside, extent)
        )
    found[those] = shares
    pieces = np.array([load_pieces(k) for k in range(int(width.max(initial=1)) + 1)])[width]
    pieces = np.where(found & (nests.steps == 1), pieces, 1)
    return replace(problems, cost=problems.cost * pieces), Windows(found, run, moves)


def _elements(tile: Ints, extents: Ints, along: Ints, extent: Ints) -> Ints:
    return elements(np.concatenate([tile, along]), np.concatenate([extents, extent]))


@dataclass(eq=False)
class Unrolled:
    """Nests with a tile each that become a window (`where`).

    `cycles` are for each accumulator and step, `live` the registers that operands take.
    """

    where: Flags
    cycles: Floats
    live: Ints


def unrolled(
    nests: Nests, problems: Problems, windows: Windows, of: _Intp, tile: _Intp, steps: Ints
) -> Unrolled:
    """`nest.register_tile.window_of` of the nests `of`, each with a tile and a number of
    `steps`."""
    found = Unrolled(np.zeros(len(of), bool), np.zeros(len(of)), np.zeros(len(of), np.int64))
    weight = np.maximum(1.0, problems.weight[of])
    copies = problems.table.points[tile]
    asked = windows.where[of] & (steps > 1) & (copies * steps * weight <= MOST_COPIES)
    those = asked.nonzero()[0]
    taken, reached = _taken(nests, windows, of[those], steps[those])
    kept = reached == steps[those]
    those, taken = those[kept], taken[:, kept]
    if len(those):
        _fill(found, those, taken, nests, problems, windows, of[those], tile[those], steps[those])
    return found


def _taken(nests: Nests, windows: Windows, of: _Intp, steps: Ints) -> tuple[Flags, Ints]:
    """The innermost window loops that together have at least `steps` iterations, and how many."""
    run, extent = picked(windows.run, of), picked(nests.extent, of)
    taken, reached = np.zeros_like(run), np.ones(len(of), np.int64)
    for k in range(len(run) - 1, -1, -1):
        taken[k] = run[k] & (reached < steps)
        reached = np.where(taken[k], reached * extent[k], reached)
    return taken, reached


def _fill(
    found: Unrolled,
    those: _Intp,
    taken: Flags,
    nests: Nests,
    problems: Problems,
    windows: Windows,
    of: _Intp,
    tile: _Intp,
    steps: Ints,
) -> None:
    core, factors = problems.core, problems.table.factors[:, tile]
    copies, weight = problems.table.points[tile], problems.weight[of]
    extent, cost = nests.extent[:, of], problems.cost[:, of]
    counts, saved = np.zeros((len(cost), len(of)), np.int64), np.zeros((len(cost), len(of)))
    for k, moves in enumerate(windows.moves[:, :, of]):
        inside = np.where(taken, nests.reads[k][:, of], 0)
        counts[k] = _elements(moves, factors, inside, extent)
        apart = elements(moves, factors) * elements(inside, extent)
        saved[k] = cost[k] * (apart - counts[k])
    shared = np.argmax(saved, axis=0)
    every = np.arange(len(of))
    live = 1 + counts.sum(axis=0) - counts[shared, every]
    good = (saved[shared, every] > 0) & (copies + live <= core.registers)
    loads: Floats = np.zeros(len(of))
    for each, count in zip(cost, counts, strict=True):
        loads = loads + each * count
    each = copies / steps
    work = copies * weight
    own = WINDOW * core.cycles(work, loads / steps + each, each, core.latency)
    rolled, spills = _rolled(problems, of, tile, steps)
    good &= spills | (own < rolled)
    found.where[those] = good
    found.cycles[those] = own / copies
    found.live[those] = live


def _rolled(problems: Problems, of: _Intp, tile: _Intp, steps: Ints) -> tuple[Floats, Flags]:
    """The cycles of a step that is not unrolled, and where registers are too few for it."""
    core, points = problems.core, problems.table.points[tile]
    held = cost_of(problems, of, tile, steps)
    work = points * problems.weight[of]
    cycles = core.cycles(work, held.loads, 2, core.latency) + points * STORE_CYCLES / steps
    return cycles, (points > 1) & (points + held.live > core.registers)


def elements(strides: Ints, extents: Ints) -> Ints:
    """`nest.window.elements` of loops by (loop, nest)."""
    found = np.empty(strides.shape[1], np.int64)
    _count_elements(strides, extents, *np.empty((2, len(strides)), np.int64), found)
    return found


@compiled
def _count_elements(strides: Ints, extents: Ints, own: Ints, iterations: Ints, found: Ints) -> None:
    for n in range(len(found)):
        loops = 0
        for k in range(len(strides)):
            stride = abs(strides[k, n])
            if stride != 0 and extents[k, n] > 1:
                insert(own, iterations, loops, stride, extents[k, n])
                loops += 1
        product = 1
        count = 1
        last = 0
        for k in range(loops):
            times = 0
            if last != 0 and own[k] % last == 0:
                times = own[k] // last
            if times > 0 and times <= count:
                count += times * (iterations[k] - 1)
            else:
                product *= count
                last = own[k]
                count = iterations[k]
        found[n] = product * count
