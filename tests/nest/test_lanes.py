"""Lanes of a nest, for registers of 16 elements."""

import pytest

from autosched.nest.lanes import lanes_from, output_lanes, scheduled_lanes
from autosched.nest.loop_nest import Fold, InnerLoop, LoopNest, Slice, Take, Unlane


def nests(*loops: InnerLoop, reads: int = 1, folds: bool = True) -> list[LoopNest]:
    nest = scheduled_lanes(loops, reads)
    return [nest] if nest.scattered else list(output_lanes(nest, 16, folds=folds))


def test_powers_of_two_or_a_short_odd_loop_become_lanes() -> None:
    assert [lanes_from(extent, 16) for extent in (64, 24, 12, 20, 7, 1)] == [16, 8, 12, 4, 7, 1]
    assert lanes_from(64, 5) == 4


def test_a_vectorised_loop_is_where_lanes_begin() -> None:
    (nest,) = nests(InnerLoop(9, 0, (64,)), InnerLoop(4, 4, (4,)), InnerLoop(4, 1, (1,), True))
    assert (nest.width, nest.gathers) == (16, 0)
    assert [loop.extent for loop in nest.loops] == [9, 1]
    assert nest.moves == (Take(1, 4),)


def test_lanes_end_where_a_read_does_not_go_on_as_they_began() -> None:
    """C[i, j] of a tile 4 wide: the next row follows in C, but B starts again."""
    loops = InnerLoop(9, 0, (1, 512)), InnerLoop(8, 4, (64, 0)), InnerLoop(4, 1, (0, 1))
    (nest,) = nests(*loops, reads=2)
    assert (nest.width, nest.gathers) == (4, 0)


def test_a_loop_that_was_taken_whole_does_not_hide_the_next_one() -> None:
    """The loop of 4 becomes lanes; then it moves the store as far as the loop of 2 outside."""
    (nest,) = nests(InnerLoop(2, 8, ()), InnerLoop(2, 4, ()), InnerLoop(4, 1, ()), reads=0)
    assert nest.width == 16
    assert nest.moves == (Take(2, 4), Take(1, 2), Take(0, 2))
    (same,) = nests(InnerLoop(4, 1, ()), InnerLoop(2, 4, ()), InnerLoop(2, 8, ()), reads=0)
    assert same.width == 16


def test_a_loop_of_vectors_is_cut_into_whole_registers_and_a_rest() -> None:
    """25 vectors of 4: six registers of 16 lanes, and 4."""
    loops = InnerLoop(9, 0, (100,)), InnerLoop(25, 4, (4,)), InnerLoop(4, 1, (1,), True)
    whole, rest = nests(*loops)
    assert (whole.width, rest.width) == (16, 4)
    assert (whole.iterations, rest.iterations) == (9 * 96, 9 * 4)
    assert whole.moves == (Slice(1, 0, 24), Take(1, 4))
    assert rest.moves == (Slice(1, 24, 1),)


def test_a_long_loop_fills_registers_though_half_a_register_divides_it() -> None:
    """1000 = 62 * 16 + 8; 24 elements are three times 8."""
    whole, rest = nests(InnerLoop(1000, 1, (1,)))
    assert (whole.width, whole.iterations, rest.width, rest.iterations) == (16, 992, 8, 8)
    (short,) = nests(InnerLoop(24, 1, (1,)))
    assert short.width == 8


def test_lanes_that_are_stored_apart_stay_as_they_are() -> None:
    (nest,) = nests(InnerLoop(9, 0, (1,)), InnerLoop(8, 64, (1,), True))
    assert (nest.width, nest.own, nest.scattered, nest.folded) == (8, 64, True, False)


def test_a_vectorised_loop_that_reduces_runs_lane_by_lane() -> None:
    nest = scheduled_lanes((InnerLoop(9, 1, (1,)), InnerLoop(8, 0, (1,), True)), 1)
    assert (nest.width, len(nest.loops)) == (1, 2)


def test_the_rest_of_a_sum_along_lanes_is_a_nest_of_its_own() -> None:
    whole, rest = nests(InnerLoop(3, 1, (50,)), InnerLoop(50, 0, (1,)))
    assert (whole.width, whole.folded, whole.iterations) == (16, True, 3 * 48)
    assert (rest.width, rest.folded, rest.iterations) == (1, False, 3 * 2)
    assert whole.moves == (Slice(1, 0, 48), Fold(), Take(1, 16))
    assert rest.moves == (Slice(1, 48, 2),)
    _, rest = nests(InnerLoop(57, 0, (1,)))
    assert (rest.width, rest.folded, rest.moves) == (9, True, (Slice(0, 48, 9), Fold(), Take(0, 9)))


def test_lanes_along_outputs_are_taken_back_when_reads_need_the_reduction() -> None:
    """Vectors of 4 outputs whose reads are 64 apart: the reduction's neighbours are contiguous."""
    (nest,) = nests(InnerLoop(64, 0, (1,)), InnerLoop(4, 1, (64,), True))
    assert nest.folded
    assert nest.moves == (Unlane(), Fold(), Take(0, 16))


def test_a_sum_that_must_keep_its_order_gathers() -> None:
    (nest,) = nests(InnerLoop(64, 0, (1,)), InnerLoop(16, 1, (64,)), folds=False)
    assert (nest.folded, nest.width, nest.gathers) == (False, 16, 1)


def test_lanes_of_conditions_do_not_grow() -> None:
    inner = InnerLoop(4, 1, (1,), True, conditional=True)
    (nest,) = nests(InnerLoop(8, 4, (4,)), inner)
    assert (nest.width, nest.closed) == (4, True)
    (free,) = nests(InnerLoop(8, 4, (4,)), inner._replace(conditional=False))
    assert free.width == 16
    (outside,) = nests(InnerLoop(8, 4, (4,), conditional=True), inner._replace(conditional=False))
    assert outside.width == 4


def test_a_value_without_a_vector_form_runs_lane_by_lane() -> None:
    (nest,) = nests(InnerLoop(9, 1, (1,), True, lanes=1))
    assert (nest.width, nest.moves) == (1, ())
    (some,) = nests(InnerLoop(16, 1, (1,), lanes=4), reads=1)
    assert some.width == 1  # 16 lanes are wanted, blocks of 4 have a vector form
    (less,) = nests(InnerLoop(4, 1, (1,), lanes=4), reads=1)
    assert less.width == 4


def test_lanes_across_the_blocks_of_a_quotient_are_gathered_and_do_not_grow() -> None:
    """A[i // 8 * 20 + i % 8]: contiguous in blocks of 8."""
    block = InnerLoop(8, 1, (1,), blocks=(8,))
    (within,) = nests(block)
    assert (within.width, within.gathers) == (8, 0)
    (across,) = nests(block._replace(extent=64))
    assert (across.width, across.gathers) == (16, 1)
    (closed,) = nests(InnerLoop(4, 12, (12,)), block._replace(extent=12, vector=True))
    assert (closed.width, closed.gathers) == (12, 1)
    (stays,) = nests(block._replace(extent=4, stride=4, reads=(4,)), InnerLoop(4, 1, (1,), True))
    assert stays.width == 4  # the loop outside goes through blocks


def test_the_nest_described_is_given_back_when_nothing_becomes_lanes() -> None:
    nest = LoopNest((InnerLoop(8, 2, (1,)),), 1, (0,))
    assert list(output_lanes(nest, 16)) == [nest]
    assert next(output_lanes(nest, 16)) is nest


def test_neighbours_of_a_short_reduction_are_dealt_to_the_lanes_of_outputs() -> None:
    """C[i] += A[i*4 + k]: all of a vector of A is used, in four steps; what is left over is
    folded."""
    whole, rest = nests(InnerLoop(125, 1, (4,)), InnerLoop(4, 0, (1,)))
    assert (whole.width, whole.own, whole.steps) == (16, 1, (4,))
    assert [loop.extent for loop in whole.loops] == [7, 4]
    assert rest.folded and rest.iterations == 13 * 4


@pytest.mark.parametrize(
    "loops",
    [
        pytest.param((InnerLoop(128, 1, (8,)), InnerLoop(8, 0, (1,))), id="too many steps"),
        pytest.param((InnerLoop(128, 1, (64,)), InnerLoop(4, 0, (1,))), id="outputs far apart"),
        pytest.param((InnerLoop(32, 1, (4,)), InnerLoop(4, 0, (1,))), id="perhaps stored just now"),
        pytest.param(
            (InnerLoop(50, 6, (24,)), InnerLoop(6, 1, (4,)), InnerLoop(4, 0, (1,))),
            id="few outputs in a row",
        ),
        pytest.param(
            (InnerLoop(128, 1, (4,), conditional=True), InnerLoop(4, 0, (1,))), id="under a mask"
        ),
        pytest.param(
            (InnerLoop(128, 1, (4,), blocks=(8,)), InnerLoop(4, 0, (1,))), id="uneven distances"
        ),
    ],
)
def test_other_sums_along_neighbours_are_folded(loops: tuple[InnerLoop, ...]) -> None:
    assert all(nest.folded for nest in nests(*loops))
