"""LLVM's spelling of types and constants."""

from __future__ import annotations

import math

from autosched.codegen.llvm_types import constant, iota, llvm_type, memory_type, splat, suffix
from autosched.tir.dtype import DType


def test_types() -> None:
    assert llvm_type(DType("float32")) == "float"
    assert llvm_type(DType("float16x8")) == "<8 x half>"
    assert llvm_type(DType("boolx4")) == "<4 x i1>"
    assert memory_type(DType("boolx4")) == "<4 x i8>"
    assert llvm_type(DType("bfloat16")) == "i16"
    assert llvm_type(DType("uint8")) == "i8"
    assert llvm_type(DType("handle")) == "ptr"
    assert suffix(DType("float64x2")) == "v2f64"
    assert suffix(DType("uint16")) == "i16"


def test_constants_are_exact() -> None:
    assert constant(0.1, DType("float32")) == "0x3FB99999A0000000"
    assert constant(0.1, DType("float64")) == "0x3FB999999999999A"
    assert constant(1.0, DType("float16")) == "0xH3C00"
    assert constant(1.0, DType("bfloat16")) == str(0x3F80)
    assert constant(math.inf, DType("float32")) == "0x7FF0000000000000"
    assert constant(1, DType("bool")) == "true"
    assert constant(-5, DType("int64")) == "-5"


def test_vectors() -> None:
    assert splat(0.0, DType("float32x4")) == "zeroinitializer"
    assert splat(-0.0, DType("float32x2")) != "zeroinitializer"
    assert splat(7, DType("int32x2")) == "<i32 7, i32 7>"
    assert iota(DType("int32x4"), 3) == "<i32 0, i32 3, i32 6, i32 9>"
