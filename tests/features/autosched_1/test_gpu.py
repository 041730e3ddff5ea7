"""Transactions, bank conflicts and occupancy, worked out by hand."""

import pytest

from autosched.features.autosched_1.gpu import bank_conflicts, occupancy, sectors
from autosched.features.autosched_1.machine import machine_of
from autosched.target import cuda_target

SM_80 = machine_of(cuda_target("sm_80"))


@pytest.mark.parametrize(
    ("stride", "expected"),
    [(0, 1), (1, 4), (2, 8), (8, 32), (64, 32)],  # 32 floats are 128 bytes: 4 sectors
)
def test_sectors_of_floats(stride: int, expected: int) -> None:
    assert sectors(((32, stride),), 4, 1, 32) == expected


def test_a_warp_spans_two_rows_of_a_narrow_block() -> None:
    assert sectors(((16, 1), (16, 1024)), 4, 1, 32) == 4  # twice 64 contiguous bytes
    assert sectors(((8, 1), (4, 0)), 4, 1, 32) == 1  # four rows of threads read the same 32 bytes


def test_four_floats_a_thread() -> None:
    assert sectors(((32, 4),), 4, 4, 32) == 16


@pytest.mark.parametrize(
    ("stride", "expected"), [(0, 1), (1, 1), (2, 2), (3, 1), (16, 16), (32, 32), (33, 1)]
)
def test_conflicts_of_floats(stride: int, expected: int) -> None:
    assert bank_conflicts(((32, stride),), 4, 1, 32) == expected


def test_halves_share_a_word() -> None:
    assert bank_conflicts(((32, 1),), 2, 1, 32) == 1


def test_wide_accesses_are_served_in_parts() -> None:
    assert bank_conflicts(((32, 4),), 4, 4, 32) == 1


def test_rows_of_threads_conflict() -> None:
    assert bank_conflicts(((8, 1), (4, 32)), 4, 1, 32) == 4
    assert bank_conflicts(((8, 1), (4, 40)), 4, 1, 32) == 1


@pytest.mark.parametrize(
    ("threads", "shared", "local", "expected"),
    [
        (256, 0, 0, 1.0),  # 8 blocks of 256; 32 registers a thread just fit
        (256, 48 * 1024, 0, 3 * 256 / 2048),  # 164 KiB hold three blocks
        (256, 0, 512, 256 / 2048),  # 160 registers a thread: 40960 a block, one fits
        (32, 0, 0, 32 * 32 / 2048),  # at most 32 blocks
        (33, 0, 0, 32 * 33 / 2048),  # two warps, of which one is nearly empty
        (1024, 100 * 1024, 0, 0.5),
        (1024, 200 * 1024, 0, 0.0),  # does not fit at all
    ],
)
def test_occupancy(threads: int, shared: int, local: int, expected: float) -> None:
    assert occupancy(threads, shared, local, SM_80) == pytest.approx(expected)
