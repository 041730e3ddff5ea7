"""Tensor instructions of 64-bit ARM."""

from __future__ import annotations

from autosched.te.intrin.instruction import Instruction, Operand
from autosched.te.intrin.vector_dot import declare_matrix_dot, declare_vector_dot, dot_operands
from autosched.tir.dtype import DType


def _dot(name: str, feature: str, a: str, b: str) -> Instruction:
    return Instruction(
        f"neon.{name}",
        "cpu",
        "aarch64",
        (feature,),
        *dot_operands(a, b, "int32", 4),
        (f"llvm.aarch64.neon.{name}.v4i32.v16i8",),
        32,
        declare_vector_dot,
    )


_ROWS = (("m", 2), ("k", 4))

ARM: tuple[Instruction, ...] = (
    Instruction(
        "neon.bfmmla",
        "cpu",
        "aarch64",
        ("bf16",),
        Operand(DType("bfloat16"), _ROWS),
        Operand(DType("bfloat16"), (("n", 2), ("k", 4))),
        Operand(DType("float32"), (("m", 2), ("n", 2)), "local"),
        ("llvm.aarch64.neon.bfmmla",),
        32,
        declare_matrix_dot,
    ),
    _dot("sdot", "dotprod", "int8", "int8"),
    _dot("udot", "dotprod", "uint8", "uint8"),
    _dot("usdot", "i8mm", "uint8", "int8"),
)
