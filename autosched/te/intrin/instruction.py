"""The description of a tensor instruction as data: shapes, types, layouts and requirements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.dtype import DType

Layout = tuple[tuple[str, int], ...]
"""The axes of a tile in memory order, outermost first, each with its extent.

An axis that occurs twice is split: (("k", 16), ("n", 16), ("k", 4)) is a tile of 64 k by 16 n in
which four consecutive k of one n are adjacent."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """The tile of a matrix that one call of an instruction reads or accumulates into.

    `dtype` is the type of the matrix and `layout` the order of the tile in memory.
    `scope` is the storage scope of the register that holds the tile between calls: "local" is an
    ordinary vector register, "" is memory that the call itself reads.
    `lanes`, for a tile that the threads of a warp share, is an array (threads, values of a thread,
    2) of rows and columns.
    `wide` is the type to which packing converts the elements where the call takes another type
    than the matrix has: int8 as int16, bfloat16 as float32. It holds every value, once the
    instruction's `offset` is added.
    """

    dtype: DType
    layout: Layout
    scope: str = ""
    lanes: np.ndarray[Any, Any] | None = None
    wide: DType | None = None

    @property
    def held(self) -> DType:
        """The element type that the call takes."""
        return self.wide or self.dtype

    def extent(self, axis: str) -> int:
        """The size of the tile along `axis`; 1 when the tile lacks the axis."""
        return int(np.prod([size for name, size in self.layout if name == axis]))


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """An instruction that computes C[m, n] += A[m, k] * B[k, n] on tiles, in the type of C.

    `kind` is the kind of the target ("cpu", "cuda"), `triple` a prefix of LLVM's target triple (""
    fits any). `features` is what the target must have: LLVM's feature names ("avx512vnni"); for a
    GPU the minimum architecture ("sm_80") or the only one ("sm_90a"), and numerics that its user
    must allow ("tf32").
    `a`, `b` and `c` are the tiles of one call.
    `calls` are the TIR calls that make up one call of the instruction, by LLVM's or PTX's name; the
    interpreter and the code generator implement each.
    `registers` is the number of registers for accumulators and operands together, `between` the
    number of registers for intermediate results within a call.
    `parts` is the number of values, of the type that the calls take, into which packing splits each
    element of A and B; their sum is exactly the element. Each part of A is multiplied by each of B.
    `offset` is added to each element of A when A is packed (128 where the call takes unsigned bytes
    and A is signed). The sums are then too large by `offset` times the sum of a column of B; the
    statement "excess" computes that once for all rows, and it is subtracted.
    `declare` makes the statements of the instruction by name, each a TensorIntrin whose operation
    describes it as a tensor expression. Each instruction has "compute"; one whose B is packed has
    "pack_b"; one with registers of its own may also have "fill", "load_a", "load_b", "load_c" and
    "store".
    """

    name: str
    kind: str
    triple: str
    features: tuple[str, ...]
    a: Operand
    b: Operand
    c: Operand
    calls: tuple[str, ...]
    registers: int
    declare: Callable[[Instruction], Mapping[str, TensorIntrin]]
    parts: int = 1
    between: int = 0
    offset: int = 0

    def extent(self, axis: str) -> int:
        """The extent of one call along `axis`: "m", "n" or "k"."""
        return max(operand.extent(axis) for operand in (self.a, self.b, self.c))

    @property
    def mixes_rows(self) -> bool:
        """Whether one vector register holds several rows of C; scheduling does not support that."""
        return self.extent("m") > 1 and self.c.scope == "local"

    @property
    def multiply_adds(self) -> int:
        """The number of multiply-adds of whole (unsplit) elements in one call."""
        return self.extent("m") * self.extent("n") * self.extent("k") // self.parts**2

    @property
    def types(self) -> tuple[DType, DType, DType]:
        """The types of A, B and C."""
        return self.a.dtype, self.b.dtype, self.c.dtype
