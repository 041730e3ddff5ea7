"""Choose tiles of calls of a tensor instruction whose accumulators suit its registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.product import Product, extent
from autosched.te.intrin.tile_dot import BLOCKS
from autosched.te.schedule.use_instruction import can_pack, tiles_over

Tile = tuple[int, int]

VECTOR_TILES = (
    *((6, 4), (4, 4), (14, 2), (12, 2), (8, 2), (7, 2), (14, 1)),
    *((1, 8), (1, 4), (1, 2)),
)
"""Tiles (calls down, calls across) whose accumulators fit 32 registers, with a row of B and an
element of A.

Tiles of more than one row have fourteen or more products in flight: one or two begin in a cycle and
are complete some five cycles later. Seven and fourteen rows divide the images of usual networks."""

FEW_REGISTERS = (
    *((6, 2), (4, 3), (5, 2), (4, 2), (2, 4), (14, 1), (12, 1), (7, 1)),
    *((1, 8), (1, 4), (1, 2)),
)
"""The same for 16 registers: seven products or more in flight, but for tiles of one row."""

_MOST = 4
"""The most tiles of one instruction that are tried."""


def tiles_of(product: Product, it: Instruction) -> list[Tile]:
    """The tiles of the least cost, ascending: at most _MOST, none of which is the whole result."""
    tiles, cost = _kind(it)
    scored: list[tuple[float, Tile]] = []
    for tile in tiles:
        number, work = _needed(product, it, tile)
        if number * math.prod(map(extent, product.others()[0])) == 1:
            continue  # no loop is left to run in parallel
        if math.prod(tile) + _operands(tile, it) <= it.registers:
            scored.append((work * cost(tile), tile))
    least = min((work for work, _ in scored), default=0)
    most = _MOST if it.extent("m") == 1 else _MOST // 2  # each is tried with A packed as well
    good = [(work, tile) for work, tile in scored if work <= 1.25 * least]
    return [tile for _, tile in sorted(good, key=lambda found: found[0])][:most]


def _kind(it: Instruction) -> tuple[Sequence[Tile], Callable[[Tile], float]]:
    """The tiles for an instruction of this kind, and the cost of a product in a tile."""
    if it.extent("m") > 1:
        return BLOCKS, lambda tile: 1.0
    return (FEW_REGISTERS, _cost_of_few) if few_registers(it) else (VECTOR_TILES, _cost)


def _needed(product: Product, it: Instruction, tile: Tile) -> tuple[int, int]:
    """How many tiles cover the result, and how many elements they have together."""
    sizes = extent(product.m), extent(product.n)
    number = work = 1
    for size, axis, count in zip(sizes, "mn", tile, strict=True):
        whole = it.extent(axis) * count
        number *= -(-size // whole)
        work *= -(-size // whole) * whole
    return number, work


def few_registers(it: Instruction) -> bool:
    """Whether the instruction has sixteen vector registers at most, and no tile registers."""
    return it.extent("m") == 1 and it.registers <= 16


def _operands(tile: Tile, it: Instruction) -> int:
    """The registers besides the accumulators: of vectors a row of B, or A's elements, and one more.

    An intermediate value between two instructions takes the place of an operand that is used once.
    """
    if it.extent("m") > 1:
        return sum(tile)
    return min(tile) + 1 + (it.between if min(tile) > 1 else 0)


def _cost(tile: Tile) -> float:
    """The cost of one product in a tile of vectors, relative to that of the best.

    One or two products and as many loads begin in a cycle, and a sum is complete some five cycles
    later. On a Zen 4 the best of sixteen random candidates of bfloat16 512 took 590 us with 4x4,
    613 with 14x2, 609 with 7x2, 793 with 12x1; of conv2d 14x14x256 648, 565, 560 and 1075 (14x1:
    778).
    """
    loads, products = sum(tile), math.prod(tile)
    return max(1.0, loads / products, 8 / products) + 0.1 * loads / products


def _cost_of_few(tile: Tile) -> float:
    """The cost of one product in a tile of vectors with sixteen registers.

    Two products and two loads begin in a cycle, and a sum is complete four cycles later. Fewer
    loads still add to the cost, most of all those of B, which comes from the second cache once for
    each tile.
    """
    rows, columns = tile
    products = rows * columns
    return max(1.0, (rows + columns) / products, 8 / products) + 0.8 / rows + 0.15 / columns


def tiles_over_rows(product: Product, it: Instruction) -> list[Tile]:
    """The largest tiles whose rows run along another axis, for rows too short to fill a tile."""
    if not can_pack(product, it):
        return []
    calls = -(-extent(product.n) // it.extent("n"))
    whole = [
        tile
        for tile in BLOCKS
        if tile[0] > 1 and tile[1] <= calls and tiles_over(product, it, tile[0])
    ]
    return sorted(whole, key=lambda tile: -math.prod(tile))[: _MOST // 2]
