"""Buffers: typed, shaped views of memory, compared by identity."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.dtype import DType, int32
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Scalar, Var, pointer
from autosched.tir.op import as_expr


class Buffer:
    """A view of `data` as an array of `shape` (elements) with `strides` (elements).

    Empty strides mean compact row-major. `elem_offset` (elements) is None for zero.
    `data_alignment` is in bytes, `offset_factor` in elements. `scope` is the storage scope of
    `data`: global, shared, shared.dyn, local, warp, wmma.*; "" while it is still to be inferred.
    """

    __slots__ = (
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
    ) -> None:
        self.data = data
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.elem_offset = elem_offset
        self.name = name or data.name
        self.data_alignment = data_alignment
        self.offset_factor = offset_factor

    @property
    def scope(self) -> str:
        """The storage scope of the data pointer; empty where it is still to be inferred."""
        return self.data.scope

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
    dtype: str | DType = "float32",
    name: str = "buffer",
    scope: str = "global",
    data: Var | None = None,
    *,
    strides: Sequence[Expr | Scalar] = (),
    elem_offset: Expr | int | None = None,
    offset_factor: int = 1,
    data_alignment: int = 64,
) -> Buffer:
    """A new buffer of `shape`, over a fresh pointer unless `data` is given.

    It is compact without `strides` (elements, one for each dimension). With an `offset_factor`
    (elements) and no `elem_offset` it begins at some multiple of the factor. `data_alignment` is in
    bytes. Raises ValueError for strides of another number than dimensions, and for a factor or
    alignment that is no positive number.
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
    )
