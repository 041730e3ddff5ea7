"""Where in a loop its likely() conditions hold for every iteration of the loops inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autosched.tir.dtype import DType
from autosched.tir.expr import GE, GT, LE, LT, And, BufferLoad, Call, Expr, IntImm, IterVar, Var
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import add, floordiv
from autosched.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt
from autosched.tir.walk import free_vars, pre_order, stmts

Bounds = Mapping[Var, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A comparison as `sum(factor * term) + constant <= 0`; `source` is its expression."""

    source: Expr
    terms: dict[Expr, int]
    constant: int

    def bounds(self, env: Bounds) -> tuple[int, int] | None:
        """Least and greatest value of the left side; None when a term is not bounded."""
        low = high = self.constant
        for term, factor in self.terms.items():
            span = env.get(term) if isinstance(term, Var) else None
            if span is None:
                return None
            low += factor * (span[0] if factor > 0 else span[1])
            high += factor * (span[1] if factor > 0 else span[0])
        return low, high

    def relaxed(self, inner: Bounds) -> Part:
        """The condition that holds exactly when this one does for all values of `inner`."""
        terms, constant = {}, self.constant
        for term, factor in self.terms.items():
            span = inner.get(term) if isinstance(term, Var) else None
            if span is None:
                terms[term] = factor
            else:
                constant += factor * (span[1] if factor > 0 else span[0])
        return Part(self.source, terms, constant)

    def expr(self, dtype: DType) -> Expr:
        """The condition as `terms <= -constant`."""
        return LE(sum_of(self.terms, 0, dtype), IntImm(-self.constant, dtype))


def likely_parts(condition: Expr, inside: bool = False) -> Iterator[tuple[Expr, bool]]:
    """The conjuncts of `condition`, each with whether it stands in a likely()."""
    if isinstance(condition, Call) and condition.op == "likely":
        yield from likely_parts(condition.args[0], True)
    elif isinstance(condition, And):
        yield from likely_parts(condition.a, inside)
        yield from likely_parts(condition.b, inside)
    else:
        yield condition, inside


def as_part(condition: Expr) -> Part | None:
    """The integer comparison `condition`; None for any other or one that reads memory."""
    if not isinstance(condition, LT | LE | GT | GE) or not condition.a.dtype.is_index:
        return None
    if any(isinstance(e, BufferLoad | Call) for e in pre_order(condition)):
        return None
    low, high = condition.a, condition.b
    if isinstance(condition, GT | GE):
        low, high = high, low
    constant, terms = combine(linear(low), linear(high), -1)
    return Part(condition, terms, constant + isinstance(condition, LT | GT))


@dataclass(slots=True, eq=False)
class LoopConditions:
    """The conditions in a body that depend on `var`, relaxed over the loops inside it."""

    var: Var
    parts: list[Part]

    def constant_interval(self, low: int, high: int) -> tuple[int, int]:
        """The part of [low, high) where all conditions without other variables hold."""
        for part in self.parts:
            if set(part.terms) == {self.var}:
                factor = part.terms[self.var]
                if factor > 0:
                    high = min(high, -part.constant // factor + 1)
                else:
                    low = max(low, -(-part.constant // -factor))
        return low, high

    def limits(self) -> tuple[list[Expr], list[Expr]]:
        """Lower limits and (exclusive) upper limits of `var` that the conditions set."""
        lows, highs = [], []
        for part in self.parts:
            factor = part.terms[self.var]
            others = {t: f for t, f in part.terms.items() if t is not self.var}
            if factor > 0:
                opposite = {t: -f for t, f in others.items()}
                last = sum_of(opposite, -part.constant, self.var.dtype)
                highs.append(add(floordiv(last, factor), 1))
            else:
                least = sum_of(others, part.constant - factor - 1, self.var.dtype)
                lows.append(floordiv(least, -factor))
        return lows, highs

    def symbolic(self) -> list[Part]:
        """The conditions that depend on variables outside the loop."""
        return [p for p in self.parts if len(p.terms) > 1]


def loop_conditions(var: Var, body: Stmt) -> LoopConditions:
    """The likely() conditions of statements in `body` that are linear in `var`.

    They are relaxed over the loops and threads that begin in `body`: those variables mean nothing
    outside.
    """
    inner: dict[Var, tuple[int, int]] = {}
    unknown: set[Var] = set()
    found: dict[Expr, None] = {}
    for s in stmts(body):
        if isinstance(s, For):
            _bound_inside(s.loop_var, constant_span(s), inner, unknown)
        elif isinstance(s, AttrStmt) and isinstance(s.node, IterVar):
            if s.key in ("thread_extent", "virtual_thread"):
                span = (0, s.value.value - 1) if isinstance(s.value, IntImm) else None
                _bound_inside(s.node.var, span, inner, unknown)
        elif isinstance(s, LetStmt):
            unknown.add(s.var)
        elif isinstance(s, IfThenElse) and var in free_vars(s.condition):
            for condition, likely in likely_parts(s.condition):
                if likely and var in free_vars(condition):
                    found.setdefault(condition)
    parts = []
    bound_inside = unknown | inner.keys()
    for condition in found:
        exact = as_part(condition)
        if exact is None or var not in exact.terms:
            continue
        part = exact.relaxed({v: span for v, span in inner.items() if v not in unknown})
        if all(t is var or free_vars(t).isdisjoint({var, *bound_inside}) for t in part.terms):
            parts.append(part)
    return LoopConditions(var, parts)


def _bound_inside(
    var: Var,
    span: tuple[int, int] | None,
    inner: dict[Var, tuple[int, int]],
    unknown: set[Var],
) -> None:
    """Note the values of a variable; one that several statements bind has those of all."""
    if span is None:
        unknown.add(var)
    else:
        known = inner.get(var, span)
        inner[var] = min(span[0], known[0]), max(span[1], known[1])


def constant_span(loop: For) -> tuple[int, int] | None:
    """First and last value of the loop variable; None when they are not constants."""
    if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
        return loop.min.value, loop.min.value + loop.extent.value - 1
    return None
