"""Where the dimensions of a region begin, in parts that depend on the loops one by one.

Of the loops i and j these are parts of a sum, `i * 8 + j % 4`, or a quotient of one that is no
variable, `(i * 5 + j) // 3`.
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
    """It is not known which box is accessed; `variables` may be left at one value instead."""

    def __init__(self, variables: Iterable[Var] = ()) -> None:
        self.variables = frozenset(variables)


@dataclass(slots=True)
class Part:
    """factor * ((atom % upper) // lower)."""

    atom: Expr
    lower: int
    upper: int
    factor: Expr


@dataclass(slots=True)
class Quotient:
    """scale * ((x % upper) // lower) + rest, for a sum x that is no variable."""

    lower: int
    upper: int
    scale: int
    rest: Expr

    def of_all(
        self, analyzer: Analyzer, low: Expr, high: Expr, extent: Expr
    ) -> tuple[Expr, Expr] | None:
        """First and last of all x in [low, high], each with `extent` - 1 neighbours behind it.

        None where it is not known to have no gaps.
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
    """Where a dimension begins: parts + rest, or a quotient of that."""

    parts: list[Part]
    rest: Expr
    quotient: Quotient | None = None


class Places:
    """Reads indices and conditions of loops, which run from 0.

    `variables` has the loops that stand behind each variable.
    """

    def __init__(self, analyzer: Analyzer, variables: Mapping[Expr, frozenset[Var]]) -> None:
        self.analyzer = analyzer
        self.variables = variables

    def named(self, variables: Iterable[Var]) -> set[Var]:
        """The loops that stand behind these variables."""
        return {v for own in variables if own in self.variables for v in self.variables[own]}

    def unknown(self, e: Expr) -> UnknownBoxError:
        """That it is not known for `e`."""
        return UnknownBoxError(self.named(free_vars(e)))

    def _terms(self, e: Expr) -> tuple[list[Term], Expr]:
        """`e` as terms that depend on the loops, and the rest."""
        if is_data(e):
            raise self.unknown(e)
        terms: list[Term] = []
        base = self.analyzer.canonical.gather(self.analyzer.simplify(e), 1, terms)
        terms = merge_terms(terms)
        own = [t for t in terms if not self.variables.keys().isdisjoint(free_vars(t.atom))]
        return own, emit([t for t in terms if t not in own], base, e.dtype)

    def _parts(self, e: Expr) -> tuple[list[Part], Expr]:
        """`e` as parts that depend on the loops, and the rest."""
        terms, rest = self._terms(e)
        return [self._part(t, e) for t in terms], rest

    def place(self, e: Expr) -> Place:
        """`e` as the beginning of a dimension."""
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
        """Parts and rest of a sum that is at most 0, or (True) equal to 0, where `e` holds."""
        if not isinstance(e, LT | LE | GT | GE | EQ) or not e.a.dtype.is_index:
            raise self.unknown(e)
        a, b = (e.b, e.a) if isinstance(e, GT | GE) else (e.a, e.b)
        parts, rest = self._parts(exact.sub(a, b))
        if isinstance(e, LT | GT):
            rest = exact.add(rest, const(1, rest.dtype))
        return parts, rest, isinstance(e, EQ)
