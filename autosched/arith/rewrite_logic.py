"""Rewriting of comparisons and conditions.

All integer comparisons are reduced to `<` and `==`: `a > b` to `b < a`, `a <= b` to the negation of
`b < a`. Each `rewrite_` function takes the simplifier and a node of its class.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from autosched.arith import exact
from autosched.arith.compare import EQUAL, GREATER, LESS, by_bounds
from autosched.arith.lanes import fold_lanes
from autosched.arith.rule_tables import BOOL_RULES
from autosched.tir.data import is_data
from autosched.tir.dtype import bool_
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    CompareExpr,
    Expr,
    IntImm,
    Not,
    Or,
    Sub,
)
from autosched.tir.op import and_, const, eq, floordiv, le, lt, or_

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer
    from autosched.arith.rewrite import RewriteSimplifier

TRUE, FALSE = IntImm(1, bool_), IntImm(0, bool_)
_COMPARISONS = frozenset((EQ, NE, LT, LE, GT, GE))


def _known(s: RewriteSimplifier, e: Expr) -> Expr | None:
    """TRUE or FALSE if the condition `e` is literally assumed or refuted in scope, else None."""
    truth = s.analyzer.literals.get(e)
    if truth is None:
        return None
    return TRUE if truth else FALSE


def _first(changed: Expr | None, node: Expr) -> Expr:
    return node if changed is None else changed


def _is_scalar_int(e: Expr) -> bool:
    return e.dtype.is_integral and e.dtype.lanes == 1 and not e.dtype.is_bool


def _plain(s: RewriteSimplifier, e: Any) -> Expr:
    """A comparison of vectors or floats: only the operands are simplified, and vectors folded."""
    result: Expr = s.children(e)
    known = _known(s, result)
    if known is None and isinstance(result, CompareExpr) and result.a.dtype.lanes > 1:
        known = fold_lanes(s, result)
    return _first(known, result)


def rewrite_less(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a < b."""
    a, b = s.visit(e.a), s.visit(e.b)
    node: Expr = e if a is e.a and b is e.b else lt(a, b)
    if node.__class__ is not LT:
        return node
    known = _known(s, node)
    if known is not None:
        return known
    if not a.dtype.is_index and not (_is_scalar_int(a) and not s.analyzer.as_ansor):
        return _first(fold_lanes(s, node) if a.dtype.lanes > 1 else None, node)
    order = s.analyzer.compare(a, b) if a.dtype.is_index else by_bounds(s.analyzer, a, b)
    if order == LESS:
        return TRUE
    if not order & LESS:
        return FALSE
    if not a.dtype.is_index:
        return node
    result = s.compared(node)
    if result is not None:
        return result
    result = _gather_constants(a, b)
    if result is not None and not (is_data(node) and _may_wrap(s, node, result)):
        return s.again(result)
    factor = _common_factor(s.analyzer, a, b)
    if factor > 1:
        return s.again(lt(floordiv(a, factor), floordiv(b, factor)))
    return node


def rewrite_less_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a <= b, as not b < a."""
    known = _known(s, e)
    if known is not None:
        return known
    if not _is_scalar_int(e.a):
        return _plain(s, e)
    return negation(s, s.visit(LT(e.b, e.a)))


def rewrite_greater(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a > b, as b < a."""
    known = _known(s, e)
    return s.visit(LT(e.b, e.a)) if known is None else known


def rewrite_greater_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a >= b, as b <= a."""
    known = _known(s, e)
    return s.visit(LE(e.b, e.a)) if known is None else known


def rewrite_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a == b."""
    a, b = s.visit(e.a), s.visit(e.b)
    node: Expr = e if a is e.a and b is e.b else eq(a, b)
    if node.__class__ is not EQ:
        return node
    known = _known(s, node)
    if known is not None:
        return known
    if not a.dtype.is_index and not (_is_scalar_int(a) and not s.analyzer.as_ansor):
        return _first(fold_lanes(s, node) if a.dtype.lanes > 1 else None, node)
    order = s.analyzer.compare(a, b) if a.dtype.is_index else by_bounds(s.analyzer, a, b)
    if order == EQUAL:
        return TRUE
    if not order & EQUAL:
        return FALSE
    return _first(s.compared(node), node) if a.dtype.is_index else node


def rewrite_not_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a != b, as not a == b, or as < when one direction is excluded."""
    known = _known(s, e)
    if known is not None:
        return known
    if not _is_scalar_int(e.a):
        return _plain(s, e)
    same: Any = s.visit(EQ(e.a, e.b))
    if same.__class__ is EQ and e.a.dtype.is_index:
        order = s.analyzer.compare(same.a, same.b)
        if not order & GREATER:
            return s.visit(LT(same.a, same.b))
        if not order & LESS:
            return s.visit(LT(same.b, same.a))
    return negation(s, same)


def negation(s: RewriteSimplifier, e: Expr) -> Expr:
    """The simplified negation of the simplified condition `e`."""
    if e.__class__ is IntImm:
        return FALSE if e.value else TRUE
    node = Not(e)
    return _first(BOOL_RULES[Not](node, s), node) if _has_negation(e) else node


def rewrite_not(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite not a."""
    known = _known(s, e)
    return negation(s, s.visit(e.a)) if known is None else known


def rewrite_junction(s: RewriteSimplifier, e: Any) -> Expr:
    """Rewrite a and b, or a or b."""
    a, b = s.visit(e.a), s.visit(e.b)
    cls = e.__class__
    node: Expr = e
    if a is not e.a or b is not e.b:
        node = and_(a, b) if cls is And else or_(a, b)
        if node.__class__ is not cls:
            return node
    known = _known(s, node)
    if known is not None:
        return known
    if node.dtype.lanes != 1:
        return _first(fold_lanes(s, node), node)
    if not (_has_negation(a) and _has_negation(b)):
        return node
    return _first(BOOL_RULES[cls](node, s), node)


def _has_negation(e: Any) -> bool:
    """False if `e` has a float comparison: for a NaN, `not a < b` differs from `b <= a`."""
    cls = e.__class__
    if cls in _COMPARISONS:
        return not e.a.dtype.is_float
    if cls is And or cls is Or:
        return _has_negation(e.a) and _has_negation(e.b)
    return _has_negation(e.a) if cls is Not else True


def _may_wrap(s: RewriteSimplifier, *conditions: Expr) -> bool:
    return any(map(s.analyzer.bounds.wraps, conditions))


def _constant_offset(e: Any) -> tuple[Expr, int]:
    cls = e.__class__
    if cls is Add and e.b.__class__ is IntImm:
        return e.a, e.b.value
    if cls is Sub and e.b.__class__ is IntImm:
        return e.a, -e.b.value
    return e, 0


def _gather_constants(a: Expr, b: Expr) -> Expr | None:
    """a < b with its constants moved to one side; None if they are already, or may overflow."""
    left, left_offset = _constant_offset(a)
    right, right_offset = _constant_offset(b)
    if left_offset == 0 and right_offset == 0:
        return None
    difference = right_offset - left_offset
    if difference == 0:
        return lt(left, right)
    if difference == 1:
        return le(left, right)
    if abs(difference) >= 1 << (a.dtype.bits - 2):
        return None  # the side that gets the constant could overflow (tir/data.py)
    try:
        if difference < 0 and right_offset != 0:
            return lt(exact.add(left, const(-difference, a.dtype)), right)
        if difference > 0 and left_offset != 0:
            return lt(left, exact.add(right, const(difference, a.dtype)))
    except exact.DoesNotFitError:
        pass
    return None


def _common_factor(analyzer: Analyzer, a: Expr, b: Expr) -> int:
    x, y = analyzer.moduli(a), analyzer.moduli(b)
    factor = gcd(x.base, x.coeff, y.base, y.coeff)
    return factor if factor <= a.dtype.max_value else 1
