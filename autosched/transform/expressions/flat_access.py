"""Accesses of a flat buffer that replaces another buffer. Booleans are stored as int8."""

from __future__ import annotations

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import BufferLoad, Expr
from autosched.tir.op import cast
from autosched.tir.stmt import BufferStore

_INT8 = DType("int8")


def stored_type(dtype: DType) -> DType:
    """The type that a value of `dtype` has in memory."""
    return _INT8.with_lanes(dtype.lanes) if dtype.element is bool_ else dtype


def flat_load(load: BufferLoad, flat: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Load from `flat` at `indices` and convert the value to the type of `load`."""
    value = BufferLoad(flat, indices, load.predicate)
    return cast(load.dtype, value) if load.buffer.dtype.is_bool else value


def flat_store(store: BufferStore, flat: Buffer, indices: tuple[Expr, ...]) -> BufferStore:
    """Store the value of `store` to `flat` at `indices`."""
    value = store.value
    if store.buffer.dtype.is_bool:
        value = cast(stored_type(value.dtype), value)
    return BufferStore(flat, value, indices, store.predicate)
