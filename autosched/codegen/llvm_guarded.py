"""Loads and stores under a mask that is computed from data, in parts if there are many lanes.

If the CPU has no instruction for them, LLVM makes a branch for each lane, and each branch passes on
all lanes: 512 lanes of float32 took 41 s.

    load 128 lanes   ->   load 64 lanes, load 64 lanes, shuffle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import memory_type, splat, suffix
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import bool_

T = TypeVar("T")
AT_ONCE = 64
"""The number of lanes of a part."""
_AS_WIDE = ("half", "float", "double", "i64")
"""The types that LLVM does not narrow values to while it stores them."""


def guarded_load(b: FunctionBuilder, buffer: Buffer, pointer: str, lanes: int, mask: str) -> str:
    """Load consecutive elements in the lanes of `mask`; the other lanes are 0."""

    def load(first: int, count: int, own: str) -> str:
        kind, name = _named(buffer, "load", count)
        b.module.declare(name, f"{kind} @(ptr, i32, <{count} x i1>, {kind})")
        where = _moved(b, buffer, pointer, first)
        return b.emit(
            f"call {kind} @{name}(ptr {where}, i32 {buffer.dtype.bytes}, <{count} x i1> {own}, "
            f"{kind} zeroinitializer)"
        )

    return _joined(b, buffer, lanes, _parts(b, lanes, mask, load))


def guarded_store(
    b: FunctionBuilder, buffer: Buffer, pointer: str, stored: str, lanes: int, mask: str
) -> None:
    """Store to consecutive elements in the lanes of `mask`."""
    narrows = b.module.has_scatter and memory_type(buffer.dtype) not in _AS_WIDE

    def store(first: int, count: int, own: str) -> None:
        if narrows:
            own = _hidden(b, count, own)
        kind, name = _named(buffer, "store", count)
        b.module.declare(name, f"void @({kind}, ptr, i32, <{count} x i1>)")
        part = _lanes(b, memory_type(buffer.dtype), lanes, stored, first, count)
        where = _moved(b, buffer, pointer, first)
        b.line(
            f"call void @{name}({kind} {part}, ptr {where}, i32 {buffer.dtype.bytes}, "
            f"<{count} x i1> {own})"
        )

    _parts(b, lanes, mask, store)


def _hidden(b: FunctionBuilder, lanes: int, mask: str) -> str:
    """The mask, of which LLVM cannot find out that it is of one lane, say by unrolling a loop.

    LLVM 22 makes a scalar store of a store under such a mask. If AVX-512 would narrow the lanes
    while it stores them, that store has the bytes of the lane before it was narrowed.
    """
    every = b.emit('call i64 asm "", "=r,0"(i64 -1)')
    kind = f"<{lanes} x i1>"
    flags = every if lanes == 64 else b.emit(f"trunc i64 {every} to i{lanes}")
    return b.emit(f"and {kind} {mask}, {b.emit(f'bitcast i{lanes} {flags} to {kind}')}")


def gather(b: FunctionBuilder, buffer: Buffer, pointers: str, lanes: int, mask: str | None) -> str:
    """Load elements at any addresses in the lanes of `mask`, or in all; the other lanes are 0."""

    def load(first: int, count: int, own: str) -> str:
        kind, name = _named(buffer, "gather", count)
        b.module.declare(name, f"{kind} @(<{count} x ptr>, i32, <{count} x i1>, {kind})")
        where = _lanes(b, "ptr", lanes, pointers, first, count)
        return b.emit(
            f"call {kind} @{name}(<{count} x ptr> {where}, i32 {buffer.dtype.bytes}, "
            f"<{count} x i1> {own}, {kind} zeroinitializer)"
        )

    if mask is None:
        return load(0, lanes, splat(1, bool_.with_lanes(lanes)))
    return _joined(b, buffer, lanes, _parts(b, lanes, mask, load))


def scatter(
    b: FunctionBuilder, buffer: Buffer, pointers: str, stored: str, lanes: int, mask: str | None
) -> None:
    """Store to elements at any addresses in the lanes of `mask`, or in all without a mask."""

    def store(first: int, count: int, own: str) -> None:
        kind, name = _named(buffer, "scatter", count)
        b.module.declare(name, f"void @({kind}, <{count} x ptr>, i32, <{count} x i1>)")
        part = _lanes(b, memory_type(buffer.dtype), lanes, stored, first, count)
        where = _lanes(b, "ptr", lanes, pointers, first, count)
        b.line(
            f"call void @{name}({kind} {part}, <{count} x ptr> {where}, i32 {buffer.dtype.bytes}, "
            f"<{count} x i1> {own})"
        )

    if mask is None:
        store(0, lanes, splat(1, bool_.with_lanes(lanes)))
    else:
        _parts(b, lanes, mask, store)


def _named(buffer: Buffer, access: str, lanes: int) -> tuple[str, str]:
    """The type of `lanes` elements, and LLVM's masked intrinsic for this access to them."""
    dtype = buffer.dtype.with_lanes(lanes)
    elements = f"v{lanes}i8" if dtype.is_bool else suffix(dtype)
    pointer = f"v{lanes}p0" if access in ("gather", "scatter") else "p0"
    return f"<{lanes} x {memory_type(buffer.dtype)}>", f"llvm.masked.{access}.{elements}.{pointer}"


def _parts(
    b: FunctionBuilder, lanes: int, mask: str, access: Callable[[int, int, str], T]
) -> list[T]:
    """The results of `access` for the first lane, the number of lanes and the mask of each part."""
    found = []
    for first in range(0, lanes, AT_ONCE):
        count = min(AT_ONCE, lanes - first)
        found.append(access(first, count, _lanes(b, "i1", lanes, mask, first, count)))
    return found


def _lanes(b: FunctionBuilder, element: str, lanes: int, x: str, first: int, count: int) -> str:
    """The `count` lanes from `first` on of a register of `lanes` lanes."""
    if count == lanes:
        return x
    kind, order = f"<{lanes} x {element}>", ", ".join(f"i32 {first + k}" for k in range(count))
    return b.emit(f"shufflevector {kind} {x}, {kind} poison, <{count} x i32> <{order}>")


def _joined(b: FunctionBuilder, buffer: Buffer, lanes: int, parts: Sequence[str]) -> str:
    """The register of `lanes` lanes that `parts` make up."""
    if len(parts) == 1:
        return parts[0]
    element = memory_type(buffer.dtype)
    kind, result = f"<{lanes} x {element}>", "poison"
    for number, part in enumerate(parts):
        first = number * AT_ONCE
        count = min(AT_ONCE, lanes - first)
        own, behind = f"<{count} x {element}>", range(first, first + count)
        order = ", ".join([f"i32 {k}" if k < count else "i32 poison" for k in range(lanes)])
        wide = b.emit(f"shufflevector {own} {part}, {own} poison, <{lanes} x i32> <{order}>")
        order = ", ".join([f"i32 {lanes + k - first if k in behind else k}" for k in range(lanes)])
        result = b.emit(f"shufflevector {kind} {result}, {kind} {wide}, <{lanes} x i32> <{order}>")
    return result


def _moved(b: FunctionBuilder, buffer: Buffer, pointer: str, count: int) -> str:
    """The address `count` elements further on."""
    if not count:
        return pointer
    return b.emit(f"getelementptr {memory_type(buffer.dtype)}, ptr {pointer}, i64 {count}")
