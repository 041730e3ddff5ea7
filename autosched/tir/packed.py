"""The calling convention of packed arguments: constants that host code and its callers share.

The values are those of TVM's runtime (`c_runtime_api.h`) and DLPack (`dlpack.h`). An argument is a
value of 8 bytes (`VALUE_BYTES`) and a code for its type; an array is a `DLTensor`.
"""

from __future__ import annotations

from enum import IntEnum

from autosched.tir.dtype import DType, handle, int32, int64

PACKED, DEVICE_KERNEL = 1, 2
"""The calling conventions: of functions with packed arguments, and of device kernels."""

CPU = 1
"""DLPack's device type of the host."""

VALUE_BYTES = 8
TENSOR_BYTES = 48
"""The bytes of a packed value and of a DLTensor."""


class Field(IntEnum):
    """The field that `tvm_struct_get` and `tvm_struct_set` access, their third argument."""

    ADDRESS = 0
    DATA = 1
    SHAPE = 2
    STRIDES = 3
    NDIM = 4
    CODE = 5
    BITS = 6
    LANES = 7
    BYTE_OFFSET = 8
    DEVICE_ID = 9
    DEVICE_TYPE = 10
    VALUE = 12


class ArgCode(IntEnum):
    """The type code of a packed argument."""

    INT = 0
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    TENSOR = 7
    STRING = 11
    ND_ARRAY = 13
    BOOL = 15


_FIELDS: dict[Field, tuple[int, DType]] = {
    Field.ADDRESS: (0, handle),
    Field.DATA: (0, handle),
    Field.DEVICE_TYPE: (8, int32),
    Field.DEVICE_ID: (12, int32),
    Field.NDIM: (16, int32),
    Field.CODE: (20, DType("uint8")),
    Field.BITS: (21, DType("uint8")),
    Field.LANES: (22, DType("uint16")),
    Field.SHAPE: (24, handle),
    Field.STRIDES: (32, handle),
    Field.BYTE_OFFSET: (40, DType("uint64")),
}

_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4}
_CODES |= {"e4m3fn": 6, "e5m2": 7}

_ALLOCA = {"arg_tcode": 4, "arg_value": VALUE_BYTES, "shape": 8, "array": TENSOR_BYTES}


def field_place(field: Field) -> tuple[int, DType]:
    """The byte offset of a field in a DLTensor, and its type."""
    return _FIELDS[field]


def field_dtype(field: Field) -> DType | None:
    """The type of a field; None for a packed value, which has the type it was packed with."""
    return None if field is Field.VALUE else _FIELDS[field][1]


def type_fields(dtype: DType) -> tuple[int, int, int]:
    """The code, bits and lanes of the element type in a DLTensor; a bool has one bit."""
    return _CODES[dtype.code], dtype.bits, dtype.lanes


def packed_dtype(dtype: DType) -> DType:
    """The type as which a value of `dtype` is packed: int64, float64 or a pointer."""
    if dtype.is_handle:
        return handle
    return DType("float64") if dtype.is_float else int64


def alloca_bytes(kind: str) -> int:
    """The bytes of one element of `tvm_stack_alloca(kind, n)`. Raises KeyError for another kind."""
    return _ALLOCA[kind]
