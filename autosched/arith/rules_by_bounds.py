"""Rewrite rules that depend on bounds and residues of the operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autosched.arith.compare import GREATER, LESS, by_bounds
from autosched.arith.const_int_bound import NEG_INF, POS_INF, floordiv_int
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul
from autosched.tir.op import add, floordiv, floormod, mul

if TYPE_CHECKING:
    from autosched.arith.rewrite import RewriteSimplifier


def _extreme(s: RewriteSimplifier, e: Any) -> Expr | None:
    """The operand that a min or max always equals; None when it is not known."""
    order = by_bounds(s.analyzer, e.a, e.b)
    smaller: Expr = e.a if e.__class__ is Min else e.b
    larger: Expr = e.b if e.__class__ is Min else e.a
    if not order & GREATER:
        return smaller
    return larger if not order & LESS else None


def _is_scaled(e: Any) -> bool:
    return e.__class__ is Mul and e.b.__class__ is IntImm


def _quotient(s: RewriteSimplifier, e: Any) -> Expr | None:
    """(x*c1 + y) // c2 (y may be absent), simplified if bounds determine its remainder part."""
    a, b = e.a, e.b
    if b.__class__ is not IntImm or b.value <= 0:
        return None
    c2 = b.value
    product: Any = a
    y: Expr = IntImm(0, e.dtype)
    if a.__class__ is Add:
        product, y = (a.a, a.b) if _is_scaled(a.a) else (a.b, a.a)
    if not _is_scaled(product):
        return None
    x, c1 = product.a, product.b.value
    remainder = floormod(y, c2)
    rows = IntImm(0, e.dtype) if s.below(y, c2) else floordiv(y, c2)
    low, high = s.analyzer.bounds(add(mul(x, c1 % c2), remainder))
    if low > NEG_INF and high < POS_INF and floordiv_int(low, c2) == floordiv_int(high, c2):
        return add(mul(x, c1 // c2), add(rows, low // c2))
    if c1 > 0 and c2 % c1 == 0 and s.analyzer.bounds(remainder)[1] < c1:
        return add(floordiv(x, c2 // c1), rows)
    return None


def _remainder(s: RewriteSimplifier, e: Any) -> Expr | None:
    """x % c, simplified by the bounds or the residues of x; None when they do not suffice."""
    a: Expr = e.a
    b = e.b
    if b.__class__ is not IntImm or b.value <= 0:
        return None
    if s.below(a, b.value):
        return a
    coeff, base = s.analyzer.moduli(a)
    return IntImm(base % b.value, e.dtype) if coeff % b.value == 0 else None


RULES_BY_BOUNDS: dict[type[Expr], Callable[[RewriteSimplifier, Any], Expr | None]] = {
    Min: _extreme,
    Max: _extreme,
    FloorDiv: _quotient,
    FloorMod: _remainder,
}
