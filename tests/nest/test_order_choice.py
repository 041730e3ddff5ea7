"""Short reductions: when the loops outside of them come along, and when they do not."""

import math

from autosched.nest.core import core_of
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.piece import Piece
from autosched.nest.plan import ScalarStore, plan_store

CORE = core_of(64)


def planned(*loops: InnerLoop) -> tuple[Piece, int]:
    (piece,) = plan_store(ScalarStore(loops, 2, 4, 1.0, updates=True, folds=True), CORE)
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
