"""What is known at a place in a function, for passes that simplify or prove as they walk.

Results are kept per expression. A condition voids them only for expressions that share a variable
with it, so most index expressions are worked out once per function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autosched.arith import Analyzer
from autosched.tir.expr import Expr, IntImm, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.walk import free_vars

_T = TypeVar("_T")
_R = TypeVar("_R")


class _Scope:
    """What is worked out so far of the expressions that mention `variables`."""

    __slots__ = ("memo", "variables")

    def __init__(self, variables: frozenset[Var]) -> None:
        self.variables = variables
        self.memo: dict[Expr, Expr] = {}


class Facts:
    """An analyzer and a table of results that always agree."""

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
        """The table in which the result for `e` at this place belongs."""
        if self._scopes:
            variables = free_vars(e)
            for scope in reversed(self._scopes):
                if not variables.isdisjoint(scope.variables):
                    return scope.memo
        return self._memo

    def bind(self, var: Var, low: Expr, extent: Expr) -> None:
        """`var` is in [low, low + extent) from here on."""
        known = self._ranges.get(var)
        if known is not None:
            # Where bounds are no numbers, those that follow may differ from place to place.
            numbers = isinstance(low, IntImm) and isinstance(extent, IntImm)
            if numbers and known[0] is low and known[1] is extent:
                return
            self._forget()
        self._ranges[var] = (low, extent)
        self.analyzer.bind(var, Range(low, extent), override=True)

    def define(self, var: Var, value: Expr) -> None:
        """`var` is `value` from here on."""
        if var in self._ranges:
            self._forget()
        self._ranges[var] = (value, value)
        self.analyzer.bind(var, value, override=True)

    def _forget(self) -> None:
        """A variable means something else now: what was worked out is void."""
        self._memo.clear()
        for scope in self._scopes:
            scope.memo.clear()

    def under(self, conditions: tuple[Expr, ...], fn: Callable[[_T], _R], argument: _T) -> _R:
        """`fn(argument)` where the conditions hold (they must read no memory)."""
        if not conditions:
            return fn(argument)
        first, *rest = conditions
        self._scopes.append(_Scope(free_vars(first)))
        try:
            with self.analyzer.constraint(first):
                return self.under(tuple(rest), fn, argument)
        finally:
            self._scopes.pop()
