"""The facts about a machine that the features of `autosched-1` use: caches, registers, GPU limits.

All of them come from the target, which is part of every record, so that a record has the same
features wherever they are computed. A CPU's caches are those of the machine that the task was made
on; records without caches (Ansor's) count as `cpu_caches.TYPICAL`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from autosched.cpu_caches import TYPICAL
from autosched.nest.core import Core, Memory, core_of
from autosched.target import Target

_KIB, _MIB = 2**10, 2**20


class Machine(NamedTuple):
    """Sizes of a CPU or GPU, in bytes.

    `caches` are L1, L2 and L3; on a GPU, the shared memory of a block, L2 and L2 again. `line` is a
    cache line. `tlb` counts the pages that the two levels of a CPU's TLB hold: Intel Skylake's
    values; later cores are similar. `core` is a CPU's core; on a GPU its vectors are the widest
    load of a thread. `threads` is the number of CPU threads. The `sm_` fields are the limits of a
    GPU's multiprocessor.
    """

    caches: tuple[int, int, int]
    line: int
    core: Core
    threads: int
    tlb: tuple[int, int] = (64, 1536)
    gpu: bool = False
    warp: int = 32
    sm_threads: int = 2048
    sm_blocks: int = 32
    sm_registers: int = 65536
    sm_shared: int = 164 * _KIB

    @property
    def memory(self) -> Memory:
        """The caches and TLB of one core."""
        return Memory(self.caches, self.line, self.tlb)


# By architecture: resident threads, resident blocks and bytes of shared memory of a multiprocessor
# (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"), and bytes of L2
# of the largest product (NVIDIA's architecture white papers).
_GPUS = {
    "sm_70": (2048, 32, 96 * _KIB, 6 * _MIB),
    "sm_75": (1024, 16, 64 * _KIB, 6 * _MIB),
    "sm_80": (2048, 32, 164 * _KIB, 40 * _MIB),
    "sm_86": (1536, 16, 100 * _KIB, 6 * _MIB),
    "sm_89": (1536, 24, 100 * _KIB, 72 * _MIB),
    "sm_90": (2048, 32, 228 * _KIB, 50 * _MIB),
}


@lru_cache(maxsize=64)
def machine_of(target: Target) -> Machine:
    """The machine of `target`; an unknown GPU architecture counts as sm_80."""
    hardware = target.hardware
    if target.is_gpu:
        threads, blocks, shared, l2 = _GPUS.get(target.arch, _GPUS["sm_80"])
        caches = hardware.max_shared_memory_per_block, l2, l2
        line, warp = hardware.cache_line_bytes, hardware.warp_size or 32
        core, tlb = Core(16, 255, windows=False), (64, 1536)
        return Machine(caches, line, core, 1, tlb, True, warp, threads, blocks, sm_shared=shared)
    l1, l2, l3 = target.caches or TYPICAL
    core = core_of(hardware.vector_unit_bytes)
    if target.cpu:
        core = core_of(target.vector_bytes, target.vector_registers)
    return Machine((l1, l2, l3), hardware.cache_line_bytes, core, max(1, target.threads))
