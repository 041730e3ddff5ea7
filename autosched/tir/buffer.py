"""Buffers: typed, shaped views of memory, compared by identity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

from autosched.tir.dtype import DType, TypeLike, int32
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Scalar, Var, pointer
from autosched.tir.op import as_expr


class Buffer:
    """A view of `data` as an array of `shape` (elements) with `strides` (elements).

    Empty strides mean compact row-major. `elem_offset` (elements) is None for zero.
    `data_alignment` is in bytes, `offset_factor` in elements. `scope` is the storage scope of
    `data`: global, shared, shared.dyn, local, warp, wmma.*; "" while it is still to be inferred.
    Flattened memory has one dimension, plus one for each of `axis_separators`: the dimensions
    before a separator (exclusive) are flattened into one.
    """

    __slots__ = (
        "axis_separators",
        "data",
        "data_alignment",
        "dtype",
        "elem_offset",
        "name",
        "offset_factor",
        "shape",
        "strides",
    )

    def __init__(
        self,
        data: Var,
        dtype: DType,
        shape: tuple[Expr, ...],
        strides: tuple[Expr, ...] = (),
        elem_offset: Expr | None = None,
        name: str = "",
        data_alignment: int = 64,
        offset_factor: int = 1,
        axis_separators: tuple[int, ...] = (),
    ) -> None:
        self.data = data
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.elem_offset = elem_offset
        self.name = name or data.name
        self.data_alignment = data_alignment
        self.offset_factor = offset_factor
        self.axis_separators = axis_separators

    def with_(self, **fields: Any) -> Buffer:
        """A copy of this buffer with some fields replaced."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return Buffer(**{**own, **fields})

    @property
    def scope(self) -> str:
        """The storage scope of the data pointer; empty where it is still to be inferred."""
        return self.data.scope

    def is_laid_out_as(self, other: Buffer) -> bool:
        """Whether equal indices have the same offset from the data pointer in both buffers.

        If the pointers are the same, too, equal indices are the same memory.
        """
        return self is other or (
            self.dtype is other.dtype
            and self.elem_offset is other.elem_offset
            and self.strides == other.strides
            and (self.strides != () or self.shape[1:] == other.shape[1:])
        )

    in_expressions: ClassVar[str] = (
        "buffer[i] is an element, te.address_of(buffer[i]) its address, buffer.data its pointer"
    )
    __iter__: ClassVar[None] = None

    def __getitem__(
        self, indices: Expr | IterVar | int | tuple[Expr | IterVar | int, ...]
    ) -> BufferLoad:
        if not isinstance(indices, tuple):
            indices = (indices,)
        return BufferLoad(self, tuple(map(as_expr, indices)))

    def __repr__(self) -> str:
        shape = ", ".join(map(repr, self.shape))
        return f"Buffer({self.name}: {self.dtype}[{shape}], {self.scope or 'global'})"


def decl_buffer(
    shape: Sequence[Expr | Scalar],
    dtype: TypeLike = "float32",
    name: str = "buffer",
    scope: str = "global",
    data: Var | None = None,
    *,
    strides: Sequence[Expr | Scalar] = (),
    elem_offset: Expr | int | None = None,
    offset_factor: int = 1,
    data_alignment: int = 64,
    axis_separators: Sequence[int] = (),
) -> Buffer:
    """A new buffer of `shape`, over a fresh pointer unless `data` is given.

    It is compact without `strides` (elements, one for each dimension). With an `offset_factor`
    (elements) and no `elem_offset`, the offset is a fresh variable, a multiple of the factor.
    `data_alignment` is in bytes. Raises ValueError when the number of strides is not that of
    dimensions, when a factor or alignment is not a positive integer, and when `axis_separators` do
    not increase strictly within 1 to ndim - 1.
    """
    dtype = DType(dtype)
    extents = tuple(s if isinstance(s, Expr) else IntImm(int(s), int32) for s in shape)
    if strides and len(strides) != len(extents):
        raise ValueError(
            f"decl_buffer {name}: {len(strides)} strides for {len(extents)} dimensions; give one "
            "for each, or none for a compact buffer"
        )
    for what, value in (("offset_factor", offset_factor), ("data_alignment", data_alignment)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"decl_buffer {name}: {what} is a positive number, found {value!r}")
    between = (0, *axis_separators, len(extents))
    if axis_separators and any(a >= b for a, b in pairwise(between)):
        raise ValueError(
            f"decl_buffer {name}: axis_separators must rise from 1 to {len(extents) - 1}, found "
            f"{tuple(axis_separators)}"
        )
    if elem_offset is None and offset_factor > 1:
        elem_offset = Var(f"{name}_offset")
    pointed = pointer(name, dtype, scope) if data is None else data
    return Buffer(
        pointed,
        dtype,
        extents,
        tuple(map(as_expr, strides)),
        None if elem_offset is None else as_expr(elem_offset),
        name,
        data_alignment,
        offset_factor,
        tuple(axis_separators),
    )
