"""A model of one CPU core: its vector registers, and how many cycles a step of a loop takes.

Two multiply-adds and two loads a cycle, four instructions a cycle, four cycles until the result of
an accumulation can be used: the figures of the Intel 64 and IA-32 Optimization Reference Manual for
Skylake, which other cores since come near.
"""

from __future__ import annotations

from typing import NamedTuple, overload

from autosched.cpu_caches import TYPICAL
from autosched.nest.numbers import Array, largest

PAGE = 4096


class Core(NamedTuple):
    """`vector_bytes` is the width of one of its vector `registers`.

    `arithmetic`, `loads` and `issue` are vector operations, loads and instructions of any kind a
    cycle; `latency` the cycles from one accumulation to the next into the same register. `windows`
    tells whether reductions are unrolled as nest/window.py says, which is not done for GPUs.
    """

    vector_bytes: int
    registers: int
    arithmetic: int = 2
    loads: int = 2
    issue: int = 4
    latency: float = 4.0
    windows: bool = True

    def lanes(self, element_bytes: int) -> int:
        """Elements that a vector register holds."""
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
        """Cycles of `work` vector operations, `loads` loads and `others` instructions besides.

        At least `least`: the length of the chain of results that wait for each other.
        """
        return largest(
            work / self.arithmetic, loads / self.loads, least, (work + loads + others) / self.issue
        )


class Memory(NamedTuple):
    """What one core sees of memory: bytes of L1, L2 and L3 and of a cache line, and the pages that
    the two levels of the TLB know (those of Skylake)."""

    caches: tuple[int, int, int] = TYPICAL
    line: int = 64
    tlb: tuple[int, ...] = (64, 1536)


def core_of(vector_bytes: int, registers: int = 0) -> Core:
    """The core whose vector registers have that width.

    Where it is not known how many `registers` there are, AVX has 16 of them, AVX-512 and NEON 32;
    SSE, as wide as NEON, has 16 (`Target.vector_registers`).
    """
    return Core(vector_bytes, registers or (16 if vector_bytes == 32 else 32))
