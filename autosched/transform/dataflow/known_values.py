"""Removal of redundant stores and of decided conditions, from the values known to be in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Expr,
    IntImm,
    IterVar,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.lanes import scalar_of
from autosched.tir.loops import trip_count
from autosched.tir.op import not_
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
from autosched.tir.walk import direct_exprs, free_vars, rewrite_expr
from autosched.transform.dataflow.memory import Touched, memory_of, touched
from autosched.transform.dataflow.regions import Prover, Region, over_loop, region_of
from autosched.transform.expressions.effects import has_side_effect, is_lasting


def use_known_values(func: PrimFunc) -> PrimFunc:
    """Remove stores of values that are there already, and fold conditions that are decided.

    before: `A[0] = 1.0; if A[0] < 2.0: B[0] = 3.0; A[0] = 1.0`; after: `A[0] = 1.0; B[0] = 3.0`.
    The value of an element is known from the last store to it until a store that may overwrite it,
    or that may change memory from which the value was computed. After a loop, the value is known
    for the box of all iterations if it is the same in all of them.
    """
    body, _ = _KnownValues(func).stmt(func.body, [])
    return func.with_body(body)


@dataclass(frozen=True, slots=True, eq=False)
class _Fact:
    """Every element of `region` equals `value`, which was computed from the memory `reads`."""

    region: Region
    value: Expr
    reads: frozenset[Var]

    def mentions(self, var: Var) -> bool:
        return var in free_vars(self.value) or self.region.mentions((var,))


_Facts = list[_Fact]


class _KnownValues:
    """Walks forwards with the facts known at each statement."""

    def __init__(self, func: PrimFunc) -> None:
        self._memory = memory_of(func)
        self._prover = Prover()

    def stmt(self, s: Stmt, known: _Facts) -> tuple[Stmt, _Facts]:
        """`s` simplified, and the facts known after it."""
        known = self._after_values(s, known)
        match s:
            case BufferStore():
                return self._store(s, known)
            case SeqStmt():
                parts: list[Stmt] = []
                for part in s.stmts:
                    new, known = self.stmt(part, known)
                    parts.append(new)
                same = all(a is b for a, b in zip(parts, s.stmts, strict=True))
                return (s if same else seq(*parts)), known
            case Evaluate():
                return s, known
            case For():
                return self._loop(s, known)
            case IfThenElse():
                return self._if(s, known)
            case While():
                inside = self._kept(s, known)
                body, _ = self.stmt(s.body, inside)
                return s.with_(body=body), inside
            case LetStmt(var):
                return self._around(s, known, var)
            case Allocate():
                body, after = self.stmt(s.body, known)
                return s.with_(body=body), [f for f in after if not _concerns(f, s.buffer_var)]
            case AttrStmt():
                return self._around(s, known, s.node.var if isinstance(s.node, IterVar) else None)
            case DeclBuffer() | AllocateConst() | AssertStmt():
                return self._around(s, known, None)
        return s, []

    def _around(
        self,
        s: LetStmt | AttrStmt | DeclBuffer | AllocateConst | AssertStmt,
        known: _Facts,
        var: Var | None,
    ) -> tuple[Stmt, _Facts]:
        body, after = self.stmt(s.body, known)
        return s.with_(body=body), after if var is None else _without(after, var)

    def _after_values(self, s: Stmt, known: _Facts) -> _Facts:
        """The facts that still hold once the direct expressions of `s` are evaluated."""
        if not known or not any(map(has_side_effect, direct_exprs(s))):
            return known
        private = self._memory.private
        return [f for f in known if f.region.data in private and f.reads <= private]

    # -- statements

    def _store(self, s: BufferStore, known: _Facts) -> tuple[Stmt, _Facts]:
        region = region_of(s.buffer, s.indices)
        value = self._worked_out(scalar_of(s.value), known)
        if region is not None and (
            self._holds(region, value, known) or self._is_own(region, s.value)
        ):
            if not any(map(has_side_effect, direct_exprs(s))):
                return nop(), known
        left = [f for f in known if not self._changes(s, region, f)]
        if region is not None and s.predicate is None and self._may_be_kept(region, value):
            reads = frozenset(load.buffer.data for load in loads_in(value))
            left.append(_Fact(region, value, reads))
        return s, left

    def _may_be_kept(self, region: Region, value: Expr) -> bool:
        """Whether "every element of `region` is `value`" may be kept as a fact.

        `value` must have the same value whenever its variables do.
        """
        if region.data not in self._memory.followed or has_side_effect(value):
            return False
        if value.dtype.lanes > 1:
            return False
        loads = list(loads_in(value))
        if not loads:
            return is_lasting(value)
        # A repeated read must give the same value: a plain load from memory that is followed.
        return value is loads[0] and all(
            e.buffer.data in self._memory.followed and region_of(e.buffer, e.indices) is not None
            for e in loads
        )

    def _holds(self, region: Region, value: Expr, known: _Facts) -> bool:
        return any(f.value is value and self._prover.contains(f.region, region) for f in known)

    def _is_own(self, region: Region, value: Expr) -> bool:
        """True if `value` loads exactly the elements of `region`, under the current conditions."""
        if not isinstance(value, BufferLoad) or value.predicate is not None:
            return False
        read = region_of(value.buffer, value.indices)
        if read is None:
            return False
        return self._prover.contains(read, region) and self._prover.contains(region, read)

    def _changes(self, store: BufferStore, region: Region | None, fact: _Fact) -> bool:
        if store.buffer.data in fact.reads:
            return True
        if store.buffer.data is not fact.region.data:
            return False
        return region is None or not self._prover.disjoint(region, fact.region)

    def _if(self, s: IfThenElse, known: _Facts) -> tuple[Stmt, _Facts]:
        if not has_side_effect(s.condition):
            condition = self._worked_out(s.condition, known)
            if condition is not s.condition:
                condition = self._prover.analyzer.simplify(condition)
            if isinstance(condition, IntImm):
                taken = s.then_case if condition.value else s.else_case
                return (nop(), known) if taken is None else self.stmt(taken, known)
        with self._prover.under(s.condition):
            then_case, after = self.stmt(s.then_case, known)
        else_case, other = None, known
        if s.else_case is not None:
            with self._prover.under(not_(s.condition)):
                else_case, other = self.stmt(s.else_case, known)
        both = [f for f in after if self._holds(f.region, f.value, other)]
        return s.with_(then_case=then_case, else_case=else_case), both

    def _loop(self, s: For, known: _Facts) -> tuple[Stmt, _Facts]:
        inside = self._kept(s.body, known)
        with self._prover.inside(s):
            body, last = self.stmt(s.body, inside)
        whole = touched(s.body)
        after = list(inside)
        written = {store.buffer.data for store in whole.stores}
        for fact in last:
            if any(fact is f for f in inside):
                continue
            if not fact.mentions(s.loop_var):
                if trip_count(s):
                    after.append(fact)
                continue
            if (
                s.loop_var in free_vars(fact.value)
                or not _writes_only(whole, fact)
                or not fact.reads.isdisjoint(written)
                or whole.is_opaque
            ):
                continue
            region = over_loop(fact.region, s.loop_var, s.min, s.extent)
            if region is not None:
                after.append(_Fact(region, fact.value, fact.reads))
        return s.with_(body=body), after

    def _kept(self, repeated: Stmt, known: _Facts) -> _Facts:
        """The facts of `known` that stay true however often `repeated` is executed."""
        if not known:
            return known
        whole = touched(repeated)
        written = {store.buffer.data for store in whole.stores}
        private = self._memory.private
        return [
            f
            for f in known
            if _writes_only(whole, f)
            and f.reads.isdisjoint(written)
            and not (whole.is_opaque and not (f.region.data in private and f.reads <= private))
        ]

    # -- values

    def _worked_out(self, e: Expr, known: _Facts) -> Expr:
        """Replace the loads in `e` whose value is known by that value."""
        if not known:
            return e

        def value(node: Expr) -> Expr | None:
            if not isinstance(node, BufferLoad) or node.predicate is not None:
                return None
            region = region_of(node.buffer, node.indices)
            if region is None:
                return None
            for fact in known:
                if self._prover.contains(fact.region, region) and is_lasting(fact.value):
                    lanes = node.dtype.lanes
                    return fact.value if lanes == 1 else Broadcast(fact.value, lanes)
            return None

        return rewrite_expr(e, value)


def _without(known: Sequence[_Fact], var: Var) -> _Facts:
    return [f for f in known if not f.mentions(var)]


def _writes_only(whole: Touched, fact: _Fact) -> bool:
    """True if every store to the memory of `fact` stores the value of the fact."""
    return all(
        scalar_of(store.value) is fact.value
        for store in whole.stores
        if store.buffer.data is fact.region.data
    )


def _concerns(fact: _Fact, data: Var) -> bool:
    return fact.region.data is data or data in fact.reads
