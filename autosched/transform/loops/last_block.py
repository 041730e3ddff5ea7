"""Conditions of fused block loops that fail in the last block of an axis alone.

A parallel loop that fuses the blocks of several axes is not cut. The block of one axis is a digit
of its variable, such as `f % 4`. Where a condition holds for all iterations inside unless that
digit is 3, the version of the loop that keeps the condition is only needed for `f % 4 == 3`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Var
from autosched.tir.stmt import IfThenElse, Stmt
from autosched.tir.walk import map_children, rewrite_expr, stmts
from autosched.transform.loops.loop_interval import Bounds, Part, likely_parts


def only_failing(parts: Sequence[Part], env: Bounds) -> tuple[Expr, int] | None:
    """The single term of all `parts` and the only value of it for which a part fails.

    None if the parts have several terms, if the range of the term is unknown, or if not exactly one
    value makes a part fail.
    """
    terms = {term for part in parts for term in part.terms}
    if len(terms) != 1:
        return None
    (term,) = terms
    span = _span(term, env)
    if span is None:
        return None
    low, high = span
    failing: set[int] = set()
    for part in parts:
        factor = part.terms[term]
        if factor > 0:
            first, last = max(low, -part.constant // factor + 1), high
        else:
            first, last = low, min(high, -(-part.constant // -factor) - 1)
        if last > first:
            return None
        failing.update(range(first, last + 1))
    return (term, failing.pop()) if len(failing) == 1 else None


def _span(e: Expr, env: Bounds) -> tuple[int, int] | None:
    """Least and greatest value of a variable or a digit of one (`v % n`, `v // n`), if known."""
    match e:
        case Var():
            return env.get(e)
        case FloorMod(_, IntImm(size)) if size > 0:
            return 0, size - 1
        case FloorDiv(whole, IntImm(size)) if size > 0:
            span = _span(whole, env)
            return None if span is None else (span[0] // size, span[1] // size)
    return None


def statement_conditions(s: Stmt) -> Iterator[Expr]:
    """The conjuncts of the conditions of all if statements in `s`."""
    for inner in stmts(s):
        if isinstance(inner, IfThenElse):
            for condition, _ in likely_parts(inner.condition):
                yield condition


def with_value(s: Stmt, term: Expr, value: int) -> Stmt:
    """`s` with every `term` replaced by the constant `value`."""
    number = IntImm(value, term.dtype)

    def constant(e: Expr) -> Expr | None:
        return number if e is term else None

    def expr(e: Expr) -> Expr:
        return rewrite_expr(e, constant)

    def stmt(inner: Stmt) -> Stmt:
        return map_children(inner, stmt, expr)

    return stmt(s)
