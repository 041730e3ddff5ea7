"""Strides of buffers, and the extents that must be allocated for them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from autosched.arith import Analyzer
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, IntImm
from autosched.tir.op import add, const, eq, floordiv, floormod, mul, sub


def strides_of(buffer: Buffer) -> tuple[Expr, ...]:
    """The strides of a buffer in elements; row-major compact ones if it declares none."""
    if buffer.strides:
        return buffer.strides
    strides: list[Expr] = []
    stride: Expr = IntImm(1)
    for extent in reversed(buffer.shape):
        strides.append(stride)
        stride = mul(stride, extent)
    return tuple(reversed(strides))


def aligned_strides(
    shape: tuple[Expr, ...], align: Mapping[int, tuple[int, int]]
) -> tuple[Expr, ...]:
    """Row-major strides in elements, padded in the dimensions that `align` names.

    `align` maps a dimension to (factor, offset): its stride is a multiple of `factor` plus
    `offset`. Empty, which means compact, if `align` or `shape` is empty.
    """
    if not align or not shape:
        return ()
    simplify = Analyzer().simplify
    strides: list[Expr] = []
    stride: Expr = const(1, shape[-1].dtype)
    for dim in reversed(range(len(shape))):
        if dim in align:
            factor, offset = align[dim]
            rest = floormod(sub(factor + offset, floormod(stride, factor)), factor)
            stride = simplify(add(stride, rest))
        strides.append(stride)
        stride = mul(stride, shape[dim])
    return tuple(reversed(strides))


def allocated_extents(buffer: Buffer) -> tuple[Expr, ...]:
    """The extents to allocate for a buffer, including the padding of every row, also the last.

    Raises ScheduleError for a stride that is no multiple of the next one.
    """
    if not buffer.strides:
        return buffer.shape
    analyzer = Analyzer()
    extents = [buffer.shape[0]]
    for outer, inner in pairwise(buffer.strides):
        if not analyzer.can_prove(eq(floormod(outer, inner), 0)):
            raise ScheduleError(
                f"the strides of {buffer.name} are no multiple of each other: {outer!r}, "
                f"{inner!r}; pad its rows by whole elements"
            )
        extents.append(analyzer.simplify(floordiv(outer, inner)))
    extents[-1] = mul(extents[-1], buffer.strides[-1])
    return tuple(extents)
