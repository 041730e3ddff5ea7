"""How many calls of a tensor instruction accumulate at a time: tiles that suit its registers."""

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
"""Calls down and across whose accumulators, a row of B and an element of A fit 32 registers.

Those for more than one row have fourteen or more products under way, one or two begun a cycle and
done some five later. Seven and fourteen rows divide the images of usual networks."""

FEW_REGISTERS = (
    *((6, 2), (4, 3), (5, 2), (4, 2), (2, 4), (14, 1), (12, 1), (7, 1)),
    *((1, 8), (1, 4), (1, 2)),
)
"""The same for 16 registers: seven products or more, but for one row."""

_MOST = 4
"""Tiles of one instruction that are tried."""


def tiles_of(product: Product, it: Instruction) -> list[Tile]:
    """The tiles that take the least: at most four, without those larger than the result."""
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
    """The tiles of such an instruction, and what a product in each costs."""
    if it.extent("m") > 1:
        return BLOCKS, lambda tile: 1.0
    return (FEW_REGISTERS, _cost_of_few) if few_registers(it) else (VECTOR_TILES, _cost)


def _needed(product: Product, it: Instruction, tile: Tile) -> tuple[int, int]:
    """How many tiles there are, and the elements that they have together."""
    sizes = extent(product.m), extent(product.n)
    number = work = 1
    for size, axis, count in zip(sizes, "mn", tile, strict=True):
        whole = it.extent(axis) * count
        number *= -(-size // whole)
        work *= -(-size // whole) * whole
    return number, work


def few_registers(it: Instruction) -> bool:
    """Whether it has sixteen vector registers, not tiles of its own."""
    return it.extent("m") == 1 and it.registers <= 16


def _operands(tile: Tile, it: Instruction) -> int:
    """Registers besides the accumulators: of vectors a row of B, or A's elements, and one more.

    What is between two instructions takes the place of an operand that is used once.
    """
    if it.extent("m") > 1:
        return sum(tile)
    return min(tile) + 1 + (it.between if min(tile) > 1 else 0)


def _cost(tile: Tile) -> float:
    """Of one product in a tile of vectors, as a share of that of the best.

    One or two products and as many loads begin a cycle, and a sum is there some five later. On a
    Zen 4 the best of sixteen random candidates of bfloat16 512 took 590 us with 4x4, 613 with 14x2,
    609 with 7x2, 793 with 12x1; of conv2d 14x14x256 648, 565, 560 and 1075 (14x1: 778).
    """
    loads, products = sum(tile), math.prod(tile)
    return max(1.0, loads / products, 8 / products) + 0.1 * loads / products


def _cost_of_few(tile: Tile) -> float:
    """The same with sixteen registers.

    Two products and two loads begin a cycle, and a sum is there four cycles later. Fewer loads
    still take their share: most those of B, which comes from the second cache once for each tile.
    """
    rows, columns = tile
    products = rows * columns
    return max(1.0, (rows + columns) / products, 8 / products) + 0.8 / rows + 0.15 / columns


def tiles_over_rows(product: Product, it: Instruction) -> list[Tile]:
    """The largest tiles whose rows are steps of another axis, which a short row leaves unused."""
    if not can_pack(product, it):
        return []
    calls = -(-extent(product.n) // it.extent("n"))
    whole = [
        tile
        for tile in BLOCKS
        if tile[0] > 1 and tile[1] <= calls and tiles_over(product, it, tile[0])
    ]
    return sorted(whole, key=lambda tile: -math.prod(tile))[: _MOST // 2]
