"""Elimination of dead stores: those overwritten, or whose memory ends, before any read."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.expr import BufferLoad, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.loops import trip_count
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    nop,
    seq,
)
from autosched.tir.walk import direct_exprs, distinct
from autosched.transform.dataflow.memory import is_unused, memory_of, touched
from autosched.transform.dataflow.regions import (
    Prover,
    Region,
    everything,
    over_loop,
    region_of,
)
from autosched.transform.expressions.effects import has_side_effect

Dead = list[Region]


def remove_dead_stores(func: PrimFunc) -> PrimFunc:
    """Remove the stores that no load can observe.

    before: `A[0] = 1.0; A[0] = 2.0`; after: `A[0] = 2.0`. A store is dead if on every path from it
    its elements are overwritten, or their allocation ends, before any read. A loop overwrites the
    box of all its iterations if they leave no gap. A conditional write counts if both branches
    write the region.
    """
    body, _ = _DeadStores(func).stmt(func.body, [])
    return func.with_body(body)


class _DeadStores:
    """Walks backwards with the dead regions: those whose present values are never read."""

    def __init__(self, func: PrimFunc) -> None:
        self._memory = memory_of(func)
        self._prover = Prover()

    def stmt(self, s: Stmt, after: Dead) -> tuple[Stmt, Dead]:
        """`s` without dead stores, and the regions that are dead before it."""
        match s:
            case BufferStore():
                return self._store(s, after)
            case SeqStmt():
                parts: list[Stmt] = []
                for part in reversed(s.stmts):
                    new, after = self.stmt(part, after)
                    parts.append(new)
                parts.reverse()
                same = all(a is b for a, b in zip(parts, s.stmts, strict=True))
                return (s if same else seq(*parts)), after
            case Evaluate():
                return s, self._before(s, after)
            case For():
                return self._loop(s, after)
            case IfThenElse():
                return self._if(s, after)
            case While():
                inside = self._unread(s, after)
                body, _ = self.stmt(s.body, inside)
                return s.with_(body=body), inside
            case Allocate():
                known = s.buffer_var in self._memory.followed
                ending = [*after, everything(s.buffer_var)] if known else after
                body, before = self.stmt(s.body, ending)
                before = [r for r in before if r.data is not s.buffer_var]
                new = body if known and is_unused(s.buffer_var, body) else s.with_(body=body)
                return new, self._before(s, before)
            case AssertStmt():
                body, before = self.stmt(s.body, after)
                before = [r for r in before if r.data in self._memory.private]
                return s.with_(body=body), self._before(s, before)
            case LetStmt(var):
                return self._around(s, after, var)
            case AttrStmt():
                return self._around(s, after, s.node.var if isinstance(s.node, IterVar) else None)
            case DeclBuffer() | AllocateConst():
                return self._around(s, after, None)
        return s, []

    def _around(
        self, s: LetStmt | AttrStmt | DeclBuffer | AllocateConst, after: Dead, var: Var | None
    ) -> tuple[Stmt, Dead]:
        body, before = self.stmt(s.body, after)
        if var is not None:
            before = [r for r in before if not r.mentions((var,))]
        return s.with_(body=body), self._before(s, before)

    def _store(self, s: BufferStore, after: Dead) -> tuple[Stmt, Dead]:
        region = region_of(s.buffer, s.indices)
        if region is None or region.data not in self._memory.followed:
            return s, self._before(s, after)
        harmless = not any(map(has_side_effect, direct_exprs(s)))
        if harmless and self._in_one(region, after):
            return nop(), after
        written = after if s.predicate is not None else [*after, region]
        return s, self._before(s, written)

    def _if(self, s: IfThenElse, after: Dead) -> tuple[Stmt, Dead]:
        with self._prover.under(s.condition):
            then_case, before = self.stmt(s.then_case, after)
        else_case, other = None, after
        if s.else_case is not None:
            else_case, other = self.stmt(s.else_case, after)
        both = [r for r in before if self._in_one(r, other)]
        both += [r for r in other if r not in both and self._in_one(r, before)]
        new = s.with_(then_case=then_case, else_case=else_case)
        return new, self._before(s, both)

    def _in_one(self, region: Region, regions: Sequence[Region]) -> bool:
        return any(self._prover.contains(r, region) for r in regions)

    def _loop(self, s: For, after: Dead) -> tuple[Stmt, Dead]:
        # Dead after one iteration: regions that neither later iterations nor the code behind read.
        inside = self._unread(s.body, after)
        with self._prover.inside(s):
            body, first = self.stmt(s.body, inside)
        whole = touched(s.body)
        before = list(inside)
        for region in first:
            if any(region is r for r in inside):
                continue
            if not region.mentions((s.loop_var,)):
                if trip_count(s):
                    before.append(region)
                continue
            hidden = region.data in self._memory.private or not whole.is_opaque
            if hidden and region.data not in whole.reads:
                found = over_loop(region, s.loop_var, s.min, s.extent)
                if found is not None:
                    before.append(found)
        return s.with_(body=body), self._before(s, before)

    def _unread(self, s: Stmt, regions: Dead) -> Dead:
        """The regions of `regions` that no part of `s` reads."""
        whole = touched(s)
        return [
            r
            for r in regions
            if r.data not in whole.reads and (r.data in self._memory.private or not whole.is_opaque)
        ]

    def _before(self, s: Stmt, regions: Dead) -> Dead:
        """The regions of `regions` that the direct expressions of `s` do not read."""
        values = direct_exprs(s)
        if any(map(has_side_effect, values)):
            regions = [r for r in regions if r.data in self._memory.private]
        for e in values:
            for load in distinct(e):
                if isinstance(load, BufferLoad):
                    regions = [r for r in regions if not self._may_read(load, r)]
        return regions

    def _may_read(self, load: BufferLoad, region: Region) -> bool:
        if load.buffer.data is not region.data:
            return False
        read = region_of(load.buffer, load.indices)
        return read is None or not self._prover.disjoint(read, region)
