"""Sums and products of vectors that are ramps and broadcasts, as ramps and broadcasts.

ramp(b, s, n) + broadcast(x, n) is ramp(b + x, s, n): a contiguous access stays one.
"""

from __future__ import annotations

from autosched.tir.expr import Add, Broadcast, Expr, IntImm, Mul, Ramp
from autosched.tir.op import add, mul, sub


def as_ramp(e: Expr) -> tuple[Expr, Expr] | None:
    """Base and stride of an integer ramp, broadcast or scalar."""
    if not e.dtype.is_integral or e.dtype.is_bool:
        return None
    if isinstance(e, Ramp):
        return e.base, e.stride
    if isinstance(e, Broadcast):
        return e.value, IntImm(0, e.value.dtype)
    return (e, IntImm(0, e.dtype)) if e.dtype.lanes == 1 else None


def from_ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    """The vector base, base + stride, ...: a broadcast when the stride is 0."""
    return Broadcast(base, lanes) if is_zero(stride) else Ramp(base, stride, lanes)


def combined(kind: type[Expr], a: Expr, b: Expr) -> Expr | None:
    """`kind` (Add, Sub or Mul) of a and b, one of them a vector; None when it is no ramp."""
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    left, right = as_ramp(a), as_ramp(b)
    if left is None or right is None or lanes == 1:
        return None
    if kind is Mul:
        if is_zero(left[1]):
            left, right = right, left
        if not is_zero(right[1]):
            return None
        return from_ramp(mul(left[0], right[0]), mul(left[1], right[0]), lanes)
    fold = add if kind is Add else sub
    return from_ramp(fold(left[0], right[0]), fold(left[1], right[1]), lanes)


def add_lanes(a: Expr, b: Expr) -> Expr:
    """a + b, a ramp where that is one."""
    result = combined(Add, a, b)
    return add(a, b) if result is None else result


def mul_lanes(a: Expr, b: Expr) -> Expr:
    """a * b, a ramp where that is one."""
    result = combined(Mul, a, b)
    return mul(a, b) if result is None else result


def is_zero(e: Expr) -> bool:
    """True for the integer constant 0."""
    return isinstance(e, IntImm) and e.value == 0
