"""Buffers: typed, shaped views of memory, compared by identity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from autosched.arguments import found
from autosched.tir.dtype import DType, TypeLike, handle
from autosched.tir.expr import BufferLoad, Call, Expr, IterVar, Scalar, Var, pointer
from autosched.tir.given import all_of, text
from autosched.tir.op import add, as_expr, const, mul, sub

ACCESS_MODES = {"r": 1, "w": 2, "rw": 3}
"""The masks of `tvm_access_ptr`: bit 0 for a call that reads there, bit 1 for one that writes."""


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
        "buffer[i] is an element, te.address_of(buffer[i]) its address, "
        'buffer.access_ptr("r") a pointer'
    )
    __iter__: ClassVar[None] = None

    def __getitem__(
        self, indices: Expr | IterVar | int | tuple[Expr | IterVar | int, ...]
    ) -> BufferLoad:
        if not isinstance(indices, tuple):
            indices = (indices,)
        return BufferLoad(self, tuple(map(as_expr, indices)))

    def access_ptr(
        self, mode: str, *, offset: Expr | int = 0, extent: Expr | int | None = None
    ) -> Call:
        """The address of element `offset` for a call that reads ("r"), writes ("w") or does both.

            te.call_extern("f", ins[0].access_ptr("r"), outs[0].access_ptr("w"))

        What is only read through is no output of a kernel; a plain `buffer.data` always is, because
        nothing says what the call does with it. The call stays within `extent` elements, all up to
        the buffer's end unless they are given. Offset and extent count elements of memory, from the
        buffer's first one on. Raises ValueError for another mode, TypeError for what is no integer.
        """
        what = f"access_ptr of {self.name}"
        if not isinstance(mode, str) or mode not in ACCESS_MODES:
            raise ValueError(f"{what}: expected one of {', '.join(ACCESS_MODES)}, {found(mode)}")
        ahead = _integer(f"{what}: offset", offset)
        start = ahead if self.elem_offset is None else add(self.elem_offset, ahead)
        reach = sub(self._reach(), ahead) if extent is None else _integer(f"{what}: extent", extent)
        args = const(0, self.dtype), self.data, start, reach, const(ACCESS_MODES[mode])
        return Call(handle, "tvm_access_ptr", args)

    def _reach(self) -> Expr:
        """The number of elements of memory from the first element of the buffer to its last."""
        if not self.strides:
            return reduce(mul, self.shape, const(1))
        steps = (mul(sub(n, 1), step) for n, step in zip(self.shape, self.strides, strict=True))
        return reduce(add, steps, const(1))

    def __repr__(self) -> str:
        shape = ", ".join(map(repr, self.shape))
        return f"Buffer({self.name}: {self.dtype}[{shape}], {self.scope or 'global'})"


def decl_buffer(
    shape: Sequence[Expr | Scalar] | Expr | int,
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
    not increase strictly within 1 to ndim - 1; TypeError for what is no integer, name or pointer.
    """
    dtype = DType(dtype)
    what = f"decl_buffer {text('decl_buffer: a name', name)}"
    text(f"{what}: a scope", scope)
    if data is not None and not (isinstance(data, Var) and data.dtype.is_handle):
        raise TypeError(f"{what}: data is the pointer of another buffer, {found(data)}")
    extents, steps = _integers(f"{what}: shape", shape), _integers(f"{what}: strides", strides)
    if steps and len(steps) != len(extents):
        raise ValueError(
            f"decl_buffer {name}: {len(steps)} strides for {len(extents)} dimensions; give one "
            "for each, or none for a compact buffer"
        )
    for key, value in (("offset_factor", offset_factor), ("data_alignment", data_alignment)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{what}: {key} is a positive number, found {value!r}")
    separators = all_of(int, f"{what}: axis_separators", axis_separators)
    between = (0, *separators, len(extents))
    if separators and any(a >= b for a, b in pairwise(between)):
        raise ValueError(
            f"{what}: axis_separators must rise from 1 to {len(extents) - 1}, found "
            f"{tuple(separators)}"
        )
    if elem_offset is None and offset_factor > 1:
        elem_offset = Var(f"{name}_offset")
    pointed = pointer(name, dtype, scope) if data is None else data
    return Buffer(
        pointed,
        dtype,
        extents,
        steps,
        None if elem_offset is None else _integer(f"{what}: elem_offset", elem_offset),
        name,
        data_alignment,
        offset_factor,
        tuple(separators),
    )


def _integers(what: str, value: Any) -> tuple[Expr, ...]:
    """`value`, a sequence or array of integers or one of them, as expressions."""
    each = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(each, int | Expr):
        each = (each,)
    if not isinstance(each, Sequence) or isinstance(each, str | bytes):
        raise TypeError(f"{what}: expected a list of integers, {found(value)}")
    return tuple(_integer(f"{what}[{k}]", one) for k, one in enumerate(each))


def _integer(what: str, value: Any) -> Expr:
    """`value`, an integer or an expression of one, as an expression."""
    if isinstance(value, int | np.integer | Expr | IterVar) and not isinstance(value, bool):
        e = as_expr(value)
        if e.dtype.is_int:
            return e
    raise TypeError(f"{what}: expected an integer, {found(value)}")
