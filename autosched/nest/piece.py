"""A piece of a plan: one loop nest of the generated code, and the outputs that registers hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.nest.loop_nest import LoopNest, Slice
from autosched.nest.register_tile import TileProblem, parts_of


@dataclass(frozen=True, slots=True)
class Tile:
    """The outputs of a reduction that registers hold together.

    `factors` has for each loop of the nest how many of its iterations are held at once. The nest's
    lanes are divided into `chunks` of one vector each, of which `held` are held at once. `outer`
    are the positions of the loops outside the accumulators' lifetime, `inside` those of the
    reduction loops. `problem` is the input of the choice; its tile loops are at the positions
    `tiled`.
    """

    factors: tuple[int, ...]
    held: int
    chunks: int
    outer: tuple[int, ...]
    inside: tuple[int, ...]
    tiled: tuple[int, ...]
    problem: TileProblem

    @property
    def chosen(self) -> tuple[int, ...]:
        """The factor of each tile loop, then the number of chunks held at once."""
        return (*(self.factors[k] for k in self.tiled), self.held)

    @property
    def parts(self) -> int:
        """The number of partial results of each output; reduction steps take turns at them."""
        return int(parts_of(self.problem, math.prod(self.chosen)))


@dataclass(frozen=True, slots=True)
class Piece:
    """One loop nest of the generated code: its loops and lanes, and the tile of a reduction."""

    nest: LoopNest
    tile: Tile | None = None

    @property
    def lanes(self) -> int:
        """The number of lanes of one statement."""
        return self.nest.width if self.tile is None else self.nest.width // self.tile.chunks

    @property
    def accumulators(self) -> int:
        """The number of accumulators held at once; 0 when nothing is accumulated."""
        if self.tile is None:
            return 0
        count = self.tile.held * self.tile.parts
        for factor in self.tile.factors:
            count *= factor
        return count


def accumulates_once(piece: Piece) -> bool:
    """Whether each output of the reduction is loaded and stored only once.

    It is not when reduction loops are outside the accumulators' lifetime.
    """
    loops, tile = piece.nest.loops, piece.tile
    return tile is not None and all(
        loop.extent == 1 or k in tile.inside for k, loop in enumerate(loops) if loop.reduces
    )


def is_first(piece: Piece, reduces: Sequence[bool]) -> bool:
    """Whether no earlier piece has accumulated into the same outputs.

    `reduces` tells for each loop of the nest before it was cut whether it is a reduction loop.
    """
    cuts = [move for move in piece.nest.moves if isinstance(move, Slice) and move.start]
    return not any(move.loop < len(reduces) and reduces[move.loop] for move in cuts)
