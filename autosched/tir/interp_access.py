"""Compiles indices of accesses to Python source: flattened, with the necessary bounds checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.dtype import int32, int64
from autosched.tir.expr import Expr, Ramp
from autosched.tir.interp_counts import AccessCount
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_value import ATOM, OR, SUM, TERM, Memory, Place, Value
from autosched.tir.op import cast

if TYPE_CHECKING:
    from autosched.tir.interp_expr import ExprCompiler

ZERO, ONE = Value("0"), Value("1", low=1, high=1)


def product(values: Sequence[Value]) -> Value:
    """The product of non-negative sizes, as a compiled value."""
    result = ONE
    for v in values:
        if result.low == result.high == 1:
            result = v
        elif not (v.low == v.high == 1):
            low, high = max(v.low, 0) * max(result.low, 0), max(v.high, 0) * max(result.high, 0)
            if low == high:
                result = Value(str(low), low=low, high=high)
            else:
                text = f"{result.at(TERM)} * {v.at(ATOM)}"
                result = Value(text, TERM, result.varying or v.varying, low, high)
    return result


def compact_strides(shape: Sequence[Value]) -> tuple[Value, ...]:
    """Row-major strides of `shape`."""
    return tuple(product(shape[d + 1 :]) for d in range(len(shape)))


def aligned_strides(
    shape: Sequence[Value], align: Mapping[int, tuple[int, int]]
) -> tuple[Value, ...]:
    """Row-major strides of `shape`, padded as StorageFlatten pads them.

    `align` maps a dimension to (factor, offset): its stride becomes a multiple of `factor` plus
    `offset`.
    """
    strides: list[Value] = []
    stride = ONE
    for dim in reversed(range(len(shape))):
        if dim in align:
            stride = _padded(stride, *align[dim])
        strides.append(stride)
        stride = product((shape[dim], stride))
    return tuple(reversed(strides))


def _padded(stride: Value, factor: int, offset: int) -> Value:
    """The least number that is a multiple of `factor` plus `offset`, and at least `stride`."""
    low, high = (n + (offset - n) % factor for n in (stride.low, stride.high))
    if low == high:
        return Value(str(low), low=low, high=high)
    text = f"{stride.at(SUM)} + ({offset} - {stride.at(ATOM)}) % {factor}"
    return Value(text, SUM, stride.varying, low, high)


def view_place(compiler: ExprCompiler, buffer: Buffer, memory: Memory) -> Place:
    """The place of a buffer that is a view of existing memory.

    A one-dimensional view is checked against the bounds of the memory only, not of its shape, as
    passes that merge allocations keep the old shapes of buffers.
    """
    shape = tuple(compiler.expr(s) for s in buffer.shape)
    strides = tuple(compiler.expr(s) for s in buffer.strides) or compact_strides(shape)
    offset = None if buffer.elem_offset is None else compiler.expr(buffer.elem_offset)
    if offset is not None and offset.text == "0":
        offset = None
    return Place(
        buffer.name,
        memory,
        buffer.dtype,
        (ZERO,) * len(shape),
        shape,
        strides,
        complete=False,
        checked=len(shape) > 1,
        offset=offset,
    )


def flat_index(compiler: ExprCompiler, place: Place, indices: tuple[Expr, ...]) -> Value:
    """The flat element index of an access, with the bounds checks that cannot be proved away."""
    values = [compiler.expr(_as_number(i)) for i in indices]
    wide = bool(indices) and indices[-1].dtype.lanes > 1
    if len(values) != len(place.extents):
        raise InterpreterError(
            f"{place.name} has {len(place.extents)} dimensions, accessed with {len(values)} indices"
        )
    values = _all_checked(compiler, place, values, wide)
    while place.base is not None:
        leading = len(place.shifts) - len(values)
        shifts = list(place.shifts)
        if wide and shifts[-1].varying:
            shifts[-1] = shifts[-1]._replace(text=f"lane_axis({shifts[-1].text})", strength=ATOM)
        values = [*shifts[:leading], *map(_sum, values, shifts[leading:])]
        place = place.base
        values = _all_checked(compiler, place, values, wide)
    flat = _flatten(place, values, wide)
    if not place.complete and not flat.varying and not wide and place.memory.plain:
        flat = _inside(place, flat)
    if place.dtype.lanes > 1:
        flat = Value(f"vector_index({flat.text}, {place.dtype.lanes})", ATOM, flat.varying)
    return flat


def _as_number(index: Expr) -> Expr:
    """`index` in an integer type in which flat indices do not wrap: int32 or wider."""
    dtype = index.dtype
    if dtype.code == "int" and dtype.bits >= int32.bits:
        return index
    return cast(int64.with_lanes(dtype.lanes), index)


def _sum(a: Value, b: Value) -> Value:
    if b.text == "0":
        return a
    text = f"{a.at(SUM)} + {b.at(TERM)}"
    return Value(text, SUM, a.varying or b.varying, a.low + b.low, a.high + b.high)


def _flatten(place: Place, values: list[Value], wide: bool) -> Value:
    result: Value | None = None
    for v, low, stride in zip(values, place.lows, place.strides, strict=True):
        if wide and v is not values[-1] and v.varying:
            v = v._replace(text=f"lane_axis({v.text})", strength=ATOM)
        if low.text != "0":
            down = f"lane_axis({low.text})" if wide and low.varying else low.at(TERM)
            bounds = (v.low - low.high, v.high - low.low)
            v = Value(f"{v.at(SUM)} - {down}", SUM, v.varying or low.varying, *bounds)
        if stride.text != "1":
            ends = [x * y for x in (v.low, v.high) for y in (stride.low, stride.high)]
            text = f"{v.at(TERM)} * {stride.at(ATOM)}"
            v = Value(text, TERM, v.varying or stride.varying, min(ends), max(ends))
        result = v if result is None else _sum(result, v)
    if place.offset is not None:
        result = place.offset if result is None else _sum(result, place.offset)
    return ZERO if result is None else result


def _all_checked(
    compiler: ExprCompiler, place: Place, values: list[Value], wide: bool
) -> list[Value]:
    if not place.checked:
        return values
    last = len(values) - 1
    return [_checked(compiler.mask, place, d, v, wide and d == last) for d, v in enumerate(values)]


def _checked(mask: str, place: Place, dim: int, v: Value, wide: bool) -> Value:
    low, extent = place.lows[dim], place.extents[dim]
    if low.high <= v.low and v.high < low.low + extent.low:
        return v
    name = repr(place.name)
    if low.text == "0":
        high = extent.at(OR)
    else:
        known = low.low == low.high and extent.low == extent.high
        high = str(low.low + extent.low) if known else f"{low.at(SUM)} + {extent.at(TERM)}"
    if v.varying or wide or low.varying or extent.varying:
        text = f"checked({name}, {dim}, {v.text}, {low.text}, {high}, {mask})"
        return v._replace(text=text, strength=ATOM)
    text = (
        f"(t if {low.at(OR)} <= (t := {v.text}) < {high} "
        f"else out_of_bounds({name}, {dim}, t, {low.text}, {high}))"
    )
    return v._replace(text=text, strength=ATOM)


def _inside(place: Place, v: Value) -> Value:
    lanes = place.dtype.lanes
    size = place.memory.size
    wide_view = place.dtype.bytes // place.memory.dtype.bytes
    if v.low >= 0 and (v.high + 1) * lanes * max(1, wide_view) <= size.low:
        return v
    count = f"{place.storage}.size" + ("" if lanes == 1 else f" // {lanes}")
    failure = f"out_of_bounds({place.name!r}, None, t, 0, {count})"
    return v._replace(text=f"(t if 0 <= (t := {v.text}) < {count} else {failure})", strength=ATOM)


def watched_index(
    compiler: ExprCompiler,
    place: Place,
    index: Value,
    buffer: Buffer,
    indices: tuple[Expr, ...],
    mask: str,
    store: bool,
) -> Value:
    """`index` of an access in a kernel, with the alignment check and the count of the watch."""
    watch, scope = compiler.run.watch, place.memory.scope
    if watch is None or not compiler.in_kernel or scope == "local":
        return index
    last = indices[-1] if indices else None
    if isinstance(last, Ramp) and is_one(last.stride):
        if watch.is_vector is not None:
            one = watch.is_vector(buffer, last)
        else:
            one = last.lanes * buffer.dtype.bytes in (2, 4, 8, 16)
        if one:
            text = f"check_aligned({place.storage}, {index.text}, {last.lanes}, {mask})"
            index = index._replace(text=text, strength=ATOM)
    if watch.counting and compiler.current is not None:
        count = watch.counts.setdefault((compiler.current, place.name, store), AccessCount())
        fields = [compiler.constant(count), repr(scope), place.storage, index.text, mask]
        index = index._replace(text=f"L.counted({', '.join(fields)})", strength=ATOM)
    return index
