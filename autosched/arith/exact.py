"""Building blocks of rewrite rules: constants that do not fit in their type are no result.

Rules hold for exact arithmetic. Where a rule would make a constant that its type cannot hold,
`DoesNotFitError` is raised and the rule is not applied; nor is one that would divide by 0, which
code that is never reached may do.
"""

from __future__ import annotations

from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm


class DoesNotFitError(Exception):
    """A constant in the result of a rule is outside its type."""


def const(value: int, dtype: DType) -> Expr:
    """The constant; DoesNotFitError when `dtype` cannot hold it."""
    if -(2**31) < value < 2**31 and dtype.is_index:
        return op.const(value, dtype)
    if dtype.is_integral and not dtype.min_value <= value <= dtype.max_value:
        raise DoesNotFitError
    return op.const(value, dtype)


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value + b.value, a.dtype)
    return op.add(a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value - b.value, a.dtype)
    return op.sub(a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b."""
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return const(a.value * b.value, a.dtype)
    return op.mul(a, b)
