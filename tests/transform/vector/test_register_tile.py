"""The choice of register tiles."""

from __future__ import annotations

import math

from autosched.transform.vector.register_tile import Operand, TileProblem, choose_tile, cost


def matmul(rows: int, chunks: int, registers: int = 32, steps: int = 512) -> TileProblem:
    """A broadcast that depends on the row, a vector that depends on the chunk."""
    operands = (Operand(1.0, (True, False)), Operand(1.0, (False, True)))
    return TileProblem((rows, chunks), operands, steps, registers)


def test_a_matmul_fills_the_registers_without_spilling():
    for registers in (16, 32):
        tile = choose_tile(matmul(24, 4, registers))
        accumulators = math.prod(tile)
        assert registers // 2 <= accumulators < registers
        assert cost(matmul(24, 4, registers), (registers, 1)) is None


def test_a_single_accumulator_is_always_possible():
    assert choose_tile(matmul(1, 1, registers=1)) == (1, 1)


def test_factors_divide_the_extents():
    assert choose_tile(matmul(7, 1)) == (7, 1)
    assert choose_tile(matmul(13 * 17, 1))[0] in (13, 17)


def test_more_reuse_is_cheaper():
    problem = matmul(12, 4)
    best, poor = cost(problem, (6, 4)), cost(problem, (1, 4))
    assert best is not None
    assert poor is not None
    assert best < poor
