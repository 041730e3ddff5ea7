"""Known ranges, values and conditions at a program point, for passes that simplify or prove.

Results are cached per expression. A condition invalidates the cache only for expressions that share
a variable with it, so most index expressions are simplified once per function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autosched.arith import Analyzer, ConstIntBound
from autosched.arith.const_int_bound import NEG_INF, POS_INF
from autosched.arith.facts import conjuncts_of
from autosched.tir.expr import Expr, IntImm, IterVar, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, ge, lt, not_
from autosched.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt
from autosched.tir.walk import ExprFn, StmtFn, free_vars, map_children
from autosched.transform.expressions.effects import is_lasting

_THREAD_KEYS = ("thread_extent", "virtual_thread")
_T = TypeVar("_T")
_R = TypeVar("_R")


class _Scope:
    """The results for expressions that mention `variables`, while one condition holds."""

    __slots__ = ("memo", "variables")

    def __init__(self, variables: frozenset[Var]) -> None:
        self.variables = variables
        self.memo: dict[Expr, Expr] = {}


class Facts:
    """An analyzer and a cache of results that is always consistent with it."""

    def __init__(self, func: PrimFunc, as_ansor: bool = False) -> None:
        self.analyzer = Analyzer(as_ansor)
        self._memo: dict[Expr, Expr] = {}
        self._scopes: list[_Scope] = []  # one per condition that holds, innermost last
        self._ranges: dict[Var, tuple[Expr, Expr]] = {}
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                for var in free_vars(extent):
                    self.analyzer.mark_non_negative(var)

    def memo(self, e: Expr) -> dict[Expr, Expr]:
        """The cache to which the result for `e` belongs at this point."""
        if self._scopes:
            variables = free_vars(e)
            for scope in reversed(self._scopes):
                if not variables.isdisjoint(scope.variables):
                    return scope.memo
        return self._memo

    def bind(self, var: Var, low: Expr, extent: Expr) -> None:
        """Bind `var` to the range [low, low + extent) from here on."""
        known = self._ranges.get(var)
        if known is not None:
            # Equal bounds that are not numbers may have different values at different points.
            numbers = isinstance(low, IntImm) and isinstance(extent, IntImm)
            if numbers and known[0] is low and known[1] is extent:
                return
            self._forget()
        self._ranges[var] = (low, extent)
        self.analyzer.bind(var, Range(low, extent), override=True)

    def define(self, var: Var, value: Expr | None) -> None:
        """Bind `var` to `value` from here on, or with None to what may be anything."""
        known = var in self._ranges
        if known:
            self._forget()
        self._ranges[var] = (var, var) if value is None else (value, value)
        if value is not None:
            self.analyzer.bind(var, value, override=True)
        elif known:
            self.analyzer.update_bound(var, ConstIntBound(NEG_INF, POS_INF))

    def enter(self, s: LetStmt) -> None:
        """Bind the variable of a let: to its value if that is an integer that lasts."""
        lasts = s.value.dtype.is_int and is_lasting(s.value)
        self.define(s.var, s.value if lasts else None)

    def _forget(self) -> None:
        """Clear the caches, because a variable has been bound again."""
        self._memo.clear()
        for scope in self._scopes:
            scope.memo.clear()

    def under(self, conditions: tuple[Expr, ...], fn: Callable[[_T], _R], argument: _T) -> _R:
        """Call `fn(argument)` where the conditions are known to hold; they must not read memory."""
        if not conditions:
            return fn(argument)
        first, *rest = conditions
        self._scopes.append(_Scope(free_vars(first)))
        try:
            with self.analyzer.constraint(first):
                return self.under(tuple(rest), fn, argument)
        finally:
            self._scopes.pop()

    def failing(self, condition: Expr) -> tuple[Expr, ...]:
        """The facts known where `condition` does not hold."""
        parts = tuple(conjuncts_of(condition))
        if len(parts) > 1 or not _is_fact(parts[0]):
            return ()
        return (self.analyzer.rewrite_simplify(not_(parts[0])),)

    def map_children(self, s: Stmt, stmt_fn: StmtFn, expr_fn: ExprFn) -> Stmt:
        """`s` with the functions applied to its direct parts, where the facts that it gives hold.

        These are the ranges of loops and threads, the values of lets, and the conditions of `if`s.
        """
        match s:
            case For():
                self.bind(s.loop_var, s.min, s.extent)
                if not (isinstance(s.min, IntImm) and isinstance(s.extent, IntImm)):
                    within = (ge(s.loop_var, s.min), lt(s.loop_var, add(s.min, s.extent)))
                    return self.under(within, lambda loop: map_children(loop, stmt_fn, expr_fn), s)
            case AttrStmt(IterVar() as iv) if s.key in _THREAD_KEYS:
                self.bind(iv.var, const(0, iv.var.dtype), s.value)
            case LetStmt():
                self.enter(s)
            case IfThenElse():
                return self._branches(s, stmt_fn, expr_fn)
        return map_children(s, stmt_fn, expr_fn)

    def _branches(self, s: IfThenElse, stmt_fn: StmtFn, expr_fn: ExprFn) -> Stmt:
        condition = expr_fn(s.condition)
        then_case = self.under(holding(s.condition), stmt_fn, s.then_case)
        else_case = s.else_case
        if else_case is not None:
            else_case = self.under(self.failing(s.condition), stmt_fn, else_case)
        return s.with_(condition=condition, then_case=then_case, else_case=else_case)


def holding(condition: Expr) -> tuple[Expr, ...]:
    """The facts known where `condition` holds."""
    return tuple(filter(_is_fact, conjuncts_of(condition)))


def _is_fact(condition: Expr) -> bool:
    return condition.dtype.lanes == 1 and is_lasting(condition)
