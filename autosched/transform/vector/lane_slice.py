"""A part of the lanes of a vector expression."""

from __future__ import annotations

from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    Not,
    Ramp,
    Select,
)
from autosched.tir.intrin import BINARY_MATH, BITWISE, UNARY_MATH
from autosched.tir.op import add, broadcast, mul

_LANEWISE = UNARY_MATH | BINARY_MATH | BITWISE | {"likely", "fma", "reinterpret"}


def lane_slice(e: Expr, start: Expr | int, lanes: int) -> Expr | None:
    """Lanes [start, start + lanes) of `e`, or None when `e` is not made of lanewise operations.

    A scalar stays as it is.
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
        case Call(op, _) if op not in _LANEWISE and op != "if_then_else":
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
