"""Tensor instructions of x86."""

from __future__ import annotations

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.vector_dot import declare_vector_dot, dot_operands

_REGISTERS = {256: "ymm", 512: "zmm"}


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


X86: tuple[Instruction, ...] = (
    _dot("vdpbf16ps", "avx512bf16", "avx512bf16.dpbf16ps", "bfloat16", "bfloat16", "float32", 512),
    _dot("vpdpbusd", "avx512vnni", "avx512.vpdpbusd", "uint8", "int8", "int32", 512),
    _dot("vpdpwssd", "avx512vnni", "avx512.vpdpwssd", "int16", "int16", "int32", 512),
    # LLVM writes them with the prefix {vex} where the machine has no AVX512-VNNI.
    _dot("vpdpbusd", "avxvnni", "avx512.vpdpbusd", "uint8", "int8", "int32", 256),
    _dot("vpdpwssd", "avxvnni", "avx512.vpdpwssd", "int16", "int16", "int32", 256),
)
