"""Many copies of one expression with other values of some variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autosched.tir.expr import Expr, Var
from autosched.tir.walk import free_vars, map_expr_children


class RepeatedSubstitution:
    """`substitute` for many tables, each of all the `variables`: copies of one expression.

    What a sub-expression becomes is worked out once for all copies that agree in those of the
    variables that it mentions. In a tile of 8 x 4 copies of A[i, k] * B[k, j] each row of A is
    rewritten once, not 4 times.
    """

    def __init__(self, variables: Iterable[Var]) -> None:
        self._variables = tuple(variables)
        self._mentioned: dict[Expr, tuple[Var, ...]] = {}
        self._made: dict[tuple[Expr, ...], Expr] = {}
        self._table: Mapping[Var, Expr] = {}

    def __call__(self, expr: Expr, table: Mapping[Var, Expr]) -> Expr:
        """`expr` with the variables replaced by `table`."""
        self._table = table
        return self._copy(expr)

    def _copy(self, e: Expr) -> Expr:
        own = self._mentioned.get(e)
        if own is None:
            known = free_vars(e)
            own = self._mentioned[e] = tuple([v for v in self._variables if v in known])
        if not own:
            return e
        table = self._table
        if isinstance(e, Var):
            return table[e]
        key = (e, *[table[v] for v in own])
        done = self._made.get(key)
        if done is None:
            done = self._made[key] = map_expr_children(e, self._copy)
        return done
