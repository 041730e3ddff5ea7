"""Tensor instructions of x86."""

from __future__ import annotations

from dataclasses import replace

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.split_tile_dot import declare_split_tile_dot
from autosched.te.intrin.tile_dot import declare_tile_dot
from autosched.te.intrin.vector_dot import declare_vector_dot, dot_operands
from autosched.te.intrin.widened_dot import declare_multiply_add, declare_pair_dot
from autosched.tir.dtype import DType
from autosched.tir.tiles import CONFIGURE, LOAD, RELEASE, SCOPE, STORE, TILES, ZERO

_REGISTERS = {128: "xmm", 256: "ymm", 512: "zmm"}

_PAIRS = {
    128: ("sse2", "llvm.x86.sse2.pmadd.wd"),
    256: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    512: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
}
"""For each register width in bits: the feature that has pmaddwd, and LLVM's intrinsic."""

_PAIR_TYPES = {
    "": ("int16", "int16"),
    ".s8": ("int8", "int8"),
    ".u8.s8": ("uint8", "int8"),
    ".s8.u8": ("int8", "uint8"),
    ".u8": ("uint8", "uint8"),
}
"""The types of A and B by name suffix; int16 holds every value of each type."""


def _dot(name: str, features: str, call: str, a: str, b: str, c: str, bits: int) -> Instruction:
    return Instruction(
        f"{name}.{_REGISTERS[bits]}",
        "cpu",
        "x86_64",
        tuple(features.split()),
        *dot_operands(a, b, c, bits // 32),
        (f"llvm.x86.{call}.{bits}",),
        32 if "avx512" in features else 16,
        declare_vector_dot,
    )


def _signed(unsigned: Instruction) -> Instruction:
    """The instruction `unsigned` for a signed A, which is packed with 128 added."""
    a = replace(unsigned.a, dtype=DType("int8"), wide=unsigned.a.dtype)
    return replace(unsigned, name=f"{unsigned.name}.s8", a=a, offset=128)


def _tiles(
    call: str, feature: str, a: str, b: str, c: str, suffix: str = "", parts: int = 1
) -> Instruction:
    k = 4 // DType(a).bytes
    return Instruction(
        f"amx.{call}{suffix}",
        "cpu",
        "x86_64",
        ("amx-tile", feature),
        Operand(DType(a), (("m", 16), ("k", 16 * k))),
        Operand(DType(b), (("k", 16), ("n", 16), ("k", k))),
        Operand(DType(c), (("m", 16), ("n", 16)), SCOPE),
        (f"llvm.x86.{call}", LOAD, STORE, ZERO, CONFIGURE, RELEASE),
        TILES,
        declare_tile_dot if parts == 1 else declare_split_tile_dot,
        parts,
    )


def _pairs(bits: int) -> tuple[Instruction, ...]:
    """pmaddwd for int16, and for bytes packed as int16; a separate instruction adds its result."""
    feature, call = _PAIRS[bits]
    return tuple(
        Instruction(
            f"{'p' if bits == 128 else 'vp'}maddwd.{_REGISTERS[bits]}{suffix}",
            "cpu",
            "x86_64",
            (feature,),
            *dot_operands(*types, "int32", bits // 32, "int16"),
            (call,),
            32 if bits == 512 else 16,
            declare_pair_dot,
            between=1,
        )
        for suffix, types in _PAIR_TYPES.items()
    )


def _multiply_add(bits: int, dtype: str, suffix: str) -> Instruction:
    """A float32 fused multiply-add for 16-bit floats that are packed as float32."""
    lanes = bits // 32
    return Instruction(
        f"vfmadd.{_REGISTERS[bits]}.{suffix}",
        "cpu",
        "x86_64",
        ("avx512f",) if bits == 512 else ("avx2", "fma", "f16c"),
        *dot_operands(dtype, dtype, "float32", lanes, "float32"),
        (f"llvm.fma.v{lanes}f32",),
        32 if bits == 512 else 16,
        declare_multiply_add,
    )


_BYTES, _SHORT_BYTES = (
    _dot("vpdpbusd", feature, "avx512.vpdpbusd", "uint8", "int8", "int32", bits)
    for feature, bits in (("avx512vnni", 512), ("avxvnni", 256))
)

X86: tuple[Instruction, ...] = (
    _tiles("tdpbf16ps", "amx-bf16", "bfloat16", "bfloat16", "float32"),
    _tiles("tdpbf16ps", "amx-bf16", "float16", "float16", "float32", ".f16", 2),
    _tiles("tdpbssd", "amx-int8", "int8", "int8", "int32"),
    _tiles("tdpbusd", "amx-int8", "uint8", "int8", "int32"),
    _tiles("tdpbsud", "amx-int8", "int8", "uint8", "int32"),
    _tiles("tdpbuud", "amx-int8", "uint8", "uint8", "int32"),
    _dot("vdpbf16ps", "avx512bf16", "avx512bf16.dpbf16ps", "bfloat16", "bfloat16", "float32", 512),
    _BYTES,
    _signed(_BYTES),
    _dot("vpdpwssd", "avx512vnni", "avx512.vpdpwssd", "int16", "int16", "int32", 512),
    # Without AVX512-VNNI, LLVM encodes these intrinsics with the prefix {vex} (AVX-VNNI).
    _SHORT_BYTES,
    _signed(_SHORT_BYTES),
    _dot("vpdpwssd", "avxvnni", "avx512.vpdpwssd", "int16", "int16", "int32", 256),
    *_pairs(512),
    *_pairs(256),
    *_pairs(128),
    *(
        _multiply_add(bits, dtype, suffix)
        for bits in (512, 256)
        for dtype, suffix in (("bfloat16", "bf16"), ("float16", "f16"))
    ),
)
