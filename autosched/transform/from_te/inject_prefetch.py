"""InjectPrefetch: turn the `prefetch` of a schedule into Prefetch statements.

before:
    def main(A: Buffer((10, 4), float32), B: Buffer((8, 4), float32)):
        for i in range(8):
            attr(A, "prefetch_scope", 2)
            for j in range(4):
                B[i, j] = A[i, j]
after:
    def main(A: Buffer((10, 4), float32), B: Buffer((8, 4), float32)):
        for i in range(8):
            prefetch(A[i + 2:i + 2 + 1, 0:4])
            for j in range(4):
                B[i, j] = A[i, j]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.arith import Analyzer, IntSet
from autosched.arith.interval_eval import eval_set
from autosched.arith.intset import union_set
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IterVar, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const
from autosched.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    LetStmt,
    Prefetch,
    Stmt,
    seq,
)
from autosched.tir.walk import loads, map_children, stmts, substitute, unique_exprs
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_KEY = "prefetch_scope"


@dataclass(frozen=True)
class InjectPrefetch(FunctionPass):
    """Prefetch the region that the loop will access `offset` iterations later.

    The Prefetch is inserted before the statements that read the region. Raises ScheduleError for a
    prefetch outside of all loops, and for one of a buffer that the loop itself computes.
    """

    name: ClassVar[str] = "InjectPrefetch"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not any(isinstance(s, AttrStmt) and s.key == _KEY for s in stmts(func.body)):
            return func
        return func.with_body(_Inject().stmt(func.body))


class _Inject:
    def __init__(self) -> None:
        self.loops: list[Var] = []

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, For):
            self.loops.append(s.loop_var)
            new = map_children(s, self.stmt)
            self.loops.pop()
            return new
        if isinstance(s, AttrStmt) and s.key == _KEY:
            body = self.stmt(s.body)
            prefetch = self._prefetch(s.node, s.value, body)
            return body if prefetch is None else seq(prefetch, body)
        return map_children(s, self.stmt)

    def _prefetch(self, buffer: Buffer, offset: Expr, body: Stmt) -> Prefetch | None:
        """A Prefetch of the region of `buffer` that `body` accesses `offset` iterations ahead.

        None if that region is unbounded.
        """
        if not self.loops:
            raise ScheduleError(
                f"InjectPrefetch: the prefetch of {buffer.name} is not inside a loop"
            )
        loop = self.loops[-1]
        if any(isinstance(s, BufferRealize) and s.buffer is buffer for s in stmts(body)):
            raise ScheduleError(
                f"InjectPrefetch: {buffer.name} is prefetched in loop {loop.name}, but has no "
                "memory before it is computed inside of that loop; compute it outside, or prefetch "
                "what it is computed from"
            )
        region = touched_region(body, buffer)
        if region is None:
            return None
        ahead = {loop: add(loop, offset)}
        return Prefetch(
            buffer,
            tuple(Range(substitute(r.min, ahead), substitute(r.extent, ahead)) for r in region),
        )


def touched_region(body: Stmt, buffer: Buffer) -> tuple[Range, ...] | None:
    """The region of `buffer` that `body` accesses, over all loops and threads in it.

    None if there is no access, if a dimension has no bounds, or if bounds depend on memory, whose
    values may not exist iterations ahead.
    """
    analyzer = Analyzer()
    domains: dict[Var, IntSet] = {}
    touched: list[tuple[Expr, ...]] = []
    for s in stmts(body):
        match s:
            case For():
                domains[s.loop_var] = IntSet.from_range(Range(s.min, s.extent))
            case AttrStmt(IterVar() as axis, "thread_extent" | "virtual_thread", extent):
                start = const(0, extent.dtype)
                domains[axis.var] = IntSet.from_range(Range(start, extent))
            case LetStmt(var, value):
                domains[var] = eval_set(value, domains, analyzer)
        if isinstance(s, BufferStore) and s.buffer is buffer:
            touched.append(s.indices)
    for e in unique_exprs(body):
        if isinstance(e, BufferLoad) and e.buffer is buffer:
            touched.append(e.indices)
    if not touched:
        return None
    region: list[Range] = []
    for dim, extent in enumerate(buffer.shape):
        sets = [eval_set(indices[dim], domains, analyzer) for indices in touched]
        whole = union_set(sets, analyzer)
        if not (whole.has_lower_bound and whole.has_upper_bound):
            return None
        found = whole.cover_range(Range.of(extent))
        if any(next(loads(e), None) is not None for e in (found.min, found.extent)):
            return None
        region.append(found)
    return tuple(region)
