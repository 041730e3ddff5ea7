"""List the loops around a store in the order in which the generated code runs them.

The plan of the nest gives the order: loops outside the accumulators' lifetime, the reduction, the
tile of outputs that registers hold, then lanes.
"""

from __future__ import annotations

from typing import NamedTuple

from autosched.nest.loop_nest import InnerLoop, LoopNest
from autosched.nest.piece import Piece, Tile


class Visit(NamedTuple):
    """A loop of the generated code: extent, and strides in elements, the stored access first."""

    extent: int
    strides: tuple[int, ...]


def visits(piece: Piece, accesses: int) -> tuple[Visit, ...]:
    """The loops of the piece, outermost first, lanes last; each has `accesses` strides."""
    nest = piece.nest
    if piece.tile is not None:
        return _tiled(nest, piece.tile, accesses)
    plain = [_visit(loop, loop.extent, accesses) for loop in nest.loops if loop.extent > 1]
    return (*plain, _lanes(nest, nest.width, accesses))


def _tiled(nest: LoopNest, tile: Tile, accesses: int) -> tuple[Visit, ...]:
    width = nest.width // tile.chunks * tile.held
    found = [
        _visit(nest.loops[k], nest.loops[k].extent // tile.factors[k], accesses, tile.factors[k])
        for k in tile.outer
    ]
    if nest.width > width:
        found.append(_lanes(nest, nest.width // width, accesses, width))
    found += [_visit(nest.loops[k], nest.loops[k].extent, accesses) for k in tile.inside]
    found += [
        _visit(nest.loops[k], tile.factors[k], accesses) for k in tile.tiled if tile.factors[k] > 1
    ]
    found.append(_lanes(nest, width, accesses))
    return tuple([visit for visit in found[:-1] if visit.extent > 1] + found[-1:])


def _visit(loop: InnerLoop, extent: int, accesses: int, scale: int = 1) -> Visit:
    return Visit(extent, _strides(loop.stride, loop.reads, accesses, scale))


def _lanes(nest: LoopNest, count: int, accesses: int, scale: int = 1) -> Visit:
    return Visit(count, _strides(nest.own, nest.steps, accesses, scale))


def _strides(own: int, reads: tuple[int, ...], accesses: int, scale: int) -> tuple[int, ...]:
    return (own * scale, *[read * scale for read in reads[: accesses - 1]])
