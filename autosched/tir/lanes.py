"""Folds sums and products of ramps and broadcasts to ramps and broadcasts.

ramp(b, s, n) + broadcast(x, n) is ramp(b + x, s, n): a contiguous access stays contiguous.
"""

from __future__ import annotations

from autosched.tir.constants import is_zero
from autosched.tir.expr import (
    Add,
    Broadcast,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Ramp,
    Sub,
)
from autosched.tir.op import add, mul, sub


def as_ramp(e: Expr) -> tuple[Expr, Expr] | None:
    """The base and stride of an integer ramp, broadcast or scalar; None for anything else."""
    if not e.dtype.is_integral or e.dtype.is_bool:
        return None
    if isinstance(e, Ramp):
        return e.base, e.stride
    if isinstance(e, Broadcast):
        return e.value, IntImm(0, e.value.dtype)
    return (e, IntImm(0, e.dtype)) if e.dtype.lanes == 1 else None


def scalar_of(e: Expr) -> Expr:
    """The scalar that a broadcast repeats; any other expression itself."""
    return e.value if isinstance(e, Broadcast) else e


def from_ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    """The vector base, base + stride, ...: a broadcast when the stride is 0."""
    return Broadcast(base, lanes) if is_zero(stride) else Ramp(base, stride, lanes)


def combined(kind: type[Expr], a: Expr, b: Expr) -> Expr | None:
    """`kind` (Add, Sub or Mul) of a and b as a ramp or broadcast.

    None when the result is neither, and when both are scalars.
    """
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
    """a + b, as a ramp where possible."""
    result = combined(Add, a, b)
    return add(a, b) if result is None else result


def mul_lanes(a: Expr, b: Expr) -> Expr:
    """a * b, as a ramp where possible."""
    result = combined(Mul, a, b)
    return mul(a, b) if result is None else result


def lane_offsets(e: Expr) -> tuple[Expr, tuple[int, ...]] | None:
    """The index vector `e` as a scalar plus a constant offset for each lane; else None.

    broadcast(i * 56, 4) + ramp(0, 1, 4) // 2 * 28 + ramp(0, 1, 4) % 2   ->   i * 56, (0, 1, 28, 29)
    """
    match e:
        case Ramp(base, IntImm(stride), lanes):
            return base, tuple([i * stride for i in range(lanes)])
        case Broadcast(value, lanes):
            return value, (0,) * lanes
        case Add(a, b) | Sub(a, b):
            left, right = lane_offsets(a), lane_offsets(b)
            if left is None or right is None:
                return None
            sign = 1 if isinstance(e, Add) else -1
            base = (add if sign > 0 else sub)(left[0], right[0])
            return base, tuple([x + sign * y for x, y in zip(left[1], right[1], strict=True)])
        case Mul(a, Broadcast(IntImm(factor), _)) if (known := lane_offsets(a)) is not None:
            return mul(known[0], IntImm(factor, known[0].dtype)), tuple(
                [factor * x for x in known[1]]
            )
    values = _constant_lanes(e)
    return None if values is None else (IntImm(0, e.dtype.with_lanes(1)), values)


def _constant_lanes(e: Expr) -> tuple[int, ...] | None:
    """The lanes of a quotient or remainder (or a shift or mask, its lowered form) of constants.

    None for other expressions, and for negative operands.
    """
    match e:
        case FloorDiv(a, b) | FloorMod(a, b) | Div(a, b) | Mod(a, b) | Call(_, (a, b)):
            left, right = lane_offsets(a), lane_offsets(b)
        case _:
            return None
    if left is None or right is None:
        return None
    (x, xs), (y, ys) = left, right
    if not (isinstance(x, IntImm) and isinstance(y, IntImm)):
        return None
    pairs = [(x.value + p, y.value + q) for p, q in zip(xs, ys, strict=True)]
    if any(p < 0 or q < 0 for p, q in pairs):
        return None  # negative operands, for which the forms differ, are not needed here
    match e:
        case FloorDiv() | Div() if all(q for _, q in pairs):
            return tuple([p // q for p, q in pairs])
        case FloorMod() | Mod() if all(q for _, q in pairs):
            return tuple([p % q for p, q in pairs])
        case Call("shift_right"):
            return tuple([p >> q for p, q in pairs])
        case Call("bitwise_and"):
            return tuple([p & q for p, q in pairs])
    return None
