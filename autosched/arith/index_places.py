"""Decomposes the first index of each dimension of a region into parts that depend on one loop.

With loops i and j it is a sum of parts, as `i * 8 + j % 4`, or a quotient of such a sum, as
`(i * 5 + j) // 3`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autosched.arith import exact
from autosched.arith.analyzer import Analyzer
from autosched.arith.sum_form import NO_UPPER, Term, emit, merge_terms
from autosched.tir.data import is_data
from autosched.tir.expr import EQ, GE, GT, LE, LT, Add, Expr, IntImm, Mul, Sub, Var
from autosched.tir.op import const, eq, floordiv, floormod, ge, mul
from autosched.tir.walk import free_vars


class UnknownBoxError(Exception):
    """Raised when the accessed box is unknown.

    Fixing the loops in `variables` to one value may make it known.
    """

    def __init__(self, variables: Iterable[Var] = ()) -> None:
        self.variables = frozenset(variables)


@dataclass(slots=True)
class Part:
    """The part factor * ((atom % upper) // lower) of a sum, where `atom` is a variable."""

    atom: Expr
    lower: int
    upper: int
    factor: Expr


@dataclass(slots=True)
class Quotient:
    """The function x -> scale * ((x % upper) // lower) + rest of a sum x of parts."""

    lower: int
    upper: int
    scale: int
    rest: Expr

    def of_all(
        self, analyzer: Analyzer, low: Expr, high: Expr, extent: Expr
    ) -> tuple[Expr, Expr] | None:
        """The first and last index covered when x takes all values in [low, high].

        Each result covers `extent` consecutive indices. None when there may be gaps in between.
        """
        one, zero = const(1, low.dtype), const(0, low.dtype)
        if self.upper != NO_UPPER:
            top = const(self.upper, low.dtype)
            if analyzer.can_prove(ge(exact.sub(high, low), exact.sub(top, one))):
                low, high = zero, exact.sub(top, one)
            elif analyzer.can_prove(eq(floordiv(low, top), floordiv(high, top))):
                low, high = floormod(low, top), floormod(high, top)
            else:
                return None
        by, step = const(self.lower, low.dtype), const(self.scale, low.dtype)
        low, high = floordiv(low, by), floordiv(high, by)
        wide = analyzer.can_prove(ge(extent, const(abs(self.scale), extent.dtype)))
        if not wide and not analyzer.can_prove(eq(low, high)):
            return None
        ends = (low, high) if self.scale > 0 else (high, low)
        first, last = (exact.add(mul(end, step), self.rest) for end in ends)
        return first, exact.sub(exact.add(last, extent), const(1, extent.dtype))


@dataclass(slots=True)
class Place:
    """The first index of a dimension: the sum of parts and rest, or `quotient` of that sum."""

    parts: list[Part]
    rest: Expr
    quotient: Quotient | None = None


class Places:
    """Decomposes indices and conditions over loops that start at 0.

    `variables` maps each variable in expressions to the loops that it stands for.
    """

    def __init__(self, analyzer: Analyzer, variables: Mapping[Expr, frozenset[Var]]) -> None:
        self.analyzer = analyzer
        self.variables = variables

    def named(self, variables: Iterable[Var]) -> set[Var]:
        """The loops that `variables` stand for."""
        return {v for own in variables if own in self.variables for v in self.variables[own]}

    def unknown(self, e: Expr) -> UnknownBoxError:
        """The error that the box is unknown because of `e`; the caller raises it."""
        return UnknownBoxError(self.named(free_vars(e)))

    def _terms(self, e: Expr) -> tuple[list[Term], Expr]:
        """`e` as the terms that depend on the loops, and the rest."""
        if is_data(e):
            raise self.unknown(e)
        terms: list[Term] = []
        base = self.analyzer.canonical.gather(self.analyzer.simplify(e), 1, terms)
        terms = merge_terms(terms)
        own = [t for t in terms if not self.variables.keys().isdisjoint(free_vars(t.atom))]
        return own, emit([t for t in terms if t not in own], base, e.dtype)

    def _parts(self, e: Expr) -> tuple[list[Part], Expr]:
        """`e` as parts, each of which depends on one loop variable, and the rest."""
        terms, rest = self._terms(e)
        return [self._part(t, e) for t in terms], rest

    def place(self, e: Expr) -> Place:
        """The decomposition of `e`, the first index of a dimension; raises UnknownBoxError."""
        terms, rest = self._terms(e)
        if len(terms) == 1 and isinstance(terms[0].atom, Add | Sub):
            atom, lower, upper, scale, trunc = terms[0]
            if not trunc or self.analyzer.can_prove(ge(atom, const(0, atom.dtype))):
                return Place(*self._parts(atom), Quotient(lower, upper, scale, rest))
        return Place([self._part(t, e) for t in terms], rest)

    def _part(self, term: Term, e: Expr) -> Part:
        atom, lower, upper, scale, trunc = term
        factor: Expr = IntImm(scale, e.dtype)
        if trunc and not self.analyzer.can_prove(ge(atom, const(0, atom.dtype))):
            raise self.unknown(atom)
        if isinstance(atom, Mul) and lower == 1 and upper == NO_UPPER:
            for x, y in ((atom.a, atom.b), (atom.b, atom.a)):
                if isinstance(x, Var) and self.variables.keys().isdisjoint(free_vars(y)):
                    return Part(x, 1, NO_UPPER, exact.mul(y, factor))
        if not isinstance(atom, Var):
            raise self.unknown(atom)
        return Part(atom, lower, upper, factor)

    def condition(self, e: Expr) -> tuple[list[Part], Expr, bool]:
        """The comparison `e` as (parts, rest, equal): it holds if their sum is <= 0 (or == 0).

        Raises UnknownBoxError for other conditions.
        """
        if not isinstance(e, LT | LE | GT | GE | EQ) or not e.a.dtype.is_index:
            raise self.unknown(e)
        a, b = (e.b, e.a) if isinstance(e, GT | GE) else (e.a, e.b)
        parts, rest = self._parts(exact.sub(a, b))
        if isinstance(e, LT | GT):
            rest = exact.add(rest, const(1, rest.dtype))
        return parts, rest, isinstance(e, EQ)
