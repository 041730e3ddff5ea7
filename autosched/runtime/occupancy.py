"""How many blocks of a kernel a multiprocessor holds at once.

After the occupancy calculator of the CUDA C++ Programming Guide for compute capability 7 to 12:
registers are allocated to warps in units of 256 and lie in four partitions; shared memory is
allocated to blocks in units of 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.runtime.device import DeviceFacts, KernelFacts
from autosched.tir.gpu import WARP

_PARTITIONS = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks a multiprocessor holds.

    - `blocks`: the number of blocks.
    - `share`: the share of the multiprocessor's threads that they are.
    - `limit`: what prevents more of them: blocks, threads, registers or shared.
    """

    blocks: int
    share: float
    limit: str


def occupancy(
    facts: DeviceFacts, kernel: KernelFacts, threads: int, dynamic_shared: int
) -> Occupancy:
    """The occupancy of a kernel launched with blocks of `threads` threads."""
    warps = -(-threads // WARP)
    limits = {
        "blocks": facts.max_blocks_per_processor,
        "threads": facts.max_threads_per_processor // (warps * WARP),
    }
    if kernel.registers:
        each = _rounded(kernel.registers * WARP, _REGISTER_UNIT)
        partition = facts.registers_per_processor // _PARTITIONS // each
        limits["registers"] = partition * _PARTITIONS // warps
    shared = _rounded(kernel.shared_bytes + dynamic_shared, _SHARED_UNIT)
    shared += facts.reserved_shared_per_block
    if shared:
        limits["shared"] = facts.shared_per_processor // shared
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks, blocks * warps * WARP / facts.max_threads_per_processor, limit)


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
