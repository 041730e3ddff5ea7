"""VectorizeInnermost: copies and elementwise loops over consecutive outputs become vector code.

before:
    def main(X: Buffer((29,), float32), P: Buffer((29,), float32)):
        for w in range(29):
            P[w] = X[w] * 2.0
after:
    def main(X: Buffer((29,), float32), P: Buffer((29,), float32)):
        P[0:16] = X[0:16] * broadcast(2.0, 16)
        P[16:29] = X[16:29] * broadcast(2.0, 13)
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import ClassVar

from autosched.nest.core import Core, core_of
from autosched.nest.loop_nest import LoopNest
from autosched.nest.piece import Piece
from autosched.nest.plan import Planned, plan_stores
from autosched.tir.expr import IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.loops import nest_of
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.apply_moves import planned_nests
from autosched.transform.vector.reduction_nest import Nest, is_counted, match_nest


@dataclass(frozen=True)
class VectorizeInnermost(FunctionPass):
    """Makes vectors of up to `vector_bytes` where a perfect nest stores consecutive elements.

    Nests of scalars and of vectors too short for the registers are widened. The remainder at the
    end of a loop gets a shorter vector. The schedule's own loop order stays. Functions whose
    arguments may overlap stay as they are. `registers` is 0 for the usual number at that width.
    """

    vector_bytes: int = 64
    registers: int = 0
    name: ClassVar[str] = "VectorizeInnermost"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(
            _Vectorizer(core_of(self.vector_bytes, self.registers)).stmt(func.body)
        )

    def planned(self, func: PrimFunc) -> list[Planned]:
        """The nests that `apply` makes of `func`, in program order."""
        vectorizer = _Vectorizer(core_of(self.vector_bytes, self.registers))
        vectorizer.stmt(func.body)
        return vectorizer.planned


class _Vectorizer:
    """One walk that adds every nest that it plans to `planned`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._times = 1
        self.planned: list[Planned] = []

    def stmt(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return map_children(stmt, self.stmt)
        nest = match_nest(stmt) if is_counted(stmt) else None
        if nest is not None:
            return self._nest(stmt, nest)
        outside = self._times
        self._times *= stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        inside = map_children(stmt, self.stmt)
        self._times = outside
        return inside

    def _nest(self, outer: For, nest: Nest) -> Stmt:
        def plan(described: LoopNest) -> tuple[Piece, ...]:
            return plan_stores(described, self._core, nest.buffer.dtype.bytes)

        planned = planned_nests(nest, plan)
        self.planned += [Planned(nest.buffer.name, self._times, piece) for _, piece in planned]
        if not planned[0][1].nest.moves:
            return outer
        unrolled = _unrolled(outer, nest)
        return seq(*(_loops(part, unrolled) for part, _ in planned))


def _unrolled(outer: For, nest: Nest) -> set[Var]:
    """The loops that stay unrolled: unrolled loops of a schedule, if the value reads registers.

    LLVM keeps local memory in memory if an index into it is not constant: the sums of a matrix
    product with a result of 16 bits were stored after each step.
    """
    if all(load.buffer.data.scope != "local" for load in loads_in(nest.value)):
        return set()
    return {loop.loop_var for loop in nest_of(outer)[0] if loop.kind is ForKind.UNROLLED}


def _loops(nest: Nest, unrolled: Container[Var]) -> Stmt:
    body: Stmt = BufferStore(nest.buffer, nest.value, (nest.index,))
    for axis in reversed(nest.axes):
        extent = const(axis.extent, axis.var.dtype)
        kind = ForKind.UNROLLED if axis.var in unrolled else ForKind.SERIAL
        body = For(axis.var, const(0, axis.var.dtype), extent, kind, body)
    return body
