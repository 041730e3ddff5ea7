"""Substitutes variables in one expression many times, sharing work between the copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autosched.tir.conversion import folded, wrapped
from autosched.tir.data import is_data
from autosched.tir.dtype import DType
from autosched.tir.expr import Add, Expr, Mul, Sub, Var
from autosched.tir.linear import linear
from autosched.tir.op import add, cast, const, mul, sub
from autosched.tir.walk import free_vars, map_expr_children

_SUMS = frozenset((Add, Sub, Mul))


class RepeatedSubstitution:
    """`substitute` for many tables, each of which replaces all of `variables`.

    A sub-expression is rewritten once for all tables that agree on the variables that it mentions.
    In a tile of 8 x 4 copies of A[i, k] * B[k, j] each row of A is rewritten once, not 4 times.
    Sums of indices are built in canonical order, by decreasing factors and the constant after
    them, so that simplification has little to do: i * 64 + k with i = 2 becomes k + 128.
    """

    def __init__(self, variables: Iterable[Var]) -> None:
        self._variables = tuple(variables)
        self._mentioned: dict[Expr, tuple[Var, ...]] = {}
        self._made: dict[tuple[Expr, ...], Expr] = {}
        self._linear: dict[Expr, tuple[int, dict[Expr, int]]] = {}
        self._parts: dict[tuple[object, ...], tuple[Expr, list[Expr]]] = {}
        self._table: Mapping[Var, Expr] = {}

    def __call__(self, expr: Expr, table: Mapping[Var, Expr]) -> Expr:
        """`expr` with the variables replaced by their values in `table`."""
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
            if e.__class__ in _SUMS and e.dtype.is_index and not is_data(e):
                done = self._sum(e)
            else:
                done = map_expr_children(e, self._copy)
            self._made[key] = done
        return done

    def _sum(self, e: Expr) -> Expr:
        constant, terms = self._as_linear(e)
        if e in terms:  # a product of variables is a single term
            return map_expr_children(e, self._copy)
        new: dict[Expr, int] = {}
        for term, factor in terms.items():
            base, inner = self._as_linear(self._copy(term))
            constant += factor * base
            for atom, times in inner.items():
                new[atom] = new.get(atom, 0) + factor * times
        dtype = e.dtype
        key = (dtype, *new.items())
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = _parts(new, dtype)
        total, taken_off = parts
        constant = wrapped(constant, dtype)
        if constant > 0:
            total = add(total, const(constant, dtype))
        for part in taken_off:
            total = sub(total, part)
        return sub(total, folded(-constant, dtype)) if constant < 0 else total

    def _as_linear(self, e: Expr) -> tuple[int, dict[Expr, int]]:
        found = self._linear.get(e)
        if found is None:
            found = self._linear[e] = linear(e)
        return found


def _parts(terms: Mapping[Expr, int], dtype: DType) -> tuple[Expr, list[Expr]]:
    """The sum of the positive terms, and the parts to subtract for the negative ones.

    Both are ordered by decreasing factors. Together they are `sum_of` without its constant, which
    is added in between, so that they are built once for all constants.
    """
    falling = sorted(terms.items(), key=lambda entry: -entry[1])
    total: Expr = const(0, dtype)
    taken_off: list[Expr] = []
    for atom, factor in falling:
        part = mul(cast(dtype, atom), folded(abs(factor), dtype))
        if factor > 0:
            total = add(total, part)
        elif factor < 0:
            taken_off.append(part)
    return total, taken_off
