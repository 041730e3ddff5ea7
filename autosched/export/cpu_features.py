"""What exported code asks CPUID and XGETBV before it runs."""

from __future__ import annotations

from autosched.cpu_features import enabled
from autosched.cpuid import BITS, Bit

_AVX, _AVX512, _EGPR = 0x6, 0xE6, 1 << 19  # of XCR0: register state that the operating system saves


def needed(features: str) -> dict[str, Bit]:
    """The bits that code for LLVM's `features` (`+avx2,-sse4a`) needs, by name."""
    wanted = enabled(features)
    return {name: bit for name, bit in BITS.items() if name in wanted}


def saved_registers(features: str) -> int:
    """The bits of XCR0 that such code needs; 0 for 128-bit vectors and 16 registers."""
    found = needed(features)
    more = _EGPR if "egpr" in found else 0
    if "avx512f" in found:
        return _AVX512 | more
    return _AVX | more if "avx" in found else more
