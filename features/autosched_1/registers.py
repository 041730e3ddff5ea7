"""How well the loops inside a store fill the vector registers: the tile of outputs held in them.

The CPU code generator keeps a tile of outputs in registers while it reduces
(transform/vector/promote_accumulators.py). Its choice is foreseen here from the strides of the
accesses, with the same model of a core.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from autosched.features.autosched_1.lanes import InnerLoop, LaneNest, lane_nests
from autosched.features.autosched_1.loop_order import Visit, plain_order, tiled_order
from autosched.features.autosched_1.machine import Machine
from autosched.transform.vector.register_tile import (
    FOLD_CYCLES,
    SHORT_REDUCTION,
    STORE_CYCLES,
    TILE_LOOPS,
    Operand,
    TileProblem,
    choose_tile,
    cost,
)


@dataclass(frozen=True, slots=True)
class Tile:
    """Foreseen vector code: `lanes` of a register, `accumulators` held in registers at once, the
    `registers` they and their operands need, and `cycles` for each vector of one iteration. Where
    a loop is cut in two, lanes and cycles are those of both on average.

    `folded`: the lanes run along the reduction. `gathers` counts reads whose lanes are apart.
    `order` are the loops as the code runs them, down to lanes; of loops cut in two the larger part.
    """

    lanes: float
    accumulators: int
    registers: int
    cycles: float
    folded: bool
    gathers: int
    order: tuple[Visit, ...]


@lru_cache(maxsize=20_000)
def register_tile(
    loops: tuple[InnerLoop, ...],
    reads: int,
    element: int,
    weight: float,
    machine: Machine,
    *,
    reduces: bool = True,
) -> Tile:
    """The tile for a store inside `loops` (outermost first) that reads `reads` elements besides
    its own and spends `weight` instructions on each vector."""
    fit = max(1, machine.vector // element)
    nests = list(lane_nests(loops, reads, fit, reduces=reduces))
    tiles = [_tile(nest, fit, weight, machine) for nest in nests]
    if len(tiles) == 1:
        return tiles[0]
    counts = [nest.iterations for nest in nests]
    vectors = [count / tile.lanes for count, tile in zip(counts, tiles, strict=True)]
    cycles = sum(v * tile.cycles for v, tile in zip(vectors, tiles, strict=True))
    largest = tiles[max(range(len(tiles)), key=counts.__getitem__)]
    return replace(largest, lanes=sum(counts) / sum(vectors), cycles=cycles / sum(vectors))


def _tile(nest: LaneNest, fit: int, weight: float, machine: Machine) -> Tile:
    pieces = -(-nest.width // fit)  # registers of one vector
    chunks = pieces if nest.width % fit == 0 else 1  # of which each can be held by itself
    reducing = [loop.extent for loop in nest.loops if loop.stride == 0 and loop.extent > 1]
    costs = [float(nest.width) if nest.gathered(k) else 1.0 for k in range(len(nest.steps))]
    if nest.scattered or not (reducing or nest.folded):
        loads = sum(costs) + (nest.width if nest.scattered else 0)
        cycles = max(weight / 2, loads / 2, 1.0, (weight + loads + 1) / 4)
        order = plain_order(nest)
        return Tile(nest.width / pieces, 1, 1 + len(costs), cycles, False, nest.gathers, order)
    tiled = [loop for loop in nest.loops if loop.stride and loop.extent > 1][-TILE_LOOPS:]
    operands = tuple(
        Operand(c, (*(bool(loop.reads[k]) for loop in tiled), not nest.folded and bool(step)))
        for k, (c, step) in enumerate(zip(costs, nest.steps, strict=True))
    )
    problem = TileProblem(
        (*(loop.extent for loop in tiled), chunks),
        operands,
        reducing[-1] if reducing else 1,
        machine.registers,
        weight,
        FOLD_CYCLES if nest.folded else STORE_CYCLES,
    )
    factors, cycles = _chosen(problem, _held_steps(reducing))
    held = [0]
    for operand in operands:
        pairs = zip(factors, operand.varies, strict=True)
        held.append(math.prod(factor if varies else 1 for factor, varies in pairs))
    accumulators, each = math.prod(factors), pieces // chunks
    return Tile(
        nest.width / pieces,
        accumulators * each,
        (accumulators + 1 + sum(held) - max(held)) * each,
        cycles,
        nest.folded,
        nest.gathers,
        tiled_order(nest, tiled, factors, nest.width // chunks),
    )


def _held_steps(reducing: Sequence[int]) -> int:
    """Steps of the reduction between loading the accumulators and storing them."""
    steps = 1
    for extent in reversed(reducing):
        if steps >= SHORT_REDUCTION:
            break
        steps *= extent
    return steps


@lru_cache(maxsize=20_000)
def _chosen(problem: TileProblem, steps: int) -> tuple[tuple[int, ...], float]:
    factors = choose_tile(problem)
    cycles = cost(replace(problem, steps=steps), factors)
    return factors, float("inf") if cycles is None else cycles
