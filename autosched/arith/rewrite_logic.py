"""Rewriting of comparisons and conditions.

All comparisons of integers are expressed by `<` and `==`: `a > b` as `b < a`, `a <= b` as the
negation of `b < a`. Each function takes the simplifier and a node of its class.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from autosched.arith.compare import EQUAL, GREATER, LESS
from autosched.arith.rule_tables import BOOL_RULES, INDEX_RULES
from autosched.tir.dtype import bool_
from autosched.tir.expr import EQ, GE, GT, LE, LT, NE, Add, And, Expr, IntImm, Not, Or, Sub
from autosched.tir.op import add, and_, eq, floordiv, le, lt, or_

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer
    from autosched.arith.rewrite import RewriteSimplifier

TRUE, FALSE = IntImm(1, bool_), IntImm(0, bool_)
_COMPARISONS = frozenset((EQ, NE, LT, LE, GT, GE))


def _known(s: RewriteSimplifier, e: Expr) -> Expr | None:
    """The truth of a condition that is literally in scope."""
    truth = s.analyzer.literals.get(e)
    if truth is None:
        return None
    return TRUE if truth else FALSE


def _first(changed: Expr | None, node: Expr) -> Expr:
    return node if changed is None else changed


def _plain(s: RewriteSimplifier, e: Any) -> Expr:
    """A comparison of other things than indices: only the operands are simplified."""
    result: Expr = s.children(e)
    return _first(_known(s, result), result)


def rewrite_less(s: RewriteSimplifier, e: Any) -> Expr:
    """a < b."""
    a, b = s.visit(e.a), s.visit(e.b)
    node: Expr = e if a is e.a and b is e.b else lt(a, b)
    if node.__class__ is not LT:
        return node
    known = _known(s, node)
    if known is not None:
        return known
    if not a.dtype.is_index:
        return node
    order = s.analyzer.compare(a, b)
    if order == LESS:
        return TRUE
    if not order & LESS:
        return FALSE
    result = INDEX_RULES[LT](node, s)
    if result is not None:
        return result
    result = _gather_constants(a, b)
    if result is not None:
        return s.again(result)
    factor = _common_factor(s.analyzer, a, b)
    if factor > 1:
        return s.again(lt(floordiv(a, factor), floordiv(b, factor)))
    return node


def rewrite_less_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """a <= b, as not b < a."""
    known = _known(s, e)
    if known is not None:
        return known
    if not e.a.dtype.is_index:
        return _plain(s, e)
    return negation(s, s.visit(LT(e.b, e.a)))


def rewrite_greater(s: RewriteSimplifier, e: Any) -> Expr:
    """a > b, as b < a."""
    known = _known(s, e)
    return s.visit(LT(e.b, e.a)) if known is None else known


def rewrite_greater_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """a >= b, as b <= a."""
    known = _known(s, e)
    return s.visit(LE(e.b, e.a)) if known is None else known


def rewrite_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """a == b."""
    a, b = s.visit(e.a), s.visit(e.b)
    node: Expr = e if a is e.a and b is e.b else eq(a, b)
    if node.__class__ is not EQ:
        return node
    known = _known(s, node)
    if known is not None:
        return known
    if not a.dtype.is_index:
        return node
    order = s.analyzer.compare(a, b)
    if order == EQUAL:
        return TRUE
    if not order & EQUAL:
        return FALSE
    return _first(INDEX_RULES[EQ](node, s), node)


def rewrite_not_equal(s: RewriteSimplifier, e: Any) -> Expr:
    """a != b, as not a == b, or as < when one direction is excluded."""
    known = _known(s, e)
    if known is not None:
        return known
    if not e.a.dtype.is_index:
        return _plain(s, e)
    same: Any = s.visit(EQ(e.a, e.b))
    if same.__class__ is EQ:
        order = s.analyzer.compare(same.a, same.b)
        if not order & GREATER:
            return s.visit(LT(same.a, same.b))
        if not order & LESS:
            return s.visit(LT(same.b, same.a))
    return negation(s, same)


def negation(s: RewriteSimplifier, e: Expr) -> Expr:
    """not e, for a simplified e."""
    if e.__class__ is IntImm:
        return FALSE if e.value else TRUE
    node = Not(e)
    return _first(BOOL_RULES[Not](node, s), node) if _has_negation(e) else node


def rewrite_not(s: RewriteSimplifier, e: Any) -> Expr:
    """not a."""
    known = _known(s, e)
    return negation(s, s.visit(e.a)) if known is None else known


def rewrite_junction(s: RewriteSimplifier, e: Any) -> Expr:
    """a and b, a or b."""
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
    if node.dtype.lanes != 1 or not (_has_negation(a) and _has_negation(b)):
        return node
    return _first(BOOL_RULES[cls](node, s), node)


def _has_negation(e: Any) -> bool:
    """False for a comparison of floats, where NaN makes `not a < b` differ from `b <= a`."""
    cls = e.__class__
    if cls in _COMPARISONS:
        return not e.a.dtype.is_float
    if cls is And or cls is Or:
        return _has_negation(e.a) and _has_negation(e.b)
    return _has_negation(e.a) if cls is Not else True


def _constant_offset(e: Any) -> tuple[Expr, int]:
    cls = e.__class__
    if cls is Add and e.b.__class__ is IntImm:
        return e.a, e.b.value
    if cls is Sub and e.b.__class__ is IntImm:
        return e.a, -e.b.value
    return e, 0


def _gather_constants(a: Expr, b: Expr) -> Expr | None:
    """a < b with a constant on one side only; None when it is so already."""
    left, left_offset = _constant_offset(a)
    right, right_offset = _constant_offset(b)
    if left_offset == 0 and right_offset == 0:
        return None
    difference = right_offset - left_offset
    if difference == 0:
        return lt(left, right)
    if difference == 1:
        return le(left, right)
    if difference < 0 and right_offset != 0:
        return lt(add(left, -difference), right)
    if difference > 0 and left_offset != 0:
        return lt(left, add(right, difference))
    return None


def _common_factor(analyzer: Analyzer, a: Expr, b: Expr) -> int:
    x, y = analyzer.moduli(a), analyzer.moduli(b)
    return gcd(x.base, x.coeff, y.base, y.coeff)
