"""Plans of whole nests, for 32 registers of 16 floats."""

import pytest

from autosched.nest.core import core_of
from autosched.nest.loop_nest import Drop, InnerLoop, LoopNest, Take
from autosched.nest.piece import Piece
from autosched.nest.plan import Planned, ScalarStore, plan_reduction, plan_store, plan_stores

CORE = core_of(64)


def pieces(
    *loops: InnerLoop, reads: int = 2, updates: bool = True, folds: bool = True
) -> tuple[Piece, ...]:
    return plan_store(ScalarStore(loops, reads, 4, 1.0, updates, folds), CORE)


def matmul(i: int, j: int, k: int, n: int = 1024) -> tuple[InnerLoop, ...]:
    """C[i, j] += A[i, k] * B[k, j], all of rows of n elements."""
    return (
        InnerLoop(j // 16, 16, (0, 16)),
        InnerLoop(i, n, (n, 0)),
        InnerLoop(k, 0, (1, n)),
        InnerLoop(16, 1, (0, 1), True),
    )


def test_a_matmul_fills_the_registers() -> None:
    (piece,) = pieces(*matmul(64, 64, 32))
    assert piece.lanes == 16
    assert piece.accumulators == 16
    tile = piece.tile
    assert tile is not None
    assert tile.factors == (2, 8, 1)
    assert (tile.outer, tile.inside) == ((0, 1), (2,))


def test_a_wide_vector_is_held_in_pieces() -> None:
    loops = InnerLoop(256, 0, (1, 64)), InnerLoop(64, 1, (0, 1), True)
    (piece,) = pieces(*loops)
    assert piece.tile is not None
    assert (piece.tile.chunks, piece.tile.held, piece.lanes) == (4, 4, 16)


def test_an_odd_vector_is_held_whole() -> None:
    loops = InnerLoop(256, 0, (1, 40)), InnerLoop(40, 1, (0, 1), True)
    (piece,) = pieces(*loops)
    assert piece.tile is not None
    assert (piece.tile.chunks, piece.lanes) == (1, 40)


def test_loops_that_run_once_are_dropped() -> None:
    (piece,) = pieces(InnerLoop(16, 1, (1,)), InnerLoop(50, 0, (64,)), reads=1)
    assert piece.nest.moves == (Take(0, 16), Drop((0,)))
    assert piece.tile is not None
    assert len(piece.nest.loops) == len(piece.tile.factors) == 1


def test_what_does_not_update_has_no_tile() -> None:
    (piece,) = pieces(*matmul(64, 64, 32), updates=False)
    assert piece.tile is None
    assert (piece.lanes, piece.accumulators) == (16, 0)


def test_stores_that_stay_as_they_are_have_no_moves() -> None:
    nest = LoopNest((InnerLoop(4, 16, ()), InnerLoop(1, 0, ())), 16, ())
    (piece,) = plan_stores(nest, CORE, 4)
    assert piece.nest is nest


def test_folding_is_asked_for() -> None:
    loops = InnerLoop(8, 1, (64,)), InnerLoop(64, 0, (1,))
    nest = LoopNest(loops, 1, (0,))
    (folded,) = plan_reduction(nest, CORE, 4, 1.0, folds=True)
    (plain,) = plan_reduction(nest, CORE, 4, 1.0, folds=False)
    assert (folded.nest.folded, plain.nest.folded) == (True, False)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_tiles_need_no_more_registers_than_there_are(vector_bytes: int) -> None:
    core = core_of(vector_bytes)
    for i in (1, 3, 8, 14, 64):
        for j in (16, 48, 112, 512):
            for piece in plan_store(ScalarStore(matmul(i, j, 64), 2, 4, 1.0, True, True), core):
                assert 1 <= piece.accumulators < core.registers


def test_the_key_tells_pieces_apart() -> None:
    (one,), (other,) = pieces(*matmul(64, 64, 32)), pieces(*matmul(64, 64, 64))
    assert Planned("C", 2, one).key() == Planned("C", 2, one).key()
    assert Planned("C", 2, one).key() != Planned("C", 2, other).key()
    assert Planned("C", 2, one).key() != Planned("C", 3, one).key()
    assert Planned("C", 2, one).key() != Planned("D", 2, one).key()
