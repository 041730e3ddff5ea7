"""Simplifies vector operations on ramps and broadcasts of integers to ramps and broadcasts."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from autosched.arith.compare import EQUAL, GREATER, LESS
from autosched.tir.data import is_data
from autosched.tir.expr import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    CompareExpr,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Ramp,
    Sub,
)
from autosched.tir.lanes import combined, from_ramp
from autosched.tir.op import add, const, floordiv, floormod, mul

if TYPE_CHECKING:
    from autosched.arith.rewrite import RewriteSimplifier


_DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))


def fold_lanes(s: RewriteSimplifier, e: Any) -> Expr | None:
    """The vector operation `e`, whose operands are simplified, in simpler form; else None.

    broadcast(x) op broadcast(y) -> broadcast(x op y), for every operation on integers
    ramp(b, s) + broadcast(x)    -> ramp(b + x, s), and so for -, * and two ramps
    ramp(b, s) // broadcast(c)   -> ramp(b // c, s // c) if c divides s, or broadcast(b // c) if all
                                    lanes have one quotient; likewise %
    ramp(b, s) < broadcast(x)    -> broadcast(truth) if the first and last lane decide it
    min(min(x, broadcast(c)), broadcast(d)) -> min(x, broadcast(min(c, d))), likewise max
    """
    a, b = e.a, e.b
    lanes = a.dtype.lanes
    if not a.dtype.is_integral:
        return None
    if a.__class__ is Broadcast and b.__class__ is Broadcast:
        return Broadcast(s.visit(e.with_children((a.value, b.value))), lanes)
    if a.dtype.is_bool:
        return _junction(e) if e.__class__ in (And, Or) else None
    if e.__class__ in (Min, Max):
        return _extreme(s, e)
    if e.__class__ in (Add, Sub, Mul):
        result = combined(e.__class__, a, b)
        return None if result is None else _visited(s, result)
    if is_data(e) or not a.dtype.element.is_index:
        return None
    if e.__class__ in (FloorDiv, FloorMod):
        return _divided(s, e)
    return _decided(s, e) if isinstance(e, CompareExpr) else None


def _junction(e: Any) -> Expr | None:
    """`and` or `or` with an operand that is the same constant in every lane; else None."""
    for known, other in ((e.a, e.b), (e.b, e.a)):
        if known.__class__ is Broadcast and known.value.__class__ is IntImm:
            keeps: bool = bool(known.value.value) == (e.__class__ is And)
            result: Expr = other if keeps else known
            return result
    return None


def _visited(s: RewriteSimplifier, e: Any) -> Expr:
    if e.__class__ is Broadcast:
        return Broadcast(s.visit(e.value), e.lanes)
    return from_ramp(s.visit(e.base), s.visit(e.stride), e.lanes)


def _divided(s: RewriteSimplifier, e: Any) -> Expr | None:
    a, b = e.a, e.b
    if a.__class__ is not Ramp or b.__class__ is not Broadcast:
        return None
    if b.value.__class__ is not IntImm or a.stride.__class__ is not IntImm or b.value.value <= 0:
        return None
    c, stride, lanes = b.value.value, a.stride.value, a.lanes
    quotient = e.__class__ is FloorDiv
    if stride % c == 0:
        if quotient:
            part = const(stride // c, a.stride.dtype)
            return from_ramp(s.visit(floordiv(a.base, c)), part, lanes)
        return Broadcast(s.visit(floormod(a.base, c)), lanes)
    coeff, rest = s.analyzer.moduli(a.base)
    step = gcd(coeff, c)  # the quotient can change at multiples of `step` only
    last = rest % step + stride * (lanes - 1)
    if not 0 <= last < step:
        return None
    if quotient:
        return Broadcast(s.visit(floordiv(a.base, c)), lanes)
    return Ramp(s.visit(floormod(a.base, c)), a.stride, lanes)


def _extreme(s: RewriteSimplifier, e: Any) -> Expr | None:
    """min(min(x, broadcast(c)), broadcast(d)) as min(x, broadcast(min(c, d))), likewise max."""
    a, b = e.a, e.b
    if a.__class__ is e.__class__ and a.b.__class__ is Broadcast and b.__class__ is Broadcast:
        return e.with_children((a.a, s.visit(e.with_children((a.b, b)))))  # type: ignore[no-any-return]
    return None


def _ends(e: Any) -> tuple[Expr, Expr] | None:
    """The smallest and the largest lane of `e`; None when it is not known which lanes they are."""
    if e.__class__ is Broadcast:
        return e.value, e.value
    if e.__class__ is not Ramp or e.stride.__class__ is not IntImm:
        return None
    last = add(e.base, mul(e.stride, e.lanes - 1))
    return (e.base, last) if e.stride.value >= 0 else (last, e.base)


def _decided(s: RewriteSimplifier, e: Any) -> Expr | None:
    left, right = _ends(e.a), _ends(e.b)
    if left is None or right is None:
        return None
    compare = s.analyzer.compare
    truth: bool | None = None
    above, below = compare(left[0], right[1]), compare(left[1], right[0])
    if e.__class__ in (EQ, NE):
        if not above & (LESS | EQUAL) or not below & (GREATER | EQUAL):
            truth = e.__class__ is NE
    elif e.__class__ in (LT, LE):
        allowed = LESS if e.__class__ is LT else LESS | EQUAL
        if not below & ~allowed:
            truth = True
        elif not above & allowed:
            truth = False
    if truth is None:
        return None
    return Broadcast(const(truth), e.a.dtype.lanes)
