"""Arithmetic for the results of rewrite rules, which refuses constants that overflow their type.

Rules hold for exact arithmetic. A rule that would make a constant which its type cannot hold raises
`DoesNotFitError` and is not applied. Neither is a rule that would divide by 0, as can happen with
unreachable code.
"""

from __future__ import annotations

from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm


class DoesNotFitError(Exception):
    """Raised when a constant in the result of a rule does not fit in its type."""


def const(value: int, dtype: DType) -> Expr:
    """The constant `value`; DoesNotFitError when `dtype` cannot hold it."""
    if -(2**31) < value < 2**31 and dtype.is_index:
        return op.const(value, dtype)
    if dtype.is_integral and not dtype.min_value <= value <= dtype.max_value:
        raise DoesNotFitError
    return op.const(value, dtype)


def add(a: Expr, b: Expr) -> Expr:
    """a + b; DoesNotFitError when both are constants and the sum does not fit."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value + b.value, a.dtype)
    return op.add(a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b; DoesNotFitError when both are constants and the difference does not fit."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value - b.value, a.dtype)
    return op.sub(a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b; DoesNotFitError when both are constants and the product does not fit."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value * b.value, a.dtype)
    return op.mul(a, b)
