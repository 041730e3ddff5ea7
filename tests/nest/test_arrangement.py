"""Which tile and which order of loops a plan takes, and what both move."""

import math

import pytest

from autosched.nest.core import core_of
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.piece import Piece
from autosched.nest.plan import ScalarStore, plan_store
from autosched.nest.register_tile import good_and_near_tiles

CORE = core_of(64)


def planned(*loops: InnerLoop, folds: bool = True) -> tuple[Piece, int]:
    (piece,) = plan_store(ScalarStore(loops, 2, 4, 1.0, updates=True, folds=folds), CORE)
    assert piece.tile is not None
    extents: list[int] = [piece.nest.loops[k].extent for k in piece.tile.inside]
    steps = math.prod(extents)
    return piece, steps


def convolution(channels: int, width: int, outputs: int, rows: int = 2) -> tuple[InnerLoop, ...]:
    """Y[h, w, co] += P[h + rh, w + rw, rc] * K[rh, rw, rc, co]: rc outside of h, rh and rw inside,
    accumulators of 14 x `outputs` and weights of rows of `width` channels."""
    padded = 16 * channels
    return (
        InnerLoop(channels, 0, (1, width)),
        InnerLoop(rows, 14 * outputs, (padded, 0)),
        InnerLoop(3, 0, (padded, channels * width)),
        InnerLoop(3, 0, (channels, 3 * channels * width)),
        InnerLoop(14, outputs, (channels, 0)),
        InnerLoop(outputs, 1, (0, 1), True),
    )


def test_weights_that_no_cache_holds_are_not_read_again_for_every_output() -> None:
    """1.2 MB of weights for each of 14 tiles, or 9 steps between two visits of an accumulator:
    TVM's order took a fifth of the time."""
    piece, steps = planned(*convolution(256, 256, 128))
    assert steps == 9 and piece.tile is not None
    assert piece.nest.loops[piece.tile.outer[0]].extent == 256


def test_weights_that_stay_in_the_cache_are() -> None:
    _, steps = planned(*convolution(8, 16, 16))
    assert steps == 8 * 9


def test_a_reduction_in_two_loops_is_done_at_once() -> None:
    """A matmul's C[2 x 1024, 16 x 32] in registers over all 512 steps, not over 8 of them."""
    _, steps = planned(
        InnerLoop(64, 0, (8, 4096)),
        InnerLoop(2, 4096, (4096, 0)),
        InnerLoop(8, 0, (1, 512)),
        InnerLoop(8, 512, (512, 0)),
        InnerLoop(32, 1, (0, 1), True),
    )
    assert steps == 512


def chosen(*loops: InnerLoop) -> tuple[tuple[int, ...], int]:
    tile = planned(*loops)[0].tile
    assert tile is not None
    return tile.factors, tile.held


def test_a_tile_reads_less_when_it_has_rows_and_columns() -> None:
    """B is 1 MB and read once for each row of tiles: with 4 rows in registers once, with 2 twice.
    The units of the core are as busy either way."""
    loops = (
        InnerLoop(64, 0, (8, 4096)),
        InnerLoop(2, 1024, (1024, 0)),
        InnerLoop(32, 16, (0, 16)),
        InnerLoop(8, 0, (1, 512)),
        InnerLoop(2, 512, (512, 0)),
        InnerLoop(16, 1, (0, 1), True),
    )
    assert chosen(*loops) == ((1, 2, 4, 1, 2), 1)


def test_gathered_rows_are_few_enough_to_stay_in_the_nearest_cache() -> None:
    """Lanes along rows 2 KB apart: 16 vectors of them need 256 lines at a time, and only two places
    of a page; two vectors read each line to its end. A fourth of the time."""
    loops = (
        InnerLoop(256, 0, (2, 1024)),
        InnerLoop(128, 2, (1024, 0)),
        InnerLoop(2, 0, (1, 512)),
        InnerLoop(2, 1, (512, 0)),
    )
    (piece,) = plan_store(ScalarStore(loops, 2, 4, 1.0, updates=True), CORE)
    assert piece.nest.gathers == 1
    assert piece.accumulators == 2


def test_a_tile_that_saves_little_does_not_replace_the_first() -> None:
    """All data fit the nearest cache."""
    loops = (
        InnerLoop(8, 64, (16, 0)),
        InnerLoop(4, 16, (0, 16)),
        InnerLoop(16, 0, (1, 64)),
        InnerLoop(16, 1, (0, 1), True),
    )
    factors, _ = chosen(*loops)
    assert factors == choose_in_order(loops)


def choose_in_order(loops: tuple[InnerLoop, ...]) -> tuple[int, ...]:
    """The tile that the core alone would choose."""
    planned_tile = planned(*loops)[0].tile
    assert planned_tile is not None
    good, _ = good_and_near_tiles(planned_tile.problem)
    return (good[0][0], good[0][1], 1)


def test_rows_that_share_one_place_of_a_cache_are_few() -> None:
    """A window over 7 rows of a padded image, 16 KB apart: their lines share one set of L1. Two
    such windows need more lines than it has ways; 14 columns do not."""
    loops = (
        InnerLoop(3, 0, (256, 65536)),
        InnerLoop(64, 0, (4, 1024)),
        InnerLoop(2, 784, (28672, 0)),
        InnerLoop(14, 8, (256, 0)),
        InnerLoop(3, 0, (4096, 196608)),
        InnerLoop(4, 0, (1, 256)),
        InnerLoop(7, 112, (4096, 0)),
        InnerLoop(8, 1, (0, 1), True),
    )
    factors, _ = chosen(*loops)
    assert factors[2] * factors[6] < 12


def halves(lanes: int, column: int, steps: int) -> tuple[InnerLoop, ...]:
    """A convolution's rw, rc.o, h.o x 2, w x 14, rh, rc.i, h.i: 28 accumulators leave no loop
    between the reductions. `column` elements lie between columns of its input, 16 of them a row."""
    row = 16 * column
    return (
        InnerLoop(3, 0, (column, 65536)),
        InnerLoop(64, 0, (4, 1024)),
        InnerLoop(2, 196 * lanes, (7 * row, 0)),
        InnerLoop(14, 2 * lanes, (column, 0)),
        InnerLoop(3, 0, (row, 196608)),
        InnerLoop(steps, 0, (1, 256)),
        InnerLoop(7, 28 * lanes, (row, 0)),
        InnerLoop(lanes, 1, (0, 1), True),
    )


def test_a_smaller_tile_leaves_a_reduction_outside_where_rows_share_sets_of_the_cache() -> None:
    """28 lines a multiple of 1 KB apart, of which the nearest cache holds 12 at each of four
    places, for three rh in turn: 14 at a time, 12 steps between two visits. 0.7 of the time."""
    piece, steps = planned(*halves(8, 256, 4), folds=False)
    assert (steps, piece.accumulators) == (12, 14)


@pytest.mark.parametrize(
    ("lanes", "column", "steps"),
    [
        pytest.param(8, 256, 2, id="six steps between two visits are too few"),
        pytest.param(2, 256, 4, id="two lanes are a small part of a register"),
    ],
)
def test_elsewhere_a_tile_that_keeps_the_core_busy_is_kept(
    lanes: int, column: int, steps: int
) -> None:
    piece, _ = planned(*halves(lanes, column, steps), folds=False)
    assert piece.accumulators == 28
