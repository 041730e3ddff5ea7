"""Names of types, and what they are to NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched import te
from autosched.tir.dtype import DType


@pytest.mark.parametrize(
    ("name", "bits", "lanes", "numpy"),
    [
        ("float8_e4m3fn", 8, 1, ml_dtypes.float8_e4m3fn),
        ("float8_e5m2x16", 8, 16, ml_dtypes.float8_e5m2),
        ("bfloat16x4", 16, 4, ml_dtypes.bfloat16),
        ("custom[fixed]32", 32, 1, np.uint32),
        ("custom[x4]8x16", 8, 16, np.uint8),
    ],
)
def test_types_that_numpy_does_not_have(name: str, bits: int, lanes: int, numpy: type) -> None:
    dtype = DType(name)
    assert (dtype.name, dtype.bits, dtype.lanes) == (name, bits, lanes)
    assert dtype.numpy == np.dtype(numpy)
    assert dtype.element.with_lanes(lanes) is dtype
    assert dtype in DType.made()
    assert dtype.is_custom != dtype.is_storage_float == dtype.is_float


def test_other_names_of_the_same_type() -> None:
    assert DType("e4m3_float8") is DType("float8_e4m3fn")
    assert DType("e5m2_float8x4") is DType("float8_e5m2x4")
    assert DType("float8_e4m3fn").max_value == 448
    assert DType("float8_e5m2").max_value == 57344


@pytest.mark.parametrize("name", ["float8", "float8_e4m3", "custom[q]12", "custom[1q]8", "bfloat8"])
def test_names_of_no_type(name: str) -> None:
    with pytest.raises(ValueError, match="expected float16/32/64, bfloat16, float8_e4m3fn"):
        DType(name)


@pytest.mark.parametrize("kind", [np.float32, np.uint8, np.bool_, ml_dtypes.bfloat16])
def test_types_of_numpy(kind: type[np.generic]) -> None:
    name = np.dtype(kind).name
    assert DType(kind) is DType(np.dtype(kind)) is DType(name)
    assert te.placeholder((4,), kind).dtype is te.cast(kind, te.var("n")).dtype is DType(name)


@pytest.mark.parametrize("kind", [float, None, 3, ["float32"], np.zeros(2)])
def test_what_is_no_type(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a type such as 'float32' or numpy\.float32, "):
        DType(kind)


@pytest.mark.parametrize("name", ["float16", "int8", "bool", "bfloat16"])
def test_numpy_takes_a_type_for_its_own(name: str) -> None:
    """`array.astype(A.dtype)`, as where types are text."""
    A = te.placeholder((3,), name, name="A")
    assert np.zeros(3).astype(A.dtype).dtype == A.dtype.numpy
    assert f"{A.dtype:>9}" == name.rjust(9)


def test_bytes_of_one_lane_and_of_a_whole_value() -> None:
    assert [(DType(name).bytes, DType(name).value_bytes) for name in ("boolx8", "float16x4")] == [
        *((1, 8), (2, 8))
    ]
