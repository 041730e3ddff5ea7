"""What a plan says of one nest: its loops and lanes, and the outputs that registers hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.nest.loop_nest import LoopNest, Slice
from autosched.nest.register_tile import TileProblem, parts_of


@dataclass(frozen=True, slots=True)
class Tile:
    """The outputs of a reduction that registers hold together.

    `factors` has for each loop of the nest how many of its iterations are held at once, `held` is
    the same for the `chunks` pieces of one vector that can be held by themselves. `outer` are the
    positions of the loops outside the accumulators' life, `inside` of the reduction loops.
    `problem` is what the choice depended on; its tile loops are at the positions `tiled`.
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
        """The factors of the tile loops, and of the chunks."""
        return (*(self.factors[k] for k in self.tiled), self.held)

    @property
    def parts(self) -> int:
        """Partial results of each output: steps take turns at them."""
        return int(parts_of(self.problem, math.prod(self.chosen)))


@dataclass(frozen=True, slots=True)
class Piece:
    """One nest of the code: its loops and lanes, and its tile if it is a reduction."""

    nest: LoopNest
    tile: Tile | None = None

    @property
    def lanes(self) -> int:
        """Of one statement."""
        return self.nest.width if self.tile is None else self.nest.width // self.tile.chunks

    @property
    def accumulators(self) -> int:
        """Statements' results that are held at once; 0 when nothing is accumulated."""
        if self.tile is None:
            return 0
        count = self.tile.held * self.tile.parts
        for factor in self.tile.factors:
            count *= factor
        return count


def accumulates_once(piece: Piece) -> bool:
    """Whether each output of the reduction is loaded and stored once, not for every part of it."""
    loops, tile = piece.nest.loops, piece.tile
    return tile is not None and all(
        loop.extent == 1 or k in tile.inside for k, loop in enumerate(loops) if loop.reduces
    )


def is_first(piece: Piece, reduces: Sequence[bool]) -> bool:
    """Whether no other piece has accumulated into the same outputs before.

    `reduces` tells of each loop of the nest that was cut whether it reduces.
    """
    cuts = [move for move in piece.nest.moves if isinstance(move, Slice) and move.start]
    return not any(move.loop < len(reduces) and reduces[move.loop] for move in cuts)
