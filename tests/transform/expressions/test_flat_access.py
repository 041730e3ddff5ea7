"""Accesses of flat buffers: truth values are int8 in memory, everything else stays as it is."""

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, IntImm
from autosched.tir.stmt import BufferStore
from autosched.transform.expressions.flat_access import flat_load, flat_store, stored_type


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [("bool", "int8"), ("boolx4", "int8x4"), ("float32", "float32"), ("int8x4", "int8x4")],
)
def test_the_type_in_memory(dtype: str, stored: str) -> None:
    assert stored_type(DType(dtype)) is DType(stored)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_values_keep_their_type_where_they_are_used(dtype: str) -> None:
    buffer = decl_buffer((4, 4), dtype, name="A")
    flat = decl_buffer((16,), str(stored_type(buffer.dtype)), name="A_1")
    load = BufferLoad(buffer, (IntImm(1), IntImm(2)))
    read = flat_load(load, flat, (IntImm(6),))
    assert read.dtype is load.dtype
    assert repr(read) == ("bool(A_1[6])" if dtype == "bool" else "A_1[6]")
    written = flat_store(BufferStore(buffer, load, load.indices), flat, (IntImm(6),))
    assert (written.buffer, written.value.dtype) == (flat, flat.dtype)
