"""Functions that build expressions: they unify types and fold constants.

The folds are those of the constructors of Ansor's IR: two constants; x+0, x-0, x*1, x*0, 0//x,
x//1, x%1; and/or with constants; min/max of one object.

For bools the sum is `or` and the product is `and`, as in NumPy; other arithmetic refuses them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir import expr, iteration, operators
from autosched.tir.conversion import (
    Operand,
    as_condition,
    as_expr,
    broadcast,
    cast,
    const,
    folded,
    max_value,
    min_value,
    unify,
    unify_numbers,
)
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    binary,
)

__all__ = [
    "MOST_FACTORS",
    "Operand",
    "abs_",
    "add",
    "all_",
    "and_",
    "any_",
    "as_condition",
    "as_expr",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "call",
    "cast",
    "const",
    "div",
    "eq",
    "floordiv",
    "floormod",
    "ge",
    "gt",
    "if_then_else",
    "le",
    "likely",
    "lt",
    "max_",
    "max_value",
    "min_",
    "min_value",
    "mul",
    "ne",
    "neg",
    "not_",
    "or_",
    "power",
    "select",
    "shift_left",
    "shift_right",
    "sub",
    "truncdiv",
    "truncmod",
    "unify",
    "whole",
]

MOST_FACTORS = 64
"""The largest integer exponent for which a power becomes a product."""


def _value(e: Expr) -> Any:
    cls = e.__class__
    if cls is FloatImm and e.dtype.is_custom:
        return None  # only the lowering of a custom type knows to what the value is rounded
    return e.value if cls is IntImm or cls is FloatImm else None  # type: ignore[attr-defined]  # both have one


def add(a: Operand, b: Operand) -> Expr:
    """a + b."""
    if not (isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype):
        a, b = unify(a, b)
    left, right = a.__class__, b.__class__
    if right is IntImm or right is FloatImm:
        y = b.value  # type: ignore[attr-defined]  # constants have a value
        if left is right and not a.dtype.is_custom:
            return folded(a.value + y, a.dtype)  # type: ignore[attr-defined]
        if y == 0:
            return a
    elif (left is IntImm or left is FloatImm) and a.value == 0:  # type: ignore[attr-defined]
        return b
    return or_(a, b) if a.dtype.is_bool else binary(Add, a, b)


def sub(a: Operand, b: Operand) -> Expr:
    """a - b."""
    if not (isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype):
        a, b = unify(a, b)
    if a.dtype.is_bool:
        unify_numbers("-", a, b)  # raises TypeError
    right = b.__class__
    if right is IntImm or right is FloatImm:
        y = b.value  # type: ignore[attr-defined]  # constants have a value
        if a.__class__ is right and not a.dtype.is_custom:
            return folded(a.value - y, a.dtype)
        if y == 0:
            return a
    return binary(Sub, a, b)


def mul(a: Operand, b: Operand) -> Expr:
    """a * b."""
    if not (isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype):
        a, b = unify(a, b)
    left, right = a.__class__, b.__class__
    if right is IntImm or right is FloatImm:
        y = b.value  # type: ignore[attr-defined]  # constants have a value
        if left is right and not a.dtype.is_custom:
            return folded(a.value * y, a.dtype)  # type: ignore[attr-defined]
        if y == 1:
            return a
        if y == 0 and right is IntImm:  # not for floats: infinity * 0 is NaN
            return b
    elif left is IntImm or left is FloatImm:
        x = a.value  # type: ignore[attr-defined]
        if x == 1:
            return b
        if x == 0 and left is IntImm:
            return a
    return and_(a, b) if a.dtype.is_bool else binary(Mul, a, b)


def neg(a: Operand) -> Expr:
    """-a, as a * -1 (as in TVM; it gives -0 for float 0); for unsigned integers 0 - a."""
    a = as_expr(a)
    if a.dtype.is_bool:
        raise TypeError(
            f"- of the truth value {a!r}: te.logical_not is its opposite; or cast it to an integer "
            "first, e.g. te.cast('int32', ...)"
        )
    if isinstance(a, IntImm | FloatImm):
        return folded(-a.value, a.dtype)
    return sub(const(0, a.dtype), a) if a.dtype.code == "uint" else mul(a, const(-1, a.dtype))


def div(a: Operand, b: Operand) -> Expr:
    """a / b on floats; TypeError for integers, which must say which division they mean."""
    a, b = unify(a, b)
    if not (a.dtype.is_float or a.dtype.is_custom):
        raise TypeError(
            f"/ on {a.dtype} is ambiguous: use // (floordiv), te.truncdiv, or cast to float first"
        )
    return truncdiv(a, b)


def truncdiv(a: Operand, b: Operand) -> Expr:
    """a / b: exact on floats, rounded toward zero on integers."""
    a, b = unify_numbers("truncdiv", a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} / 0")
    if x is not None and y is not None and y != 0:
        if a.dtype.is_float:
            return folded(x / y, a.dtype)
        q = abs(x) // abs(y)
        return folded(q if (x < 0) == (y < 0) else -q, a.dtype)
    if y == 1 or (x == 0 and a.dtype.is_integral):
        return a
    return Div(a, b)


def truncmod(a: Operand, b: Operand) -> Expr:
    """The remainder of truncdiv: it has the sign of a."""
    a, b = unify_numbers("truncmod", a, b)
    x, y = _value(a), _value(b)
    if a.dtype.is_integral:
        if y == 0:
            raise ZeroDivisionError(f"division by zero: {a!r} truncmod 0")
        if x is not None and y is not None:
            r = abs(x) % abs(y)
            return folded(r if x >= 0 else -r, a.dtype)
        if y == 1 or x == 0:
            return const(0, a.dtype)
    return Mod(a, b)


def floordiv(a: Operand, b: Operand) -> Expr:
    """a // b, rounded toward minus infinity."""
    a, b = unify_numbers("//", a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} // 0")
    if x is not None and y is not None and y != 0:
        return folded(x // y, a.dtype)
    if (y == 1 or x == 0) and a.dtype.is_integral:
        return a
    return binary(FloorDiv, a, b)


def floormod(a: Operand, b: Operand) -> Expr:
    """a % b: it has the sign of b."""
    a, b = unify_numbers("%", a, b)
    x, y = _value(a), _value(b)
    if y == 0 and a.dtype.is_integral:
        raise ZeroDivisionError(f"division by zero: {a!r} % 0")
    if x is not None and y is not None and y != 0:
        return folded(x % y, a.dtype)
    if a.dtype.is_integral and (y == 1 or x == 0):
        return const(0, a.dtype)
    return binary(FloorMod, a, b)


def min_(a: Operand, b: Operand) -> Expr:
    """The smaller of a and b."""
    a, b = unify(a, b)
    if a is b:
        return a
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return folded(x if x < y or x != x else y, a.dtype)  # NaN stays NaN
    return binary(Min, a, b)


def max_(a: Operand, b: Operand) -> Expr:
    """The larger of a and b."""
    a, b = unify(a, b)
    if a is b:
        return a
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return folded(x if x > y or x != x else y, a.dtype)
    return binary(Max, a, b)


def _compare(
    cls: type[BinaryExpr], a: Operand, b: Operand, fold: Callable[[Any, Any], bool]
) -> Expr:
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return IntImm(int(fold(x, y)), bool_)
    return binary(cls, a, b)


def eq(a: Operand, b: Operand) -> Expr:
    """a == b as an expression (Python's == may also compare objects, see `Comparison`)."""
    return _compare(EQ, a, b, lambda x, y: x == y)


def ne(a: Operand, b: Operand) -> Expr:
    """a != b as an expression."""
    return _compare(NE, a, b, lambda x, y: x != y)


def lt(a: Operand, b: Operand) -> Expr:
    """a < b."""
    return _compare(LT, a, b, lambda x, y: x < y)


def le(a: Operand, b: Operand) -> Expr:
    """a <= b."""
    return _compare(LE, a, b, lambda x, y: x <= y)


def gt(a: Operand, b: Operand) -> Expr:
    """a > b."""
    return _compare(GT, a, b, lambda x, y: x > y)


def ge(a: Operand, b: Operand) -> Expr:
    """a >= b."""
    return _compare(GE, a, b, lambda x, y: x >= y)


def and_(a: Operand, b: Operand) -> Expr:
    """a and b, both evaluated."""
    a, b = as_condition("te.all", a), as_condition("te.all", b)
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        return b if x else a
    if y is not None:
        return a if y else b
    return binary(And, a, b)


def or_(a: Operand, b: Operand) -> Expr:
    """a or b, both evaluated."""
    a, b = as_condition("te.any", a), as_condition("te.any", b)
    a, b = unify(a, b)
    x, y = _value(a), _value(b)
    if x is not None:
        return a if x else b
    if y is not None:
        return b if y else a
    return Or(a, b)


def not_(a: Operand) -> Expr:
    """not a."""
    a = as_condition("te.logical_not", a)
    return IntImm(int(not a.value), bool_) if isinstance(a, IntImm) else Not(a)


def power(a: Operand, b: Operand) -> Expr:
    """a ** b: products if b is an integer from 0 to 64, sqrt if it is 0.5, else pow."""
    factors = b.value if isinstance(b, IntImm) else b
    if isinstance(a, operators.Operators) and isinstance(factors, int | np.integer):
        if 0 <= factors <= MOST_FACTORS:
            return _repeated(as_expr(a), int(factors))
    x, y = unify(a, b)
    if not x.dtype.is_float:
        raise TypeError(
            f"{x!r} ** {y!r}: an integer needs a number from 0 to {MOST_FACTORS} as exponent; cast "
            "it to a float first, e.g. te.cast('float32', ...)"
        )
    return call("sqrt", x) if _value(y) == 0.5 else call("pow", x, y)


def _repeated(base: Expr, exponent: int) -> Expr:
    """base ** exponent by squaring."""
    result: Expr | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else mul(result, base)
        exponent >>= 1
        if exponent:
            base = mul(base, base)
    return const(1, base.dtype) if result is None else result


def abs_(a: Operand) -> Expr:
    """The absolute value: `fabs` for floats, a Select for signed integers."""
    e = as_expr(a)
    if e.dtype.is_float:
        return call("fabs", e)
    return select(ge(e, 0), e, sub(const(0, e.dtype), e)) if e.dtype.is_int else e


def whole(name: str, a: Operand) -> Expr:
    """`a` rounded to a whole number by intrinsic `name`, e.g. floor; integers are unchanged."""
    e = as_expr(a)
    return call(name, e) if e.dtype.is_float else e


def _of_bits(
    name: str, a: Operand, b: Operand, of_truth: Callable[[Expr, Expr], Expr] | None = None
) -> Expr:
    a, b = unify(a, b)
    if a.dtype.is_bool and of_truth is not None:
        return of_truth(a, b)
    if not a.dtype.is_integral or a.dtype.is_bool:
        what = "integers" if of_truth is None else "integers or truth values"
        raise TypeError(f"te.{name} takes {what}, found {a.dtype}: cast them first")
    return call(name, a, b)


def bitwise_and(a: Operand, b: Operand) -> Expr:
    """a & b: bitwise for integers, `and` for bools."""
    return _of_bits("bitwise_and", a, b, and_)


def bitwise_or(a: Operand, b: Operand) -> Expr:
    """a | b: bitwise for integers, `or` for bools."""
    return _of_bits("bitwise_or", a, b, or_)


def bitwise_xor(a: Operand, b: Operand) -> Expr:
    """a ^ b: bitwise for integers, exclusive or for bools."""
    return _of_bits("bitwise_xor", a, b, ne)


def bitwise_not(a: Operand) -> Expr:
    """~a: bitwise for integers, `not` for bools."""
    e = as_expr(a)
    if e.dtype.is_bool:
        return not_(e)
    if not e.dtype.is_integral:
        raise TypeError(
            f"te.bitwise_not takes an integer or a truth value, found {e.dtype}: cast it first"
        )
    return call("bitwise_not", e)


def shift_left(a: Operand, b: Operand) -> Expr:
    """a << b for integers; b is taken modulo their bits."""
    return _of_bits("shift_left", a, b)


def shift_right(a: Operand, b: Operand) -> Expr:
    """a >> b for integers, keeping the sign; b is taken modulo their bits."""
    return _of_bits("shift_right", a, b)


def all_(*conditions: Operand) -> Expr:
    """The conditions joined by `and`, left to right; true when there are none."""
    result: Expr | None = None
    for condition in conditions:
        one = as_condition("te.all", condition)
        result = one if result is None else and_(result, one)
    return IntImm(1, bool_) if result is None else result


def any_(*conditions: Operand) -> Expr:
    """The conditions joined by `or`, left to right; false when there are none."""
    result: Expr | None = None
    for condition in conditions:
        one = as_condition("te.any", condition)
        result = one if result is None else or_(result, one)
    return IntImm(0, bool_) if result is None else result


def _arms(condition: Expr, a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Both values with a common type, and with the lanes of the condition."""
    a, b = unify(a, b)
    lanes = condition.dtype.lanes
    if lanes > 1 and a.dtype.lanes == 1:
        return broadcast(a, lanes), broadcast(b, lanes)
    return a, b


def select(condition: Operand, true_value: Operand, false_value: Operand) -> Expr:
    """A Select, folded when the condition is constant.

    For vectors both values are computed, except a value that may read out of bounds or divide by
    zero: that one is computed only where it is chosen
    (`transform/expressions/guard_selects.py`).
    """
    condition = as_condition("te.select", condition)
    a, b = _arms(condition, true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Select(condition, a, b)


def if_then_else(condition: Operand, true_value: Operand, false_value: Operand) -> Expr:
    """The intrinsic that evaluates only the branch taken."""
    condition = as_condition("te.if_then_else", condition)
    a, b = _arms(condition, true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Call(a.dtype, "if_then_else", (condition, a, b))


def likely(condition: Operand) -> Expr:
    """`condition` marked as usually true; constants stay as they are."""
    condition = as_condition("te.likely", condition)
    return (
        condition
        if isinstance(condition, IntImm)
        else Call(condition.dtype, "likely", (condition,))
    )


def call(op: str, *args: Operand, dtype: DType | None = None) -> Expr:
    """A call of an elementwise intrinsic; without `dtype` it has the type of the first argument."""
    exprs = tuple(as_expr(a) for a in args)
    return Call(dtype or exprs[0].dtype, op, exprs)


# Expressions need these functions for operators and rewriting, but this module imports them.
for _module in (expr, iteration, operators):
    vars(_module)["_op"] = sys.modules[__name__]
