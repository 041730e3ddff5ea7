"""CommonSubexprElimTIR: bind repeated computations to a variable and compute them once.

before:
    def main(A: Buffer((64,), float32), C: Buffer((64,), float32)):
        for i in range(8):
            for j in range(8):
                C[i * 8 + j] = A[i * 8 + j] + 1.0
after:
    def main(A: Buffer((64,), float32), C: Buffer((64,), float32)):
        for i in range(8):
            for j in range(8):
                cse_var_1: int32 = i * 8 + j
                C[cse_var_1] = A[cse_var_1] + 1.0

Only integer arithmetic is bound: no loads, calls, vectors, or divisions by a divisor that is not
a constant. A computation may therefore move in front of the condition that guarded it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.division import divides_by_variable
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Ramp,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, For, LetStmt, Stmt, let
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, map_children, map_expr_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_THREAD_KEYS = ("thread_extent", "virtual_thread")


@dataclass(frozen=True)
class CommonSubexprElimTIR(FunctionPass):
    """Bind every repeated computation where its variables become known.

    `enable=False` (or the configuration key tir.disable_cse_tir) changes nothing. At most `limit`
    variables are introduced, for the computations that occur most often, because each adds a let
    statement around the code that follows.
    """

    enable: bool = True
    limit: int = 100
    name: ClassVar[str] = "CommonSubexprElimTIR"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not self.enable or ctx.setting("tir.disable_cse_tir"):
            return func
        plan = _Plan()
        rest = plan.count(func.body)
        plan.place(func.body, rest, None)
        lets = plan.most_used(self.limit)
        return func.with_body(_Bind(lets).stmt(func.body)) if lets else func


def _is_eligible(e: Expr) -> bool:
    """True for scalar integer arithmetic worth a variable; `_is_movable` checks its operands."""
    if not e.dtype.is_index or isinstance(e, Var | IntImm | BufferLoad | Call | Cast | Let):
        return False
    return bool(e.children())


class _Plan:
    """Decides which computations to bind in front of which statements."""

    def __init__(self) -> None:
        self.lets: dict[Stmt, dict[Expr, int]] = {}  # the number of uses of each expression
        self.movable: dict[Expr, bool] = {}

    def _is_movable(self, e: Expr) -> bool:
        """True when nothing in `e` reads memory, calls, or divides by a variable."""
        known = self.movable.get(e)
        if known is None:
            known = not isinstance(e, BufferLoad | Call | Let | Ramp | Broadcast)
            known = known and not divides_by_variable(e)
            known = known and all(map(self._is_movable, e.children()))
            self.movable[e] = known
        return known

    def count(self, s: Stmt) -> Counter[Expr]:
        """Count the expressions in `s`, except those that are placed in a scope they depend on."""
        found = Counter(direct_exprs(s))
        variable = _bound_in(s)
        for child in child_stmts(s):
            inner = self.count(child)
            if variable is not None:
                inner = self.place(child, inner, variable)
            found.update(inner)
        return found

    def place(self, s: Stmt, roots: Counter[Expr], variable: Var | None) -> Counter[Expr]:
        """Plan the lets in front of `s`, in whose scope `variable` is defined.

        Returns the counts of the expressions that do not depend on `variable`. None stands for the
        whole function: there every expression is placed.
        """
        rest: Counter[Expr] = Counter()
        uses: Counter[Expr] = Counter()
        chosen: dict[Expr, int] = {}
        inside: dict[Expr, None] = {}
        for root in roots:
            self._collect(root, variable, inside)
        for root, times in roots.items():
            (uses if root in inside else rest)[root] += times
        for e in reversed(inside):  # parents before children
            times = uses[e]
            if times >= 2 and _is_eligible(e) and self._is_movable(e):
                chosen[e] = times
                times = 1
            for child in _operands(e):
                (uses if child in inside else rest)[child] += times
        if chosen:
            self.lets[s] = chosen
        return rest

    def most_used(self, limit: int) -> dict[Stmt, list[Expr]]:
        """The planned lets, operands before their users; at most `limit`, the most used ones."""
        ranked = sorted(
            ((s, e) for s, chosen in self.lets.items() for e in chosen),
            key=lambda place: -self.lets[place[0]][place[1]],
        )
        wanted = set(ranked[:limit])
        kept = {
            s: [e for e in reversed(chosen) if (s, e) in wanted] for s, chosen in self.lets.items()
        }
        return {s: chosen for s, chosen in kept.items() if chosen}

    def _collect(self, e: Expr, variable: Var | None, inside: dict[Expr, None]) -> None:
        """Add `e` and its operands that depend on `variable` to `inside`, operands first."""
        if e in inside or not e.children():
            return
        if variable is not None and variable not in free_vars(e):
            return
        for child in _operands(e):
            self._collect(child, variable, inside)
        inside[e] = None


def _operands(e: Expr) -> tuple[Expr, ...]:
    """The operands of `e` but for the body of a let, in which its variable is defined."""
    return (e.value,) if isinstance(e, Let) else e.children()


def _bound_in(s: Stmt) -> Var | None:
    """The variable that `s` defines for its body; None if it defines none."""
    if isinstance(s, For):
        return s.loop_var
    if isinstance(s, LetStmt):
        return s.var
    if isinstance(s, Allocate):
        return s.buffer_var
    if isinstance(s, AttrStmt) and s.key in _THREAD_KEYS:
        var: Var = s.node.var
        return var
    return None


class _Bind:
    """Rewrites a body with the planned lets."""

    def __init__(self, lets: dict[Stmt, list[Expr]]) -> None:
        self.lets = lets
        self.made = 0
        self.names: dict[Expr, Var] = {}  # the variables in scope
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        planned = self.lets.get(s)
        if planned is None:
            return map_children(s, self.stmt, self.expr)
        outer_names, outer_memo = self.names, self.memo
        self.names, self.memo = dict(outer_names), {}
        bound: list[tuple[Var, Expr]] = []
        for e in planned:
            self.made += 1
            var = Var(f"cse_var_{self.made}", e.dtype)
            bound.append((var, self.expr(e)))
            self.names[e] = var
            self.memo = {}
        result = map_children(s, self.stmt, self.expr)
        self.names, self.memo = outer_names, outer_memo
        return let(bound, result)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var | IntImm):
            return e
        done = self.memo.get(e)
        if done is None:
            done = self.names.get(e)
            if done is None:
                done = map_expr_children(e, self.expr)
            self.memo[e] = done
        return done
