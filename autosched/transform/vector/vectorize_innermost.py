"""VectorizeInnermost: copies and elementwise loops over consecutive outputs become vector code.

for w in range(29):                              P[0:16] = if_then_else(...)
    P[w] = if_then_else(1 <= w, X[w - 1], 0) ->  P[16:29] = X[15:28]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.reduction_nest import (
    Nest,
    cut_outputs,
    is_counted,
    match_nest,
    widened,
    without_single_iterations,
)


@dataclass(frozen=True)
class VectorizeInnermost(FunctionPass):
    """Vectors of up to `vector_bytes` where a perfect nest stores consecutive elements.

    Nests of scalars and of vectors too short for the registers are widened; what is left over at
    the end of a loop gets a shorter vector of its own. The schedule's own loop order stays.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "VectorizeInnermost"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(self._stmt(func.body))

    def _stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and is_counted(stmt):
            nest = match_nest(stmt)
            if nest is not None:
                fit = max(1, self.vector_bytes // nest.buffer.dtype.bytes)
                parts = list(_wide(nest, fit))
                if len(parts) == 1 and parts[0] is nest:
                    return stmt
                return seq(*(_loops(without_single_iterations(n)) for n in parts))
        return map_children(stmt, self._stmt)


def _wide(nest: Nest, fit: int) -> Iterator[Nest]:
    wide = nest
    while wide.width < fit and (wider := widened(wide, fit)) is not None:
        wide = wider
    if 2 * wide.width < fit and (cut := cut_outputs(nest, fit)) is not None:
        for part in cut:
            yield from _wide(part, fit)
        return
    yield wide


def _loops(nest: Nest) -> Stmt:
    body: Stmt = BufferStore(nest.buffer, nest.value, (nest.index,))
    for axis in reversed(nest.axes):
        extent = const(axis.extent, axis.var.dtype)
        body = For(axis.var, const(0, axis.var.dtype), extent, ForKind.SERIAL, body)
    return body
