"""Vectors that LLVM would split are loaded and stored by one instruction with a mask.

LLVM loads 14 lanes as 8, 4 and 2 lanes with two shuffles. AVX-512 loads the 16 lanes that begin
there, without touching the last two.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import memory_type, suffix
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Var
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.stmt import Allocate, BufferStore, Stmt
from autosched.tir.walk import stmts

LEAST_PARTS = 3
"""Fewest powers of two that the number of lanes is the sum of: 7 and 14 have three.

For two (9, 12) a mask gains nothing: 64 bytes that begin anywhere touch two cache lines, the parts
often one each.

On a Sapphire Rapids core convolutions by channels of 7 and 14 columns took 0.86 of their time.
"""

NEAR_ELEMENTS = 256
"""Arrays of fewer elements have often just been stored.

A load with a mask waits until the stores have left the core; other loads of no more than one store
do not.
"""


def updated_buffers(body: Stmt) -> frozenset[Var]:
    """The buffers that are loaded and stored at one place.

    A value that was stored there a moment ago is taken from the store by LLVM or by the core, but
    not from a store with a mask: such rows took up to four times as long (Sapphire Rapids).
    """
    found = exprs_with(body, bits_of(BufferLoad))
    loaded = {(e.buffer.data, e.indices) for e in found if isinstance(e, BufferLoad)}
    stored = [s for s in stmts(body) if isinstance(s, BufferStore)]
    return frozenset([s.buffer.data for s in stored if (s.buffer.data, s.indices) in loaded])


def near_arrays(sizes: Mapping[Allocate, int], addressed: set[Var]) -> set[Var]:
    """The allocations, given with their bytes, that masks would slow down.

    Memory that becomes registers (all but `addressed`) would stay memory, and small arrays are read
    just after they are stored.
    """
    return {
        stmt.buffer_var
        for stmt, size in sizes.items()
        if stmt.buffer_var not in addressed or size < NEAR_ELEMENTS * stmt.dtype.bytes
    }


def is_masked(b: FunctionBuilder, buffer: Buffer, lanes: int) -> bool:
    """Whether `lanes` consecutive elements are loaded or stored by one instruction with a mask."""
    return (
        lanes.bit_count() >= LEAST_PARTS
        and b.module.has_masks
        and buffer.dtype.bytes >= 4
        and buffer.data not in b.unmasked
        and buffer.data not in b.module.updated()
    )


def masked_load(b: FunctionBuilder, buffer: Buffer, pointer: str, lanes: int) -> str:
    """The first `lanes` lanes of a vector of the next power of two; nothing else is read."""
    width, kind = _whole(buffer, lanes)
    name = f"llvm.masked.load.{suffix(buffer.dtype.with_lanes(width))}.p0"
    b.module.declare(name, f"{kind} @(ptr, i32, <{width} x i1>, {kind})")
    whole = b.emit(
        f"call {kind} @{name}(ptr {pointer}, i32 {buffer.dtype.bytes}, "
        f"<{width} x i1> <{_first(lanes, width)}>, {kind} poison)"
    )
    order = ", ".join([f"i32 {lane}" for lane in range(lanes)])
    return b.emit(f"shufflevector {kind} {whole}, {kind} poison, <{lanes} x i32> <{order}>")


def masked_store(b: FunctionBuilder, buffer: Buffer, pointer: str, stored: str, lanes: int) -> None:
    """Stores `stored` as the first `lanes` lanes of a vector of the next power of two."""
    width, kind = _whole(buffer, lanes)
    own = memory_type(buffer.dtype.with_lanes(lanes))
    order = ", ".join([f"i32 {k}" if k < lanes else "i32 poison" for k in range(width)])
    whole = b.emit(f"shufflevector {own} {stored}, {own} poison, <{width} x i32> <{order}>")
    name = f"llvm.masked.store.{suffix(buffer.dtype.with_lanes(width))}.p0"
    b.module.declare(name, f"void @({kind}, ptr, i32, <{width} x i1>)")
    b.line(
        f"call void @{name}({kind} {whole}, ptr {pointer}, i32 {buffer.dtype.bytes}, "
        f"<{width} x i1> <{_first(lanes, width)}>)"
    )


def _whole(buffer: Buffer, lanes: int) -> tuple[int, str]:
    width = 1 << lanes.bit_length()
    return width, memory_type(buffer.dtype.with_lanes(width))


def _first(lanes: int, width: int) -> str:
    return ", ".join(["i1 true"] * lanes + ["i1 false"] * (width - lanes))
