"""Intervals of a loop where conditions hold, or fail, for every iteration of the loops inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autosched.tir.dtype import DType
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    IterVar,
    Let,
    Select,
    Var,
)
from autosched.tir.kinds import bits_of, nodes_with
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.op import add, floordiv
from autosched.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt
from autosched.tir.walk import direct_exprs, distinct, free_vars, stmts

Bounds = Mapping[Var, tuple[int, int]]
_CHOICES = bits_of(Call, Let, Select)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The comparison `sum(factor * term) + constant <= 0`; `source` is its expression.

    A part may be relaxed over the values of some variables. Then its left side is the greatest
    value of the original left side, and `slack` is the difference to the least one.
    """

    source: Expr
    terms: dict[Expr, int]
    constant: int
    slack: int = 0

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
        """The part that holds exactly when this one holds for all values of `inner`."""
        terms, constant, slack = {}, self.constant, self.slack
        for term, factor in self.terms.items():
            span = inner.get(term) if isinstance(term, Var) else None
            if span is None:
                terms[term] = factor
            else:
                constant += factor * (span[1] if factor > 0 else span[0])
                slack += abs(factor) * (span[1] - span[0])
        return Part(self.source, terms, constant, slack)

    def loosened(self) -> Part:
        """The part that fails exactly when the one that this was relaxed from fails throughout."""
        return Part(self.source, self.terms, self.constant - self.slack)

    def says_as(self, other: Part) -> bool:
        """Whether both left sides are the same."""
        return self.terms == other.terms and self.constant == other.constant

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
    """The integer comparison `condition`; None for any other, or if it reads memory."""
    if not isinstance(condition, LT | LE | GT | GE) or not condition.a.dtype.is_index:
        return None
    if any(isinstance(e, BufferLoad | Call) for e in distinct(condition)):
        return None
    low, high = condition.a, condition.b
    if isinstance(condition, GT | GE):
        low, high = high, low
    constant, terms = combine(linear(low), linear(high), -1)
    return Part(condition, terms, constant + isinstance(condition, LT | GT))


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A comparison, equality or inequality of integers.

    A comparison has one part and an equality two. An inequality has the parts of the equality and
    is `negated`.
    """

    source: Expr
    parts: tuple[Part, ...]
    negated: bool = False

    @property
    def one_sided(self) -> bool:
        """Whether this is a comparison with `<`, `<=`, `>` or `>=`."""
        return len(self.parts) == 1

    def truth(self, env: Bounds) -> bool | None:
        """Whether the condition holds for all values in `env` (True) or for none (False)."""
        found = True
        for part in self.parts:
            bounds = part.bounds(env)
            if bounds is None:
                return None
            if bounds[0] - part.slack > 0:
                return self.negated
            found = found and bounds[1] <= 0
        return not self.negated if found else None

    def constant_interval(self, var: Var, low: int, high: int) -> tuple[int, int]:
        """The subinterval of [low, high) where all parts in `var` alone hold."""
        for part in self.parts:
            low, high = _constant_interval(part, var, low, high)
        return low, high

    def loosened(self) -> Condition:
        """The condition with every part loosened, as `Part.loosened` says."""
        return Condition(self.source, tuple(p.loosened() for p in self.parts), self.negated)


def as_condition(source: Expr) -> Condition | None:
    """The integer comparison, equality or inequality `source`; else None, as for memory reads."""
    if isinstance(source, EQ | NE):
        first, second = as_part(LE(source.a, source.b)), as_part(GE(source.a, source.b))
        if first is None or second is None:
            return None
        return Condition(source, (first, second), isinstance(source, NE))
    part = as_part(source)
    return None if part is None else Condition(source, (part,))


def _constant_interval(part: Part, var: Var, low: int, high: int) -> tuple[int, int]:
    if set(part.terms) == {var}:
        factor = part.terms[var]
        if factor > 0:
            high = min(high, -part.constant // factor + 1)
        else:
            low = max(low, -(-part.constant // -factor))
    return low, high


def upper_limit(part: Part, var: Var) -> Expr | None:
    """The (exclusive) limit below which `var` must be for `part` to hold; None if there is none."""
    factor = part.terms[var]
    if factor < 0:
        return None
    opposite = {t: -f for t, f in part.terms.items() if t is not var}
    return add(floordiv(sum_of(opposite, -part.constant, var.dtype), factor), 1)


def lower_limit(part: Part, var: Var) -> Expr | None:
    """The least value of `var` for which `part` holds; None if there is none."""
    factor = part.terms[var]
    if factor > 0:
        return None
    others = {t: f for t, f in part.terms.items() if t is not var}
    least = sum_of(others, part.constant - factor - 1, var.dtype)
    return floordiv(least, -factor)


@dataclass(slots=True, eq=False)
class LoopConditions:
    """The conditions in a body that depend on `var`, relaxed over the loops inside the body."""

    var: Var
    conditions: list[Condition]

    @property
    def parts(self) -> list[Part]:
        """The parts that must all hold: the parts of every condition that is not negated."""
        return [p for c in self.conditions if not c.negated for p in c.parts]

    def constant_interval(self, low: int, high: int) -> tuple[int, int]:
        """The subinterval of [low, high) where all conditions without other variables hold."""
        for part in self.parts:
            low, high = _constant_interval(part, self.var, low, high)
        return low, high

    def deciding_interval(self, low: int, high: int) -> tuple[int, int] | None:
        """A proper part of [low, high) at whose ends one condition changes; None without any.

        The condition holds throughout (a negated one fails) inside, or fails (a negated one holds)
        outside.
        """
        exact = [c for c in self.conditions if all(set(p.terms) == {self.var} for p in c.parts)]
        for condition in (*exact, *(c.loosened() for c in exact)):
            found = condition.constant_interval(self.var, low, high)
            if found != (low, high) and found[0] < found[1]:
                return found
        return None

    def limits(self) -> tuple[list[Expr], list[Expr]]:
        """Lower limits and (exclusive) upper limits of `var` that the conditions set."""
        lows = [lower_limit(p, self.var) for p in self.parts]
        highs = [upper_limit(p, self.var) for p in self.parts]
        return [e for e in lows if e is not None], [e for e in highs if e is not None]

    def symbolic(self) -> list[Part]:
        """The comparisons that depend on variables outside the loop."""
        comparisons = [c.parts[0] for c in self.conditions if c.one_sided]
        return [p for p in comparisons if len(p.terms) > 1]


def loop_conditions(
    var: Var,
    body: Stmt,
    *,
    every: bool = False,
    in_values: bool = False,
    exact_of: Callable[[Expr], Condition | None] = as_condition,
) -> LoopConditions:
    """The likely() conditions of statements in `body` that are linear in `var`.

    With `in_values` also the conditions of Select and if_then_else; with `every` also conditions
    that do not stand in a likely(). The conditions are relaxed over the loops and threads that
    begin in `body`, because their variables mean nothing outside. `exact_of` may cache
    `as_condition`.
    """
    inner: dict[Var, tuple[int, int]] = {}
    unknown: set[Var] = set()
    found: dict[Expr, None] = {}

    def note(condition: Expr) -> None:
        if var in free_vars(condition):
            for part, is_likely in likely_parts(condition):
                if (is_likely or every) and var in free_vars(part):
                    found.setdefault(part)

    for s in stmts(body):
        if isinstance(s, For):
            _bound_inside(s.loop_var, constant_span(s), inner, unknown)
        elif isinstance(s, AttrStmt) and isinstance(s.node, IterVar):
            if s.key in ("thread_extent", "virtual_thread"):
                span = (0, s.value.value - 1) if isinstance(s.value, IntImm) else None
                _bound_inside(s.node.var, span, inner, unknown)
        elif isinstance(s, LetStmt):
            unknown.add(s.var)
        elif isinstance(s, IfThenElse):
            note(s.condition)
        if in_values:
            for e in direct_exprs(s):
                conditions_in(e, note, unknown)
    conditions = []
    bound_inside = unknown | inner.keys()
    for source in found:
        exact = exact_of(source)
        if exact is None or any(var not in p.terms for p in exact.parts):
            continue
        known = {v: span for v, span in inner.items() if v not in unknown}
        parts = tuple(p.relaxed(known) for p in exact.parts)
        terms = {t for p in parts for t in p.terms}
        if all(t is var or free_vars(t).isdisjoint({var, *bound_inside}) for t in terms):
            conditions.append(Condition(source, parts, exact.negated))
    return LoopConditions(var, conditions)


def conditions_in(e: Expr, note: Callable[[Expr], None], unknown: set[Var]) -> None:
    """Call `note` with each condition that chooses a value in `e`; collect variables `e` binds."""
    for node in nodes_with(e, _CHOICES):
        if isinstance(node, Select):
            note(node.condition)
        elif isinstance(node, Call) and node.op == "if_then_else":
            note(node.args[0])
        elif isinstance(node, Let):
            unknown.add(node.var)


def _bound_inside(
    var: Var,
    span: tuple[int, int] | None,
    inner: dict[Var, tuple[int, int]],
    unknown: set[Var],
) -> None:
    """Add the values of a variable to `inner`, merged over all its binders, or to `unknown`."""
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
