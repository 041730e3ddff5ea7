"""A model of one CPU core: its vector registers, and the cycles that a step of a loop takes.

Two multiply-adds and two loads a cycle, four instructions a cycle, four cycles until the result of
an accumulation can be used: the figures of the Intel 64 and IA-32 Optimization Reference Manual for
Skylake. Later cores are similar.
"""

from __future__ import annotations

from typing import NamedTuple, overload

from autosched.cpu_caches import TYPICAL
from autosched.nest.numbers import Array, largest

PAGE = 4096


class Core(NamedTuple):
    """The vector units of one core.

    `vector_bytes` is the width of a vector register, `registers` the number of vector registers.
    `arithmetic`, `loads` and `issue` are vector operations, loads and instructions of any kind per
    cycle. `latency` is the number of cycles from one accumulation to the next into the same
    register. `windows` tells whether reductions are unrolled into windows (nest/window.py), which
    is not done for GPUs.
    """

    vector_bytes: int
    registers: int
    arithmetic: int = 2
    loads: int = 2
    issue: int = 4
    latency: float = 4.0
    windows: bool = True

    def lanes(self, element_bytes: int) -> int:
        """The number of elements that a vector register holds."""
        return max(1, self.vector_bytes // element_bytes)

    @overload
    def cycles(self, work: float, loads: float, others: float, least: float) -> float: ...
    @overload
    def cycles(
        self, work: float | Array, loads: float | Array, others: float | Array, least: float | Array
    ) -> float | Array: ...
    def cycles(
        self, work: float | Array, loads: float | Array, others: float | Array, least: float | Array
    ) -> float | Array:
        """Cycles of `work` vector operations, `loads` loads and `others` further instructions.

        The result is at least `least`, the latency of the longest chain of dependent results.
        """
        return largest(
            work / self.arithmetic, loads / self.loads, least, (work + loads + others) / self.issue
        )


class Memory(NamedTuple):
    """The caches and TLB of one core: bytes of L1, L2 and L3 (`caches`), bytes of a cache line
    (`line`), and the pages that each of the two TLB levels holds (`tlb`, Skylake's)."""

    caches: tuple[int, int, int] = TYPICAL
    line: int = 64
    tlb: tuple[int, ...] = (64, 1536)


def core_of(vector_bytes: int, registers: int = 0) -> Core:
    """The core whose vector registers have `vector_bytes` bytes.

    Where the number of `registers` is unknown (0), AVX has 16, AVX-512 and NEON have 32. SSE is as
    wide as NEON but has 16 registers, which `Target.vector_registers` gives.
    """
    return Core(vector_bytes, registers or (16 if vector_bytes == 32 else 32))
