"""LLVM's spelling of data types and constants.

Memory and registers differ for one type: bool is i1 in registers and i8 in memory. bfloat16 is its
16 bits (i16) in both, because arithmetic on LLVM's `bfloat` calls library functions that a Python
process does not have. The 8-bit floats, which LLVM does not know, are i8. Arithmetic on these
floats is done in float32 and rounded after each operation, which is what NumPy with ml_dtypes does.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np

from autosched.errors import CompileError
from autosched.tir.dtype import DType

_FLOATS = {16: "half", 32: "float", 64: "double"}


def scalar_type(dtype: DType) -> str:
    """The register type of one lane."""
    if dtype.is_custom:
        raise CompileError(f"a value of type {dtype}: run LowerCustomDatatypes before")
    match dtype.code:
        case "float":
            return _FLOATS[dtype.bits]
        case "bfloat" | "e4m3fn" | "e5m2":
            return f"i{dtype.bits}"
        case "handle":
            return "ptr"
        case _:
            return f"i{dtype.bits}"


@lru_cache(maxsize=1024)
def llvm_type(dtype: DType) -> str:
    """The register type: `i1`, `float`, `<16 x float>`, `ptr`."""
    scalar = scalar_type(dtype)
    return scalar if dtype.lanes == 1 else f"<{dtype.lanes} x {scalar}>"


@lru_cache(maxsize=1024)
def memory_type(dtype: DType) -> str:
    """The type in memory: the register type, but i8 for bool."""
    if not dtype.is_bool:
        return llvm_type(dtype)
    return "i8" if dtype.lanes == 1 else f"<{dtype.lanes} x i8>"


def constant(value: float, dtype: DType) -> str:
    """The literal of a scalar constant of `dtype`; floats are exact bit patterns."""
    match dtype.code:
        case "float" if dtype.bits == 16:
            return f"0xH{np.float16(value).view(np.uint16):04X}"
        case "float":
            number = float(np.float32(value)) if dtype.bits == 32 else float(value)
            return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        case "bfloat" | "e4m3fn" | "e5m2":
            return str(int(np.asarray(value, dtype.numpy).view(f"uint{dtype.bits}")))
        case "bool":
            return "true" if value else "false"
        case "handle":
            return "null" if not value else f"inttoptr (i64 {int(value)} to ptr)"
        case _:
            return str(int(value))


def splat(value: float, dtype: DType) -> str:
    """The literal of `dtype` (scalar or vector) with `value` in each lane."""
    if dtype.lanes == 1:
        return constant(value, dtype)
    return _vector(constant(value, dtype.element), dtype)


@lru_cache(maxsize=4096)
def _vector(text: str, dtype: DType) -> str:
    # Keyed by the literal: as a key, -0.0 would be the same as 0.0.
    if text in ("0", "0x0000000000000000", "0xH0000", "false"):
        return "zeroinitializer"
    return f"<{', '.join([f'{scalar_type(dtype)} {text}'] * dtype.lanes)}>"


@lru_cache(maxsize=1024)
def iota(dtype: DType, stride: int) -> str:
    """The literal vector 0, stride, 2 * stride, ... of the integer type `dtype`."""
    scalar = scalar_type(dtype)
    return f"<{', '.join(f'{scalar} {i * stride}' for i in range(dtype.lanes))}>"


def suffix(dtype: DType) -> str:
    """The suffix of intrinsics over a register type: f32, i1, v16f32, v8i64."""
    letter = "f" if dtype.code == "float" else "i"
    scalar = f"{letter}{dtype.bits if dtype.code != 'handle' else 64}"
    return scalar if dtype.lanes == 1 else f"v{dtype.lanes}{scalar}"
