"""Which blocks stand for all: the ends of every axis that was fused into blockIdx."""

from __future__ import annotations

import pytest

from autosched.referee.sample_blocks import representative_blocks
from autosched.tir.parser import parse_func

TEXT = """\
def main(A: Buffer((6000,), float32), B: Buffer((6000,), float32)):
    launch(blockIdx.x, {blocks})
    launch(threadIdx.x, 8)
    B[{index} + threadIdx.x] = A[threadIdx.x]
"""


def digits(number: int, lengths: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for length in lengths:
        number, digit = divmod(number, length)
        found.append(digit)
    return tuple(found)


@pytest.mark.parametrize(
    "index",
    [
        "blockIdx.x // 20 * 9 + blockIdx.x // 5 % 4 * 3 + blockIdx.x % 5",
        "truncdiv(truncdiv(blockIdx.x, 5), 4) + truncmod(truncdiv(blockIdx.x, 5), 4)",
        "truncdiv(blockIdx.x, 20) + truncdiv(truncmod(blockIdx.x, 20), 5)",
    ],
)
def test_each_axis_has_its_last_block_between_others(index: str) -> None:
    """Axes of 5, 4 and 6 (the outermost)."""
    func = parse_func(TEXT.format(blocks=120, index=index))
    blocks = representative_blocks([func])({"blockIdx.x": 120, "threadIdx.x": 8}).tolist()
    assert len(blocks) <= 3 + 4
    found = {digits(b, (5, 4, 6)) for b in blocks}
    assert found >= {(0, 0, 0), (4, 3, 5), (4, 2, 3), (2, 3, 3), (2, 2, 5)}


def test_powers_of_two_are_shifts_and_masks() -> None:
    index = "shift_right(blockIdx.x, 3) * 9 + bitwise_and(blockIdx.x, 7)"
    func = parse_func(TEXT.format(blocks=32, index=index))
    blocks = representative_blocks([func])({"blockIdx.x": 32}).tolist()
    assert {digits(b, (8, 4)) for b in blocks} >= {(0, 0), (7, 3), (7, 2), (4, 3)}


def test_other_grid_axes_count_too() -> None:
    func = parse_func(TEXT.format(blocks=3, index="blockIdx.x"))
    blocks = representative_blocks([func])({"blockIdx.x": 3, "blockIdx.y": 7}).tolist()
    assert {digits(b, (3, 7)) for b in blocks} >= {(0, 0), (2, 6), (2, 3), (1, 6)}


def test_few_blocks_all_run_and_a_choice_repeats() -> None:
    func = parse_func(TEXT.format(blocks=1, index="blockIdx.x"))
    assert representative_blocks([func])({}).tolist() == [0]
    choice = representative_blocks([func], seed=3)
    extents = {"blockIdx.x": 10**6}
    assert choice(extents).tolist() == choice(extents).tolist()
    assert choice(extents).tolist() != representative_blocks([func], seed=4)(extents).tolist()
