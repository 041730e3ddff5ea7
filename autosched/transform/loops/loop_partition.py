"""LoopPartition: loops are cut where their boundary conditions begin or cease to hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from autosched.tir.constants import is_one
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import Call, Expr, IntImm, IterVar, Select, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, all_, lt, sub
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    is_nop,
    nop,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import (
    ExprFn,
    distinct,
    map_children,
    map_expr_children,
    stmts,
)
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.known_conditions import (
    VALUES,
    KnownConditions,
    drop_likely,
    work_in,
)
from autosched.transform.loops.last_block import (
    only_failing,
    statement_conditions,
    with_value,
)
from autosched.transform.loops.loop_interval import (
    Condition,
    LoopConditions,
    Part,
    constant_span,
    loop_conditions,
)
from autosched.transform.loops.symbolic_spans import symbolic_spans


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
    three loops: before, inside and after the interval where the conditions that depend on it hold.
    `partition_const_loops` does so for all loops. A parallel loop of constant extent without the
    pragma is not cut; if only its last iteration has conditions, that iteration gets a body of its
    own. Where the interval depends on outer variables, the loop gets a second version without the
    conditions, which runs when they hold throughout. If conditions of statements fail for one value
    of a digit of an outer variable alone (`f % 4`), the version with the conditions has that
    constant. Each piece is treated as a loop of its own: where no iteration satisfies all
    conditions, it is cut where the first condition begins to hold or is sure to fail. Conditions
    are comparisons, equalities and their negations. Those that choose between values (in Select and
    if_then_else) count like those of statements, and under the pragma no likely() is needed.

    before:
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            for i in range(16):
                B[i] = Select(likely(i == 0), 0.0, A[max(i - 1, 0)])
    after LoopPartition{partition_const_loops=True}, Simplify:
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            B[0] = 0.0
            for i in range(15):
                B[i + 1] = A[i]

    In a loop of symbolic length, the piece after the interval is cut again when several conditions
    have an upper limit. At most `max_growth` statements are added. Vectorized loops are cut into at
    most three. Code with a cross-thread reduction inside is not partitioned. A piece of a single
    iteration loses the double_buffer_scope marks that are not within inner loops.
    """

    name: ClassVar[str] = "LoopPartition"
    partition_const_loops: bool = False
    max_growth: int = 256

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        body = func.body
        work = work_in(body)
        if not work:
            return func
        partitioner = _Partitioner(self, in_values=VALUES in work)
        return func.with_body(drop_likely(partitioner.stmt(body)))


class _Partitioner:
    def __init__(self, options: LoopPartition, in_values: bool) -> None:
        self._const_loops = options.partition_const_loops
        self._budget = options.max_growth
        self._in_values = in_values
        self._known = KnownConditions(in_values)
        self._hinted: set[Var] = set()

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BufferStore() | Evaluate():
                return map_children(s, self.stmt, self._value) if self._in_values else s
            case For():
                return self._loop(s)
            case IfThenElse():
                return self._if(s)
            case LetStmt():
                self._known.env.pop(s.var, None)  # the range in an earlier loop
            case AttrStmt(key="pragma_loop_partition_hint"):
                if isinstance(s.node, IterVar | Var):
                    self._hinted.add(s.node.var if isinstance(s.node, IterVar) else s.node)
                return self.stmt(s.body)
            case AttrStmt(key="thread_extent") if isinstance(s.node, IterVar):
                return self._threads(s, s.node)
        return map_children(s, self.stmt, self._value)

    # -- conditions

    def _if(self, s: IfThenElse) -> Stmt:
        condition = self._known.left_of(s.condition)
        if condition is False:
            return nop() if s.else_case is None else self.stmt(s.else_case)
        if condition is True:
            return self.stmt(s.then_case)
        then_case = self.stmt(s.then_case)
        if s.else_case is None:
            return then_case if is_nop(then_case) else IfThenElse(condition, then_case)
        return IfThenElse(condition, then_case, self.stmt(s.else_case))

    def _value(self, e: Expr) -> Expr:
        """`e` with each decided Select and if_then_else replaced by the value that it chooses."""
        return self._chosen(e, {}) if self._in_values else e

    def _chosen(self, e: Expr, known: dict[Expr, Expr]) -> Expr:
        done = known.get(e)
        if done is None:
            done = known[e] = self._choose(e, lambda part: self._chosen(part, known))
        return done

    def _choose(self, e: Expr, chosen: ExprFn) -> Expr:
        match e:
            case Select(whole, a, b) | Call("if_then_else", (whole, a, b)):
                condition = self._known.left_of(whole)
                if isinstance(condition, bool):
                    return chosen(a if condition else b)
                if condition is not whole:
                    return e.with_children((condition, chosen(a), chosen(b)))
        return map_expr_children(e, chosen)

    # -- loops

    def _loop(self, loop: For) -> Stmt:
        hinted = loop.loop_var in self._hinted
        if hinted and not self._known.every:
            self._known.every = True
            try:
                return self._loop(loop)
            finally:
                self._known.every = False
        self._known.env.pop(loop.loop_var, None)  # the range in an earlier loop
        span = constant_span(loop)
        allowed = span is None or hinted or self._const_loops
        if (
            allowed
            and loop.loop_var in self._known.asked_in(loop.body)
            and loop.kind is not ForKind.THREAD_BINDING
            and not _reduces_threads(loop)
        ):
            conditions = self._known.undecided(loop, span)
            if conditions.conditions and self._afford(loop):
                done = self._cut_constant(loop, conditions, span) if span else None
                if span is None:
                    done = self._cut_symbolic(loop, conditions)
                if done is not None:
                    return done
        return self._inside(loop, span)

    def _cut_constant(
        self, loop: For, conditions: LoopConditions, span: tuple[int, int]
    ) -> Stmt | None:
        first, end = span[0], span[1] + 1
        low, high = conditions.constant_interval(first, end)
        if loop.kind is ForKind.PARALLEL and loop.loop_var not in self._hinted:
            whole = low == first and first < high == end - 1
            return self._without_last(loop, span) if whole else None
        if (low, high) != (first, end) and low < high:
            return self._cut(loop, [first, low, high, end])
        symbolic = conditions.symbolic()
        if loop.kind is not ForKind.VECTORIZED:
            found = conditions.deciding_interval(first, end)
            if found is not None:
                return self._cut(loop, [first, *found, end])
        return self._two_versions(loop, symbolic, span) if symbolic else None

    def _afford(self, s: Stmt, copies: int = 1) -> bool:
        size = copies * sum(isinstance(x, BufferStore | Evaluate) for x in stmts(s))
        if size > self._budget:
            return False
        self._budget -= size
        return True

    def _inside(self, loop: For, span: tuple[int, int] | None) -> Stmt:
        if span is not None:
            self._known.env[loop.loop_var] = span
        body = self.stmt(loop.body)
        if body is loop.body or is_nop(body):
            return loop if body is loop.body else body
        return _loop_over(loop, loop.loop_var, loop.extent, body)

    def _cut(self, loop: For, edges: list[int]) -> Stmt:
        """The loop split into consecutive loops over the ranges between `edges`."""
        dtype = loop.loop_var.dtype
        pieces: list[Stmt] = []
        for low, high in pairwise(edges):
            if low < high:
                base, extent = IntImm(low, dtype), IntImm(high - low, dtype)
                pieces.append(self.stmt(_piece(loop, base, extent, first=not pieces)))
        return seq(*pieces)

    def _without_last(self, loop: For, span: tuple[int, int]) -> Stmt:
        """Keep a parallel loop whole and give its last iteration a body for that constant."""
        var, (first, last) = loop.loop_var, span
        self._known.env[var] = (first, last - 1)
        body = self.stmt(loop.body)
        del self._known.env[var]
        number = IntImm(last, var.dtype)
        rest = self.stmt(copy_stmt(loop.body, {var: number}))
        return _loop_over(loop, var, loop.extent, IfThenElse(lt(var, number), body, rest))

    def _cut_symbolic(self, loop: For, found: LoopConditions) -> Stmt:
        lets = {e: _held(loop, e) for e in (loop.min, loop.extent) if not is_lasting(e)}
        low, extent = lets.get(loop.min, loop.min), lets.get(loop.extent, loop.extent)
        cut: Stmt = self._cut_spans(_loop_over(loop, loop.loop_var, extent, loop.body, low), found)
        for value, var in lets.items():
            cut = LetStmt(var, value, cut)
        return cut

    def _cut_spans(self, loop: For, found: LoopConditions) -> Stmt:
        begin, end = loop.min, add(loop.min, loop.extent)
        # Inequalities (`!=`) are cut only when no other condition is left to cut.
        conditions = [c for c in found.conditions if not c.negated] or found.conditions[:1]
        spans = symbolic_spans(loop.loop_var, begin, end, conditions, nested=True)
        if len(spans) > 3 and not self._afford(loop, len(spans) - 3):
            spans = symbolic_spans(loop.loop_var, begin, end, conditions, nested=False)
        pieces: list[Stmt] = []
        for s in spans:
            not_throughout = [c.parts[0] for c in s.not_throughout if c.one_sided]
            with self._known.assuming(s.holds, s.fails, not_throughout):
                # The conditions are recognised in the loop's own body, renamed only afterwards.
                body = self.stmt(loop.body)
            if not is_nop(body):
                whole = _loop_over(loop, loop.loop_var, loop.extent, body)
                pieces.append(_piece(whole, s.low, sub(s.high, s.low), first=not pieces))
        return seq(*pieces)

    def _two_versions(self, loop: For, parts: list[Part], span: tuple[int, int]) -> Stmt:
        """Choose at run time between the loop without the conditions and the loop as it is."""
        wholes = [part.relaxed({loop.loop_var: span}) for part in parts]
        if any(whole.says_as(part) for whole in wholes for part in self._known.not_throughout):
            return self._inside(loop, span)
        test = all_(*(whole.expr(loop.loop_var.dtype) for whole in wholes))
        with self._known.assuming([Condition(p.source, (p,)) for p in parts]):
            plain = self._inside(loop, span)
        of_values = {p.source for p in parts} - set(statement_conditions(loop))
        last = None if of_values else only_failing(wholes, self._known.env)
        guarded = self._inside(loop, span) if last is None else self.stmt(with_value(loop, *last))
        if is_nop(plain) and is_nop(guarded):
            return plain
        return IfThenElse(test, plain, copy_stmt(guarded, {}))

    def _threads(self, s: AttrStmt, thread: IterVar) -> Stmt:
        if isinstance(s.value, IntImm):
            self._known.env[thread.var] = (0, s.value.value - 1)
            return map_children(s, self.stmt)
        self._known.env.pop(thread.var, None)
        if not thread.thread_tag.startswith("blockIdx") or _reduces_threads(s):
            return map_children(s, self.stmt)
        found = loop_conditions(thread.var, s.body, in_values=self._in_values)
        conditions = [c for c in found.conditions if c.one_sided]
        if not conditions or not self._afford(s):
            return map_children(s, self.stmt)
        test = all_(*(c.parts[0].expr(thread.var.dtype) for c in conditions))
        with self._known.assuming(conditions):
            plain = self.stmt(s.body)
        guarded = copy_stmt(self.stmt(s.body), {})
        return AttrStmt(s.node, s.key, s.value, IfThenElse(test, plain, guarded))


def _loop_over(loop: For, var: Var, extent: Expr, body: Stmt, low: Expr | None = None) -> For:
    begin = loop.min if low is None else low
    return loop.with_(loop_var=var, min=begin, extent=extent, body=body)


def _held(loop: For, bound: Expr) -> Var:
    """A variable for a bound of `loop` that reads memory, which iterations may change."""
    return Var(f"{loop.loop_var.name}.{'min' if bound is loop.min else 'extent'}", bound.dtype)


def _piece(loop: For, low: Expr, extent: Expr, *, first: bool) -> Stmt:
    """Iterations [low, low + extent) of `loop` as a loop from 0; a single iteration has no loop."""
    zero = IntImm(0, loop.loop_var.dtype)
    copy: Callable[[Stmt, dict[Var, Expr]], Stmt] = substitute_stmt if first else copy_stmt
    if is_one(extent):
        return copy(_filled_once(loop.body), {loop.loop_var: low})
    var = loop.loop_var if first else Var(loop.loop_var.name, loop.loop_var.dtype)
    body = copy(loop.body, {loop.loop_var: add(var, low)})
    return _loop_over(loop, var, extent, body, zero)


def _filled_once(body: Stmt) -> Stmt:
    """`body` without double_buffer_scope marks outside inner loops: it runs only once."""

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, For):
            return s
        if isinstance(s, AttrStmt) and s.key == "double_buffer_scope":
            return stmt(s.body)
        return map_children(s, stmt)

    return stmt(body)


def _reduces_threads(s: Stmt) -> bool:
    return any(
        isinstance(e, Call) and e.op == "tvm_thread_allreduce"
        for x in stmts(s)
        if isinstance(x, Evaluate)
        for e in distinct(x.value)
    )
