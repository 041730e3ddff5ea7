"""Widen vectors along a variable, and take slices of their lanes.

widen over i:
a[i*8 : +2]        with i = 0..3, when i moves it by 2 elements     ->   a[0 : +8]
broadcast(c, 2)                                                     ->   broadcast(c, 8)
a[i]               (scalar)                                         ->   a[0 : +4]

lane_slice from 4, two lanes:
a[0 : +8]                                                           ->   a[4 : +2]
"""

from __future__ import annotations

from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Not,
    Ramp,
    Select,
    Var,
)
from autosched.tir.linear import linear
from autosched.tir.op import add, broadcast, const, mul
from autosched.tir.walk import free_vars, substitute
from autosched.transform.vector.vectorize_expr import ELEMENTWISE, LaneExprs, NotVectorisableError


def widen(e: Expr, var: Var, count: int) -> Expr | None:
    """`e` at var = 0, 1, ..., count - 1 in one vector, or None when it has no such form.

    Both scalar and vector `e` are accepted; the result has count times the lanes of `e`.
    """
    lanes = e.dtype.lanes
    if lanes > 1:
        return _concatenate(e, var, count)
    try:
        lane_exprs = LaneExprs(var, count, masked=True)
        return lane_exprs.broadcast(lane_exprs(e))
    except NotVectorisableError:
        return None


def _concatenate(e: Expr, var: Var, count: int) -> Expr | None:
    if e.dtype.lanes == 1:
        # A scalar operand of a vector operation: one value for all lanes, or none at all.
        return None if var in free_vars(e) else e
    match e:
        case Broadcast(value, lanes):
            return None if var in free_vars(value) else broadcast(value, lanes * count)
        case Ramp(base, IntImm(stride), lanes):
            _, terms = linear(base)
            nested = any(t is not var and var in free_vars(t) for t in terms)
            if nested or terms.get(var, 0) != stride * lanes:
                return None
            first = substitute(base, {var: const(0, var.dtype)})
            return Ramp(first, const(stride, base.dtype), lanes * count)
        case BufferLoad(buffer, (index,), None) if buffer.dtype.lanes == 1:
            wide = _concatenate(index, var, count)
            return None if wide is None else BufferLoad(buffer, (wide,))
        case Call("if_then_else", (condition, *_)) if condition.dtype.lanes > 1:
            return None
        case Call(op, _) if op not in ELEMENTWISE and op != "if_then_else":
            return None
        case BinaryExpr() | Cast() | Select() | Not() | Call():
            parts = [_concatenate(c, var, count) for c in e.children()]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            dtype = e.dtype.with_lanes(e.dtype.lanes * count)
            if isinstance(e, Call):
                return Call(dtype, e.op, tuple(known))
            if isinstance(e, Cast):
                return Cast(dtype, known[0])
            return e.with_children(tuple(known))
    return None


def lane_slice(e: Expr, start: Expr | int, lanes: int) -> Expr | None:
    """Lanes [start, start + lanes) of `e`, or None when `e` is not made of lanewise operations.

    A scalar stays as it is. Lanes behind the end are those with which a ramp or broadcast goes on.
    """
    if e.dtype.lanes == 1:
        return e
    match e:
        case Ramp(base, stride, _):
            first = add(base, mul(stride, start))
            return first if lanes == 1 else Ramp(first, stride, lanes)
        case Broadcast(value, _):
            return broadcast(value, lanes)
        case BufferLoad(buffer, (index,), predicate) if buffer.dtype.lanes == 1:
            part = lane_slice(index, start, lanes)
            mask = None if predicate is None else lane_slice(predicate, start, lanes)
            if part is None or (predicate is not None and mask is None):
                return None
            return BufferLoad(buffer, (part,), mask)
        case Call(op, _) if op not in ELEMENTWISE and op != "if_then_else":
            return None
        case BinaryExpr() | Cast() | Select() | Not() | Call():
            parts = []
            for child in e.children():
                part = lane_slice(child, start, lanes)
                if part is None:
                    return None
                parts.append(part)
            if isinstance(e, Call):
                return Call(e.dtype.with_lanes(lanes), e.op, tuple(parts))
            if isinstance(e, Cast):
                return Cast(e.dtype.with_lanes(lanes), parts[0])
            return e.with_children(tuple(parts))
    return None
