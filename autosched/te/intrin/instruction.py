"""What a tensor instruction of a processor is, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.dtype import DType

Layout = tuple[tuple[str, int], ...]
"""Axes of a tile as they lie in memory, outermost first. An axis that stands there twice is cut:
(("k", 16), ("n", 16), ("k", 4)) is a tile of 64 k and 16 n, four k of one n side by side."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """The tile of a matrix that one call reads or adds to.

    `scope` is the storage scope of the register that holds it between calls: "local" is an
    ordinary vector register, "" is memory, read by the call itself. `lanes` is an array (threads,
    values of a thread, 2) of rows and columns, where the threads of a warp share the tile.
    `wide` is the type to which elements are converted as they are packed, where the call takes
    another one than the matrix has: int8 as int16, bfloat16 as float32. Every value fits, once an
    instruction's `offset` is added.
    """

    dtype: DType
    layout: Layout
    scope: str = ""
    lanes: np.ndarray[Any, Any] | None = None
    wide: DType | None = None

    @property
    def held(self) -> DType:
        """The type that the call takes."""
        return self.wide or self.dtype

    def extent(self, axis: str) -> int:
        """The size of the tile along `axis`, 1 when it does not have it."""
        return int(np.prod([size for name, size in self.layout if name == axis]))


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """C[m, n] += A[m, k] * B[k, n] on tiles, products and sums in the type of C.

    `kind` is the target's, `triple` the beginning of LLVM's name of the machine ("" is any), and
    `features` what it must have: LLVM's names ("avx512vnni"), or of a GPU the least
    architecture ("sm_80"), the only one ("sm_90a"), and what its user allows ("tf32").
    `calls` are the calls of the TIR that it is made of, by LLVM's or PTX's name: the interpreter
    and the code generator know each.
    `registers` is how many registers there are for accumulators and operands together, `between`
    how many hold what one instruction of a call hands to the next.
    `parts` is into how many numbers of the type that the calls take each element of A and B is cut
    as it is packed: each part of A is multiplied with each of B, the sum of the parts is exact.
    `offset` is added to each element of A as it is packed (128 where the call takes unsigned bytes
    for signed ones); what the sums have too much then, `offset` times the sum of a column of B, is
    computed once for all rows by the statements "excess" and taken off.
    `declare` makes its statements, each a TensorIntrin whose operation describes it as a tensor
    expression. Each instruction has "compute"; one whose B is packed, "pack_b"; one with registers
    of its own may have "fill", "load_a", "load_b", "load_c" and "store" beside them.
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
        """The size of one call along m, n or k."""
        return max(operand.extent(axis) for operand in (self.a, self.b, self.c))

    @property
    def mixes_rows(self) -> bool:
        """Whether several rows of C share an ordinary vector, which no stages are made for."""
        return self.extent("m") > 1 and self.c.scope == "local"

    @property
    def multiply_adds(self) -> int:
        """Products that one call adds up, of whole elements."""
        return self.extent("m") * self.extent("n") * self.extent("k") // self.parts**2

    @property
    def types(self) -> tuple[DType, DType, DType]:
        """The types of A, B and C."""
        return self.a.dtype, self.b.dtype, self.c.dtype
