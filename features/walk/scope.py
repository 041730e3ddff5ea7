"""The scope of a store: the loops around it, their ranges, and what has been touched under each."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from autosched.arith.const_int_bound import POS_INF, eval_bound
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, Var
from autosched.tir.stmt import ForKind

_F32 = struct.Struct("<f")
_WHOLE = 1 << 24  # whole numbers up to here are exact in single precision


def f32(x: float) -> float:
    """`x` rounded to IEEE single precision: Ansor's features are computed in C floats."""
    if -_WHOLE <= x <= _WHOLE and x % 1 == 0:
        return float(x)
    try:
        result: float = _F32.unpack(_F32.pack(x))[0]
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
    return result


# What stores touched of each buffer under one loop: (elements, bytes of one element), oldest first.
TouchTable = dict[Var, list[tuple[int, int]]]


@dataclass(slots=True)
class Loop:
    """One enclosing loop, or thread attribute if `thread` is not 0 (a position in names.LAUNCH).

    `point` bounds the variable in its first iteration, `span` over all iterations. `table` outlives
    the store. `counted` tells that it is a plain loop from 0 to a constant. `size` is the extent
    expression of a loop whose extent is not constant; `extent` and the upper end of `span` are then
    bounds of it.
    """

    var: Var
    extent: int
    point: tuple[int, int]
    span: tuple[int, int]
    table: TouchTable
    kind: ForKind = ForKind.SERIAL
    thread: int = 0
    lets: list[tuple[Var, Expr]] = field(default_factory=list)
    counted: bool = False
    size: Expr | None = None

    def extent_at(self, env: Mapping[Var, tuple[int, int]]) -> int:
        """The largest extent while the variables have the bounds in `env`."""
        if self.size is None:
            return self.extent
        largest = eval_bound(self.size, env)[1]
        return 1 if largest == POS_INF else largest

    def span_at(self, env: Mapping[Var, tuple[int, int]]) -> tuple[int, int]:
        """The bounds of the loop variable while those around it have the bounds in `env`."""
        if self.size is None:
            return self.span
        return self.point[0], self.point[1] + eval_bound(self.size, env)[1] - 1


@dataclass(slots=True, eq=False)
class Siblings:
    """`count` statements one after the other inside `level` loops.

    The loops from `floor` to `level` enclose nothing but these statements.
    """

    level: int
    floor: int
    count: int


@dataclass(slots=True)
class BufferInfo:
    """Declared shape (None for a symbolic dimension) and bytes of an element of a buffer.

    `buffer` is the declaration itself; an allocated variable has none. `realized` are the extents
    of the region that a BufferRealize gives the buffer; without one, its storage has the declared
    shape.
    """

    shape: tuple[int | None, ...]
    bytes: int
    buffer: Buffer | None = None
    realized: tuple[int, ...] | None = None

    @property
    def extents(self) -> tuple[int | None, ...]:
        """The extents of the storage; None for a symbolic dimension."""
        return self.shape if self.realized is None else self.realized

    @property
    def scope(self) -> str:
        """The memory scope: `local`, `shared`, or for global memory empty or `global`."""
        return "" if self.buffer is None else self.buffer.scope

    @property
    def name(self) -> str:
        """The buffer's name; empty for an allocated variable."""
        return "" if self.buffer is None else self.buffer.name


@dataclass(slots=True)
class Access:
    """One buffer in a store: how it is accessed (`kind`), its index tuples and their variables."""

    data: Var
    info: BufferInfo
    kind: str
    indices: list[tuple[Expr, ...]]
    used: frozenset[Var]
