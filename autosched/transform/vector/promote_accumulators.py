"""PromoteAccumulators: a reduction's outputs stay in registers while it runs.

before:
    def main(A: Buffer((128,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        for i in range(2):
            for k in range(64):
                C[i * 8:i * 8 + 8] = C[i * 8:i * 8 + 8] + broadcast(A[i * 64 + k],
                        8) * B[k * 8:k * 8 + 8]
after:
    def main(A: Buffer((128,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        C.acc = allocate((16,), float32, "local")
        pragma(None, "auto_unroll_max_step", 0)
        C.acc[0:8] = C[0:8]
        C.acc[8:16] = C[8:16]
        for k in range(64, annotations={"unroll_count": 4}):
            C.acc[0:8] = C.acc[0:8] + broadcast(A[k], 8) * B[k * 8:k * 8 + 8]
            C.acc[8:16] = C.acc[8:16] + broadcast(A[k + 64], 8) * B[k * 8:k * 8 + 8]
        C[0:8] = C.acc[0:8]
        C[8:16] = C.acc[8:16]

The pass takes perfect nests of constant loops around one store `X[a] = f(X[a], ...)` whose address
does not depend on the innermost loops that reduce. It splits loops over outputs so that a tile of
outputs fits the vector registers, and unrolls the tile inside the reduction. Each output still sees
its reduction steps in the same order, so that results do not change by a bit. Only where the loads
are contiguous along the reduction alone are partial results kept in lanes and folded at the end
(`reassociate`). If each output is accumulated once and a constant is stored to all outputs right
before, the accumulators begin with that constant and the store disappears (first_values.py). Tiles
of windows that may reach past a border have a version for it (border_tiles.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.nest.core import Core
from autosched.nest.loop_nest import LoopNest
from autosched.nest.piece import Piece, accumulates_once, is_first
from autosched.nest.plan import Planned, plan_reduction
from autosched.tir.expr import (
    IntImm,
)
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    For,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.accumulator_tile import build_tile
from autosched.transform.vector.apply_moves import planned_nests
from autosched.transform.vector.border_tiles import without_borders
from autosched.transform.vector.describe_nest import can_fold
from autosched.transform.vector.distribute_loops import distribute
from autosched.transform.vector.first_values import first_value
from autosched.transform.vector.instructions import step_weight
from autosched.transform.vector.reduction_nest import (
    is_counted,
    is_reduction,
    match_nest,
)


@dataclass(frozen=True)
class PromoteAccumulators(FunctionPass):
    """Accumulates in registers; `vector_bytes` and `registers` describe the register file.

    `reassociate` allows partial sums of floats where loads are contiguous along the reduction
    alone. Functions whose arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    registers: int = 32
    reassociate: bool = True
    name: ClassVar[str] = "PromoteAccumulators"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(_Promoter(self).stmt(func.body))

    def planned(self, func: PrimFunc) -> list[Planned]:
        """The nests that `apply` makes of `func`, in program order."""
        promoter = _Promoter(self)
        promoter.stmt(func.body)
        return promoter.planned


class _Promoter:
    """One walk that adds every nest that it plans to `planned`."""

    def __init__(self, options: PromoteAccumulators) -> None:
        self._core = Core(options.vector_bytes, options.registers)
        self._reassociate = options.reassociate
        self._times = 1
        self.planned: list[Planned] = []

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, SeqStmt):
            return seq(*self._parts(stmt.stmts))
        if not isinstance(stmt, For):
            return map_children(stmt, self.stmt)
        if is_counted(stmt):
            pieces = self._reduction(stmt)
            if pieces:
                return seq(*pieces)
            distributed = distribute(stmt)
            if distributed is not stmt:
                return self.stmt(distributed)
        outside = self._times
        self._times *= stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        inside = map_children(stmt, self.stmt)
        self._times = outside
        return inside

    def _parts(self, parts: Sequence[Stmt]) -> Iterator[Stmt]:
        """The statements; one that only initialises the outputs of the next disappears in it."""
        k = 0
        while k < len(parts):
            following = parts[k + 1] if k + 1 < len(parts) else None
            started = self._reduction(following, parts[k]) if isinstance(following, For) else []
            k += 2 if started else 1
            yield from started or (self.stmt(parts[k - 1]),)

    def _reduction(self, outer: For, start: Stmt | None = None) -> list[Stmt]:
        """The nests of the reduction that `outer` starts; none if it is not a reduction.

        With `start`, the accumulators of the nests begin with the value that `start` stores; there
        are no nests if `start` must stay.
        """
        nest = match_nest(outer) if is_counted(outer) else None
        if nest is None or not is_reduction(nest):
            return []
        first = None if start is None else first_value(start, nest)
        if start is not None and first is None:
            return []
        folds = can_fold(nest, self._reassociate)
        weight = step_weight(without_borders(nest).value)

        def plan(described: LoopNest) -> tuple[Piece, ...]:
            element = nest.buffer.dtype.bytes
            return plan_reduction(described, self._core, element, weight, folds=folds)

        planned = planned_nests(nest, plan)
        if first is not None and not all(accumulates_once(piece) for _, piece in planned):
            return []
        self.planned += [Planned(nest.buffer.name, self._times, piece) for _, piece in planned]
        registers = self._core.registers
        reduces = [axis.reduces for axis in nest.axes]
        return [
            build_tile(part, piece.tile, registers, first if is_first(piece, reduces) else None)
            for part, piece in planned
            if piece.tile is not None
        ]
