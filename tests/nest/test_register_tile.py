"""The choice of register tiles."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from autosched.nest.core import Core
from autosched.nest.register_tile import (
    ENDLESS,
    GOOD,
    MOST_GOOD,
    MOST_NEAR,
    NEAR,
    Operand,
    TileProblem,
    cost,
    good_and_near_tiles,
    most_parts,
    operand_registers,
    parts_of,
    unrolled_steps,
    whole_loops,
)


def matmul(rows: int, chunks: int, registers: int = 32, steps: int = 512) -> TileProblem:
    """A broadcast that depends on the row, a vector that depends on the chunk."""
    operands = (Operand(1.0, (True, False)), Operand(1.0, (False, True)))
    return TileProblem((rows, chunks), operands, steps, Core(64, registers))


def best_tile(problem: TileProblem) -> tuple[int, ...]:
    good, _ = good_and_near_tiles(problem)
    return good[0]


def test_a_matmul_fills_the_registers_without_spilling() -> None:
    for registers in (16, 32):
        tile = best_tile(matmul(24, 4, registers))
        accumulators = math.prod(tile)
        assert registers // 2 <= accumulators < registers
        assert cost(matmul(24, 4, registers), (registers, 1)) == math.inf


def test_a_single_accumulator_is_always_possible() -> None:
    assert best_tile(matmul(1, 1, registers=1)) == (1, 1)


def test_factors_divide_the_extents() -> None:
    assert best_tile(matmul(7, 1)) == (7, 1)
    assert best_tile(matmul(13 * 17, 1))[0] in (13, 17)


def test_more_reuse_is_cheaper() -> None:
    problem = matmul(12, 4)
    assert cost(problem, (6, 4)) < cost(problem, (1, 4)) < math.inf


def test_few_accumulators_have_partial_results() -> None:
    """As many as a core can work on without waiting, where there are steps enough."""
    row = TileProblem((1,), (Operand(1.0, (False,)),), 64, Core(64, 32), most_parts=8)
    accumulators = np.arange(1, 11)
    assert [parts_of(row, int(n)) for n in accumulators] == [8, 4, 2, 2, 1, 1, 1, 1, 1, 1]
    assert np.array_equal(parts_of(row, accumulators), [8, 4, 2, 2, 1, 1, 1, 1, 1, 1])
    assert [most_parts(steps) for steps in (1, 7, 8, 15, 16, 31, 32, 999)] == [
        1,
        1,
        2,
        2,
        4,
        4,
        8,
        8,
    ]
    assert parts_of(replace(row, most_parts=most_parts(20)), 1) == 4
    assert cost(row, (1,), ENDLESS) < cost(replace(row, most_parts=1), (1,), ENDLESS) / 4


def test_a_long_reduction_spreads_what_surrounds_it() -> None:
    problem = matmul(6, 2, steps=4)
    assert cost(problem, (6, 2), 400) < cost(problem, (6, 2)) == cost(problem, (6, 2), 4)


def test_the_operand_with_most_copies_streams_through_one_register() -> None:
    operands = matmul(6, 2).operands
    assert operand_registers(operands, (6, 2)) == (1 + 2, 8.0)
    assert operand_registers(operands, (1, 4)) == (1 + 1, 5.0)


def test_arrays_of_tiles_cost_what_each_of_them_costs() -> None:
    problem = matmul(24, 4)
    tiles = list(itertools.product((1, 2, 3, 4, 6, 8, 12, 24), (1, 2, 4)))
    rows, chunks = np.array(tiles).T
    one_by_one = [cost(problem, tile) for tile in tiles]
    assert math.inf in one_by_one
    assert np.asarray(cost(problem, (rows, chunks))).tolist() == one_by_one
    steps = np.arange(1, len(tiles) + 1)
    assert np.asarray(cost(problem, (rows, chunks), steps)).tolist() == [
        cost(problem, tile, int(n)) for tile, n in zip(tiles, steps)
    ]
    assert np.asarray(cost(problem, (6, 2), steps)).tolist() == [
        cost(problem, (6, 2), int(n)) for n in steps
    ]


def test_rounds_of_the_innermost_loop_divide_it_and_stay_small() -> None:
    assert unrolled_steps(64, 1, 16) == 4
    assert unrolled_steps(6, 1, 16) == 2
    assert unrolled_steps(7, 1, 16) == 1
    assert [unrolled_steps(n, 1, 16) for n in (15, 17, 30, 31, 33)] == [1, 2, 2, 2, 4]
    assert unrolled_steps(333, 26, 16) == 2
    assert unrolled_steps(64, 28, 16) == 2
    assert unrolled_steps(64, 40, 16) == 1


def test_long_steps_are_not_unrolled_where_registers_are_many() -> None:
    assert [unrolled_steps(64, copies, 32) for copies in (1, 7, 8, 15, 16)] == [4, 4, 2, 2, 1]
    assert [unrolled_steps(64, copies, 16) for copies in (8, 16)] == [4, 4]


def test_short_reductions_are_unrolled_whole_from_the_inside() -> None:
    assert whole_loops([3, 3], 7, 32) == 2  # 63 copies
    assert whole_loops([3, 3], 8, 32) == 1
    assert whole_loops([3, 3], 22, 64) == 0
    assert whole_loops([2, 512], 1, 32) == 0
    assert whole_loops([], 1, 32) == 0


def test_loops_stay_rolled_where_what_steps_share_would_not_fit_registers() -> None:
    assert whole_loops([3], 14, 32) == 1
    assert whole_loops([3], 14, 16) == 0


def test_tiles_that_keep_the_core_as_busy_are_few_and_begin_with_the_best() -> None:
    problem = matmul(16, 4)
    tiles, _ = good_and_near_tiles(problem)
    assert 1 < len(tiles) <= MOST_GOOD
    assert len(set(tiles)) == len(tiles)
    best = cost(problem, tiles[0], ENDLESS)
    costs = [cost(problem, tile, ENDLESS) for tile in tiles]
    assert all(best - 1e-3 <= each <= GOOD * best + 1e-3 for each in costs)


def test_tiles_behind_the_good_ones() -> None:
    problem = matmul(16, 4)
    good, near = good_and_near_tiles(problem)
    least = cost(problem, good[0], ENDLESS)
    assert near and len(near) <= MOST_NEAR
    assert set(good).isdisjoint(near)
    assert all(
        GOOD * least - 1e-3 <= cost(problem, tile, ENDLESS) <= NEAR * least + 1e-3 for tile in near
    )
