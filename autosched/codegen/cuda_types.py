"""CUDA C's spelling of data types and constants.

A bool is `bool` as a value and `unsigned char` in memory; floats of 16 and 8 bits are structs of
their bits (`cuda_prelude.py`), on which nothing is computed. Constants are exact: decimal where
that is short, hexadecimal otherwise.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from autosched.errors import CompileError
from autosched.tir.dtype import DType

_NAMES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}
_SHORT = 8  # digits of a decimal constant


def value_type(dtype: DType) -> str:
    """The C type of a scalar value. Raises CompileError for vectors and pointers."""
    if dtype.is_bool and dtype.lanes == 1:
        return "bool"
    name = _NAMES.get(dtype.name)
    if name is None:
        raise CompileError(f"a value of type {dtype} has no scalar type in CUDA C")
    return name


def memory_type(dtype: DType) -> str:
    """The C type of one element in memory, whatever the lanes of `dtype`."""
    element = dtype.element
    return "unsigned char" if element.is_bool else value_type(element)


def unsigned(dtype: DType) -> str:
    """The unsigned C type in which integers of type `dtype` are added, with defined overflow."""
    return "unsigned long long" if dtype.bits == 64 else "unsigned"


def vector_type(dtype: DType) -> str:
    """The prelude's type of `dtype.lanes` elements."""
    return f"vec<{memory_type(dtype)}, {dtype.lanes}>"


def is_half(dtype: DType) -> bool:
    """Whether `dtype` is a float of up to 16 bits, which CUDA C without headers cannot compute."""
    return dtype.is_float and dtype.bits <= 16


def int_constant(value: int, dtype: DType) -> str:
    """A C constant of an integer or bool type, in parentheses where it begins with a sign."""
    if dtype.is_bool:
        return "true" if value else "false"
    suffix = "u" if dtype.code == "uint" and dtype.bits >= 32 else ""
    suffix += "LL" if dtype.bits == 64 else ""
    if dtype.code == "int" and dtype.bits >= 32 and value == dtype.min_value:
        return f"(-{-(value + 1)}{suffix} - 1)"  # C has no negative constants
    return f"(-{-value}{suffix})" if value < 0 else f"{value}{suffix}"


def float_constant(value: float, dtype: DType) -> str:
    """A C constant of a floating-point type that is exactly `value` rounded to it."""
    if is_half(dtype):
        bits = int(np.asarray(value).astype(dtype.numpy).view(f"uint{dtype.bits}"))
        return f"{value_type(dtype)}{{0x{bits:0{dtype.bits // 4}x}}}"
    if dtype.bits == 32 and math.isfinite(value):
        value = float(np.float32(value))
    if not math.isfinite(value):
        return _special(value, dtype)
    text = _decimal(value) or value.hex()
    if "p" in text:
        digits, _, exponent = text.partition("p")
        text = f"{digits.rstrip('0')}p{exponent}".replace(".p", ".0p")
    text += "f" if dtype.bits == 32 else ""
    return f"({text})" if text.startswith("-") else text


def _decimal(value: float) -> str | None:
    """A short decimal text that is exactly `value`; None if there is none."""
    text = repr(value)
    exact = "e" not in text and len(text) <= _SHORT and Decimal(text) == Decimal(value)
    return text if exact else None


def _special(value: float, dtype: DType) -> str:
    if dtype.bits == 64:
        bits = int(np.float64(value).view(np.uint64))
        return f"__longlong_as_double(0x{bits:016x}LL)"
    return f"__int_as_float(0x{int(np.float32(value).view(np.uint32)):08x})"
