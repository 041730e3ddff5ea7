"""The CPU features that compiled code may use, and the CPUID bits that report them.

The bits are those of Intel's Software Developer's Manual (volume 2, CPUID) and AMD's APM (volume 3,
appendix E), under LLVM's names. Features that no compiler uses by itself, such as AES, are left
out, because code runs without them.
"""

from __future__ import annotations

from typing import NamedTuple

EAX, EBX, ECX, EDX = range(4)
_EXTENDED = 0x80000001
_APX = ("egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu")
"""LLVM's names for the one bit APX_F: 32 general-purpose registers and the features beside them."""


class Bit(NamedTuple):
    """A bit of a register that CPUID returns for a leaf and a subleaf."""

    leaf: int
    subleaf: int
    register: int
    bit: int


def _bits(leaf: int, subleaf: int, register: int, **bits: int) -> dict[str, Bit]:
    names = {name.replace("_", "."): bit for name, bit in bits.items()}
    return {name: Bit(leaf, subleaf, register, bit) for name, bit in names.items()}


BITS: dict[str, Bit] = {
    **_bits(1, 0, EDX, cx8=8, cmov=15, mmx=23, fxsr=24, sse=25, sse2=26),
    **_bits(1, 0, ECX, sse3=0, pclmul=1, ssse3=9, fma=12, cx16=13, sse4_1=19, sse4_2=20),
    **_bits(1, 0, ECX, movbe=22, popcnt=23, avx=28, f16c=29),
    **_bits(7, 0, EBX, bmi=3, avx2=5, bmi2=8, avx512f=16, avx512dq=17, adx=19, avx512ifma=21),
    **_bits(7, 0, EBX, avx512cd=28, avx512bw=30, avx512vl=31),
    **_bits(7, 0, ECX, avx512vbmi=1, avx512vbmi2=6, gfni=8, vpclmulqdq=10, avx512vnni=11),
    **_bits(7, 0, ECX, avx512bitalg=12, avx512vpopcntdq=14),
    **_bits(7, 0, EDX, avx512vp2intersect=8, avx512fp16=23),
    **_bits(7, 1, EAX, avxvnni=4, avx512bf16=5, avxifma=23),
    **_bits(7, 1, EDX, avxvnniint8=4, avxneconvert=5, avxvnniint16=10),
    **_bits(7, 1, EDX, **dict.fromkeys(_APX, 21)),
    **_bits(_EXTENDED, 0, ECX, sahf=0, lzcnt=5, sse4a=6, xop=11, fma4=16, tbm=21),
}
