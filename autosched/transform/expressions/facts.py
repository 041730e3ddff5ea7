"""Known ranges, values and conditions at a program point, for passes that simplify or prove.

Results are cached per expression. A condition invalidates the cache only for expressions that share
a variable with it, so most index expressions are simplified once per function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autosched.arith import Analyzer, ConstIntBound
from autosched.arith.const_int_bound import NEG_INF, POS_INF
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import LetStmt
from autosched.tir.walk import free_vars
from autosched.transform.expressions.effects import is_lasting

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
