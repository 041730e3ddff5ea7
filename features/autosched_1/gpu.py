"""GPU quantities of `autosched-1`: memory transactions, bank conflicts, occupancy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from autosched.features.autosched_1.machine import Machine
from autosched.tir.gpu import BANK, BANKS, SECTOR

Axis = tuple[int, int]
"""A thread axis: its extent, and the distance in elements between accesses of consecutive
threads."""


def _lane_offsets(axes: Sequence[Axis], warp: int) -> list[int]:
    """The distance of each thread of the first warp from its first, in elements; x is fastest."""
    offsets = [0]
    for extent, stride in axes:
        offsets = [base + k * stride for k in range(extent) for base in offsets]
        if len(offsets) >= warp:
            break
    return offsets[:warp]


@lru_cache(maxsize=4096)
def sectors(axes: tuple[Axis, ...], element: int, vector: int, warp: int) -> int:
    """The number of transactions with which a warp accesses global memory.

    Threads are laid out along `axes` (threadIdx.x first); each accesses `vector` consecutive
    elements of `element` bytes.
    """
    touched: set[int] = set()
    for offset in _lane_offsets(axes, warp):
        first = offset * element
        touched.update(range(first // SECTOR, (first + vector * element - 1) // SECTOR + 1))
    return len(touched)


@lru_cache(maxsize=4096)
def bank_conflicts(axes: tuple[Axis, ...], element: int, vector: int, warp: int) -> int:
    """The most words of one shared-memory bank that a warp accesses at a time; 1: no conflict.

    Threads that access the same word do not conflict. Wide accesses are served for a part of the
    warp at a time, as many threads as access 32 words together.
    """
    at_a_time = max(1, warp * BANK // max(BANK, vector * element))
    words: set[int] = set()
    for offset in _lane_offsets(axes, warp)[:at_a_time]:
        first = offset * element
        words.update(range(first // BANK, (first + vector * element - 1) // BANK + 1))
    return max(Counter(word % BANKS for word in words).values())


def occupancy(threads: int, shared: int, local: int, machine: Machine) -> float:
    """Resident threads of a multiprocessor as a share of its limit.

    A block has `threads` threads and `shared` bytes of shared memory. A thread has `local` bytes,
    which live in registers of 4 bytes; about 32 more registers hold addresses and temporaries, 255
    at most in all.
    """
    threads = max(1, threads)
    warps = -(-threads // machine.warp)
    registers = min(255, 32 + local // 4)
    blocks = min(
        machine.sm_blocks,
        machine.sm_threads // threads,
        machine.sm_shared // shared if shared else machine.sm_blocks,
        machine.sm_registers // (registers * warps * machine.warp),
    )
    return min(1.0, blocks * threads / machine.sm_threads)
