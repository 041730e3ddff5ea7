"""LoopPartition: loops are cut where their boundary conditions begin or cease to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from autosched.tir.expr import Call, Expr, IntImm, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, all_, and_, max_, min_, sub
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    is_nop,
    nop,
    seq,
)
from autosched.tir.walk import (
    direct_exprs,
    map_children,
    map_expr_children,
    pre_order,
    stmts,
    substitute_stmt,
)
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.copy_stmt import copy_stmt
from autosched.transform.loops.loop_interval import (
    LoopConditions,
    Part,
    as_part,
    constant_span,
    likely_parts,
    loop_conditions,
)

HINT = "pragma_loop_partition_hint"


@dataclass(frozen=True)
class LoopPartition(FunctionPass):
    """Splits loops by their likely() conditions, and drops likely().

    before:
        def main(A: Buffer((10,), float32), B: Buffer((10,), float32)):
            for i in range(3):
                for j in range(4):
                    if likely(i * 4 + j < 10):
                        B[i * 4 + j] = A[i * 4 + j]
    after LoopPartition{partition_const_loops=True}:
        def main(A: Buffer((10,), float32), B: Buffer((10,), float32)):
            for i in range(2):
                for j in range(4):
                    B[i * 4 + j] = A[i * 4 + j]
            for j_1 in range(2):
                B[8 + j_1] = A[8 + j_1]

    A loop whose extent is not constant, or that has the pragma loop_partition_hint, becomes up to
    three: before, inside and after the interval where the conditions that depend on it hold.
    `partition_const_loops` does so for all loops but parallel ones; where the interval depends on
    variables outside, the loop gets a second version without the conditions, taken when they hold
    throughout. At most `max_growth` statements are added. Code with a cross-thread reduction
    inside is not partitioned.
    """

    name: ClassVar[str] = "LoopPartition"
    partition_const_loops: bool = False
    max_growth: int = 64

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        body = func.body
        if not _has_work(body):
            return func
        return func.with_body(_drop_likely(_Partitioner(self).stmt(body)))


def _has_work(body: Stmt) -> bool:
    """True when there is a likely() or a hint in `body`."""
    seen: set[Expr] = set()

    def in_expr(e: Expr) -> bool:
        if e in seen:
            return False
        seen.add(e)
        return (isinstance(e, Call) and e.op == "likely") or any(map(in_expr, e.children()))

    return any(
        (isinstance(s, AttrStmt) and s.key == HINT) or any(map(in_expr, direct_exprs(s)))
        for s in stmts(body)
    )


class _Partitioner:
    def __init__(self, options: LoopPartition) -> None:
        self._const_loops = options.partition_const_loops
        self._budget = options.max_growth
        self._env: dict[Var, tuple[int, int]] = {}
        self._known: set[Expr] = set()
        self._hinted: set[Var] = set()

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BufferStore() | Evaluate():
                return s
            case For():
                return self._loop(s)
            case IfThenElse():
                return self._if(s)
            case AttrStmt(key="pragma_loop_partition_hint"):
                if isinstance(s.node, IterVar | Var):
                    self._hinted.add(s.node.var if isinstance(s.node, IterVar) else s.node)
                return self.stmt(s.body)
            case AttrStmt(key="thread_extent") if isinstance(s.node, IterVar):
                return self._threads(s, s.node)
        return map_children(s, self.stmt)

    # -- conditions

    def _if(self, s: IfThenElse) -> Stmt:
        kept: list[Expr] = []
        for part, likely in likely_parts(s.condition):
            truth = self._truth(part) if likely else None
            if truth is False:
                return nop() if s.else_case is None else self.stmt(s.else_case)
            if truth is None:
                kept.append(Call(part.dtype, "likely", (part,)) if likely else part)
        if not kept:
            return self.stmt(s.then_case)
        then_case = self.stmt(s.then_case)
        if s.else_case is None:
            return then_case if is_nop(then_case) else IfThenElse(all_(*kept), then_case)
        return IfThenElse(all_(*kept), then_case, self.stmt(s.else_case))

    def _truth(self, condition: Expr) -> bool | None:
        if condition in self._known:
            return True
        if isinstance(condition, IntImm):
            return bool(condition.value)
        part = as_part(condition)
        bounds = None if part is None else part.bounds(self._env)
        if bounds is None or bounds[0] <= 0 < bounds[1]:
            return None
        return bounds[1] <= 0

    # -- loops

    def _loop(self, loop: For) -> Stmt:
        span = constant_span(loop)
        allowed = (
            span is None
            or loop.loop_var in self._hinted
            or (self._const_loops and loop.kind is not ForKind.PARALLEL)
        )
        if allowed and loop.kind is not ForKind.THREAD_BINDING and not _reduces_threads(loop):
            conditions = self._undecided(loop, span)
            if conditions.parts and self._afford(loop):
                if span is None:
                    return self._cut_symbolic(loop, conditions)
                low, high = conditions.constant_interval(span[0], span[1] + 1)
                if (low, high) != (span[0], span[1] + 1) and low < high:
                    return self._cut(loop, [span[0], low, high, span[1] + 1])
                symbolic = conditions.symbolic()
                if symbolic:
                    return self._two_versions(loop, symbolic, span)
        return self._inside(loop, span)

    def _undecided(self, loop: For, span: tuple[int, int] | None) -> LoopConditions:
        conditions = loop_conditions(loop.loop_var, loop.body)
        env = self._env if span is None else {**self._env, loop.loop_var: span}
        parts = []
        for part in conditions.parts:
            bounds = part.bounds(env)
            held = bounds is not None and bounds[1] <= 0
            if part.source not in self._known and not held:
                parts.append(part)
        return LoopConditions(loop.loop_var, parts)

    def _afford(self, s: Stmt) -> bool:
        size = sum(isinstance(x, BufferStore | Evaluate) for x in stmts(s))
        if size > self._budget:
            return False
        self._budget -= size
        return True

    def _inside(self, loop: For, span: tuple[int, int] | None) -> Stmt:
        if span is not None:
            self._env[loop.loop_var] = span
        body = self.stmt(loop.body)
        if body is loop.body or is_nop(body):
            return loop if body is loop.body else body
        return _loop_over(loop, loop.loop_var, loop.extent, body)

    def _cut(self, loop: For, edges: list[int]) -> Stmt:
        """The loop as one after the other over the ranges between `edges`."""
        dtype = loop.loop_var.dtype
        pieces: list[Stmt] = []
        for low, high in pairwise(edges):
            if low < high:
                base, extent = IntImm(low, dtype), IntImm(high - low, dtype)
                pieces.append(self.stmt(_piece(loop, base, extent, first=not pieces)))
        return seq(*pieces)

    def _cut_symbolic(self, loop: For, conditions: LoopConditions) -> Stmt:
        lows, highs = conditions.limits()
        begin, end = loop.min, add(loop.min, loop.extent)
        middle = begin
        for limit in lows:
            middle = max_(middle, limit)
        middle = min_(middle, end) if lows else middle
        last = end
        for limit in highs:
            last = min_(last, limit)
        last = max_(last, middle) if highs else last
        pieces: list[Stmt] = []
        for low, high, known in ((begin, middle, ()), (middle, last, conditions.parts)):
            if low is high:
                continue
            with self._assuming(known):
                # The conditions are recognised in the loop's own body, renamed only afterwards.
                body = self.stmt(loop.body)
            whole = _loop_over(loop, loop.loop_var, loop.extent, body)
            pieces.append(_piece(whole, low, sub(high, low), first=not pieces))
        if last is not end:
            whole = _loop_over(loop, loop.loop_var, loop.extent, self.stmt(loop.body))
            pieces.append(_piece(whole, last, sub(end, last), first=False))
        return seq(*pieces)

    def _two_versions(self, loop: For, parts: list[Part], span: tuple[int, int]) -> Stmt:
        """The loop without the conditions when they hold throughout, else as it is."""
        test: Expr | None = None
        for part in parts:
            whole = part.relaxed({loop.loop_var: span})
            condition = whole.expr(loop.loop_var.dtype)
            test = condition if test is None else and_(test, condition)
        assert test is not None
        with self._assuming(parts):
            plain = self._inside(loop, span)
        guarded = self._inside(loop, span)
        if is_nop(plain) and is_nop(guarded):
            return plain
        return IfThenElse(test, plain, copy_stmt(guarded, {}))

    @contextmanager
    def _assuming(self, parts: list[Part] | tuple[()]) -> Iterator[None]:
        added = {p.source for p in parts} - self._known
        self._known |= added
        yield
        self._known -= added

    def _threads(self, s: AttrStmt, thread: IterVar) -> Stmt:
        if isinstance(s.value, IntImm):
            self._env[thread.var] = (0, s.value.value - 1)
            return map_children(s, self.stmt)
        if not thread.thread_tag.startswith("blockIdx") or _reduces_threads(s):
            return map_children(s, self.stmt)
        conditions = loop_conditions(thread.var, s.body)
        if not conditions.parts or not self._afford(s):
            return map_children(s, self.stmt)
        test = all_(*(p.expr(thread.var.dtype) for p in conditions.parts))
        with self._assuming(conditions.parts):
            plain = self.stmt(s.body)
        guarded = copy_stmt(self.stmt(s.body), {})
        return AttrStmt(s.node, s.key, s.value, IfThenElse(test, plain, guarded))


def _loop_over(loop: For, var: Var, extent: Expr, body: Stmt, low: Expr | None = None) -> For:
    begin = loop.min if low is None else low
    return loop.with_(loop_var=var, min=begin, extent=extent, body=body)


def _piece(loop: For, low: Expr, extent: Expr, *, first: bool) -> Stmt:
    """The iterations [low, low + extent) of `loop`, counted from 0; a single one has no loop."""
    zero = IntImm(0, loop.loop_var.dtype)
    copy: Callable[[Stmt, dict[Var, Expr]], Stmt] = substitute_stmt if first else copy_stmt
    if isinstance(extent, IntImm) and extent.value == 1:
        return copy(loop.body, {loop.loop_var: low})
    var = loop.loop_var if first else Var(loop.loop_var.name, loop.loop_var.dtype)
    body = copy(loop.body, {loop.loop_var: add(var, low)})
    return _loop_over(loop, var, extent, body, zero)


def _reduces_threads(s: Stmt) -> bool:
    return any(
        isinstance(e, Call) and e.op == "tvm_thread_allreduce"
        for x in stmts(s)
        if isinstance(x, Evaluate)
        for e in pre_order(x.value)
    )


def _drop_likely(body: Stmt) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def expr(e: Expr) -> Expr:
        done = memo.get(e)
        if done is None:
            if isinstance(e, Call) and e.op == "likely":
                done = expr(e.args[0])
            else:
                done = map_expr_children(e, expr)
            memo[e] = done
        return done

    def stmt(s: Stmt) -> Stmt:
        return map_children(s, stmt, expr)

    return stmt(body)
