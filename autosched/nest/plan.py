"""Plan a nest: its pieces, the lanes of each, and the tile of outputs held in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from autosched.nest.arrangement import least_moved
from autosched.nest.core import Core
from autosched.nest.lanes import output_lanes, scheduled_lanes
from autosched.nest.loop_nest import InnerLoop, LoopNest, without_single_iterations
from autosched.nest.loop_order import SHORT_REDUCTION, around_accumulators, last_reduction
from autosched.nest.piece import Piece, Tile
from autosched.nest.register_tile import (
    FOLD_CYCLES,
    STORE_CYCLES,
    TILE_LOOPS,
    Operand,
    TileProblem,
    good_and_near_tiles,
    most_parts,
)
from autosched.nest.window import shares

WINDOW_LANES = 3
"""The fewest lanes of a window. In a long piece of code, LLVM combines narrower statements into
vectors of its own, some with many shuffles."""


class ScalarStore(NamedTuple):
    """A store of single elements of `element` bytes inside `loops`.

    The schedule may vectorise one of the loops. The store reads `reads` other elements and takes
    `weight` instructions besides loads. With `updates` it also reads the element that it stores, so
    that loops which do not move it are reductions. With `folds`, partial results may be kept and
    added up later.
    """

    loops: tuple[InnerLoop, ...]
    reads: int
    element: int
    weight: float
    updates: bool = False
    folds: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A piece that stores to the buffer named `buffer` and runs `times` times.

    Either the code generator made it, or the features foresee it.
    """

    buffer: str
    times: int
    piece: Piece

    def key(self) -> tuple[object, ...]:
        """Buffer, runs, loops, lanes and tile: equal for pieces that do the same."""
        nest, tile = self.piece.nest, self.piece.tile
        loops = tuple((loop.extent, loop.stride) for loop in nest.loops if loop.extent > 1)
        return (
            self.buffer,
            self.times,
            loops,
            nest.width,
            nest.own,
            () if tile is None else (tile.chosen, tile.chunks, tile.outer, tile.inside),
        )


@lru_cache(maxsize=20_000)
def plan_store(store: ScalarStore, core: Core) -> tuple[Piece, ...]:
    """The pieces of a store in scalar loops; the loop that the schedule vectorises becomes
    lanes."""
    nest = scheduled_lanes(store.loops, store.reads)
    if nest.scattered:
        return (Piece(nest),)
    if store.updates and any(loop.reduces for loop in nest.loops):
        return plan_reduction(nest, core, store.element, store.weight, folds=store.folds)
    return plan_stores(nest, core, store.element)


def plan_reduction(
    nest: LoopNest, core: Core, element: int, weight: float, *, folds: bool
) -> tuple[Piece, ...]:
    """The pieces of a reduction over elements of `element` bytes, in the order they run in.

    `weight` counts the instructions of one step besides loads; `folds` allows partial results.
    """
    fit = core.lanes(element)
    return tuple(
        _tiled(without_single_iterations(part), fit, core, element, weight)
        for part in output_lanes(nest, fit, folds=folds)
    )


def plan_stores(nest: LoopNest, core: Core, element: int) -> tuple[Piece, ...]:
    """The pieces of a nest that does not reduce: stores become vectors, loops keep their order.

    A single piece without moves means that nothing changes.
    """
    parts = tuple(output_lanes(nest, core.lanes(element)))
    if len(parts) == 1 and parts[0] is nest:
        return (Piece(nest),)
    return tuple(Piece(without_single_iterations(part)) for part in parts)


def _tiled(nest: LoopNest, fit: int, core: Core, element: int, weight: float) -> Piece:
    loops = nest.loops
    chunks = nest.width // fit if nest.width > fit and nest.width % fit == 0 else 1
    spatial = [k for k, loop in enumerate(loops) if not loop.reduces and loop.extent > 1]
    tiled = tuple(spatial[-TILE_LOOPS:])
    extents = (*(loops[k].extent for k in tiled), chunks)
    problem = TileProblem(
        extents,
        tuple(_operands(nest, tiled, nest.width // chunks)),
        loops[last_reduction(loops)].extent,
        core,
        weight,
        FOLD_CYCLES if nest.folded else STORE_CYCLES,
        most_parts=most_parts(_longest(nest)) if nest.folded else 1,
    )
    if not nest.folded and (nest.width <= fit or chunks > 1):
        problem = _with_window(problem, nest, tiled, nest.width // chunks)
    good, near = (
        [_orders(nest, chunks, tiled, problem, tile) for tile in tiles]
        for tiles in good_and_near_tiles(problem)
    )
    return least_moved(good, near, element)


def _orders(
    nest: LoopNest,
    chunks: int,
    tiled: tuple[int, ...],
    problem: TileProblem,
    chosen: tuple[int, ...],
) -> Iterator[Piece]:
    """Yield the piece with the tile `chosen` for every possible order of the loops around it."""
    loops = nest.loops
    factors = [1] * len(loops)
    for k, factor in zip(tiled, chosen[:-1], strict=True):
        factors[k] = factor
    kept = [k for k, loop in enumerate(loops) if loop.reduces or factors[k] != loop.extent]
    for outer, inside in dict.fromkeys(
        around_accumulators(loops, kept, short) for short in (SHORT_REDUCTION, 1)
    ):
        yield Piece(nest, Tile(tuple(factors), chosen[-1], chunks, outer, inside, tiled, problem))


def _operands(nest: LoopNest, tiled: tuple[int, ...], width: int) -> Iterator[Operand]:
    for k, step in enumerate(nest.steps):
        gathered = nest.gathered(k)
        varies = [
            loop.reads[k] != 0 or (bool(loop.blocks) and loop.blocks[k] != 0)
            for loop in (nest.loops[j] for j in tiled)
        ]
        along = not nest.folded and (step != 0 or gathered)
        yield Operand(float(width) if gathered else 1.0, (*varies, along))


def _with_window(
    problem: TileProblem, nest: LoopNest, tiled: tuple[int, ...], width: int
) -> TileProblem:
    """Add the window of the innermost reduction loops to the problem, if their steps share reads.

    The conditions that guard reads, and the strides of the reads, must be the same for all of its
    steps.
    """
    if nest.width < WINDOW_LANES or not problem.core.windows:
        return problem
    loops, run = nest.loops, _innermost_run(nest)
    if any(loops[k].conditional or any(loops[k].blocks) for k in (*tiled, *run)):
        return problem
    operands = [
        replace(
            operand,
            cost=operand.cost * (load_pieces(width) if nest.steps[k] == 1 else 1),
            steps=(*(loops[j].reads[k] for j in tiled), nest.steps[k] * width),
            along=tuple([loops[j].reads[k] for j in run]),
        )
        for k, operand in enumerate(problem.operands)
    ]
    window = tuple([loops[k].extent for k in run])
    if not any(shares(operand, problem.extents, window) for operand in operands):
        return problem
    return replace(problem, operands=tuple(operands), window=window)


def _innermost_run(nest: LoopNest) -> list[int]:
    """The positions of the innermost run of adjacent reduction loops."""
    run = [last_reduction(nest.loops)]
    while run[0] > 0 and nest.loops[run[0] - 1].reduces:
        run.insert(0, run[0] - 1)
    return run


def _longest(nest: LoopNest) -> int:
    """The largest extent in the innermost run of reduction loops."""
    return max(nest.loops[k].extent for k in _innermost_run(nest))


def load_pieces(width: int) -> int:
    """The number of instructions that load `width` neighbours: powers of two, and shuffles.

    A masked load takes one instruction (codegen/llvm_masks.py), but windows gain more than that
    figure says: with a cost of one, convolutions of 7 and 14 columns took up to 1.3 times as long.
    """
    return 2 * width.bit_count() - 1
