"""Predict from their plan how well the loops inside a store fill the vector registers.

The CPU code generator takes its lanes and its tile of outputs from the same plan (autosched/nest).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from autosched.nest.core import Core
from autosched.nest.loop_nest import LoopNest
from autosched.nest.piece import Piece, Tile
from autosched.nest.plan import ScalarStore, plan_store
from autosched.nest.register_tile import cost, needs
from autosched.nest.total import total
from autosched.nest.visits import Visit, visits


@dataclass(frozen=True, slots=True)
class VectorCode:
    """Predicted vector code of a store.

    `lanes` is the number of lanes of a register, `accumulators` the number held in registers at
    once, `registers` the number that they and their operands need, `cycles` the cycles for each
    vector of one iteration. Where a loop is cut in two, lanes and cycles are averages over both
    parts. `folded` tells that the lanes run along the reduction. `gathers` counts reads whose lanes
    are neither one element nor neighbours. `order` has the loops in the order of the code, down to
    lanes; where a loop is cut in two, those of the larger part.
    """

    lanes: float
    accumulators: int
    registers: int
    cycles: float
    folded: bool
    gathers: int
    order: tuple[Visit, ...]


@lru_cache(maxsize=20_000)
def vector_code(store: ScalarStore, core: Core, accesses: int) -> VectorCode:
    """The predicted code of the store.

    `order` has the strides of the stored access and of the first reads, `accesses` in all.
    """
    pieces = plan_store(store, core)
    fit = core.lanes(store.element)
    codes = [_code(piece, core, fit, store.weight, accesses) for piece in pieces]
    if len(codes) == 1:
        return codes[0]
    counts = [piece.nest.iterations for piece in pieces]
    vectors = [count / code.lanes for count, code in zip(counts, codes, strict=True)]
    cycles = total(v * code.cycles for v, code in zip(vectors, codes, strict=True))
    largest = codes[max(range(len(codes)), key=counts.__getitem__)]
    return replace(largest, lanes=sum(counts) / total(vectors), cycles=cycles / total(vectors))


def _code(piece: Piece, core: Core, fit: int, weight: float, accesses: int) -> VectorCode:
    nest = piece.nest
    registers = -(-nest.width // fit)  # that all lanes of the nest take
    lanes, order = nest.width / registers, visits(piece, accesses)
    if piece.tile is None:
        needed = 1 + len(nest.steps)
        cycles = _plain_cycles(nest, core, weight)
        return VectorCode(lanes, 1, needed, cycles, False, nest.gathers, order)
    tile, each = piece.tile, registers // piece.tile.chunks
    steps = _held_steps(nest, tile)
    live, _ = needs(tile.problem, tile.chosen, steps)
    accumulators = piece.accumulators
    cycles = cost(tile.problem, tile.chosen, steps)
    needed = (accumulators + live) * each
    return VectorCode(lanes, accumulators * each, needed, cycles, nest.folded, nest.gathers, order)


def _plain_cycles(nest: LoopNest, core: Core, weight: float) -> float:
    """Cycles to load, compute and store one vector; gathers and scatters go lane by lane."""
    loads = total(float(nest.width) if nest.gathered(k) else 1.0 for k in range(len(nest.steps)))
    if nest.scattered:
        loads += nest.width
    return core.cycles(weight, loads, 1, 1.0)


def _held_steps(nest: LoopNest, tile: Tile) -> int:
    """The number of reduction steps between loading and storing the accumulators."""
    return math.prod([nest.loops[k].extent for k in tile.inside])
