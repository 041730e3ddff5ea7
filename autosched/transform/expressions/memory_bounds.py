"""Where an access lies in its buffer's memory, and proofs that it is inside.

A[i, j] of (4, 8) elements is element 8 i + j of 32: j = -1 is inside of the memory unless i = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Expr, IntImm, Ramp, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, ge, lt, mul, sub
from autosched.tir.stmt import Allocate, AllocateConst, BufferRealize


@dataclass(frozen=True, slots=True)
class _Memory:
    """Contiguous memory: the type of its elements and their number."""

    dtype: DType
    size: Expr


@dataclass(frozen=True, slots=True)
class Places:
    """The offsets of an access, which is inside if all are in [0, size)."""

    offsets: tuple[Expr, ...]
    size: Expr


class MemoryBounds:
    """The sizes of a function's memory, and proofs about indices with `analyzer`.

    Parameters without strides and offsets are known from the start. Allocations and realized
    regions are known once they are added. Nothing is known of other memory.
    """

    def __init__(self, func: PrimFunc, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._memory: dict[Var, _Memory] = {}
        self._regions: dict[Buffer, tuple[Range, ...]] = {}
        for buffer in func.buffer_map.values():
            if _is_compact(buffer):
                size = reduce(mul, buffer.shape, const(1))
                self._memory[buffer.data] = _Memory(buffer.dtype, size)

    def add(self, storage: Allocate | AllocateConst | BufferRealize) -> None:
        """Add the memory that is allocated or realized inside of this statement."""
        if isinstance(storage, BufferRealize):
            self._regions[storage.buffer] = storage.bounds
        else:
            size = reduce(mul, storage.extents, const(1))
            self._memory[storage.buffer_var] = _Memory(storage.dtype, size)

    def contains(self, load: BufferLoad) -> bool:
        """Whether every lane of `load` is provably inside; a load with a predicate always is."""
        if load.predicate is not None:
            return True
        buffer = load.buffer
        region = self._regions.get(buffer)
        if region is not None:
            return len(region) == len(load.indices) and all(
                index.dtype.lanes == 1 and self._is_within(index, r.min, r.extent)
                for index, r in zip(load.indices, region, strict=True)
            )
        places = self.places(buffer, load.indices)
        return places is not None and all(
            self._is_within(offset, IntImm(0), places.size) for offset in places.offsets
        )

    def places(self, buffer: Buffer, indices: Sequence[Expr]) -> Places | None:
        """The first and the last element of an access; None if they or the size are unknown."""
        memory = self._memory.get(buffer.data)
        if memory is None or not _is_compact(buffer) or len(buffer.shape) != len(indices):
            return None
        if buffer.dtype.value_bytes != memory.dtype.value_bytes:
            return None
        if not indices:
            return Places((), memory.size)
        *outer, last = indices
        ends = _ends(last)
        if ends is None or any(index.dtype.lanes > 1 for index in outer):
            return None
        return Places(tuple(_flat((*outer, end), buffer.shape) for end in ends), memory.size)

    def _is_within(self, index: Expr, low: Expr, extent: Expr) -> bool:
        """Whether the scalar `index` is in [low, low + extent)."""
        distance = sub(index, low)
        prove = self._analyzer.can_prove
        return prove(ge(distance, 0)) and prove(lt(distance, extent))


def _ends(index: Expr) -> tuple[Expr, ...] | None:
    """The first and last lane of a vector index; None if they are not known."""
    match index:
        case Ramp(base, IntImm(stride), lanes):
            return base, add(base, (lanes - 1) * stride)
        case Broadcast(value):
            return (value,)
    return (index,) if index.dtype.lanes == 1 else None


def _flat(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The row-major offset of an element."""
    total = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=False):
        total = add(mul(total, extent), index)
    return total


def _is_compact(buffer: Buffer) -> bool:
    """Whether the elements are contiguous from the start of the memory."""
    offset = buffer.elem_offset
    begins = offset is None or is_zero(offset)
    return begins and not buffer.strides
