"""Tests for constant expressions: zero, one, any integer."""

from __future__ import annotations

from autosched.tir.expr import Broadcast, Expr, IntImm


def is_zero(e: Expr) -> bool:
    """True for the constant 0 of an integer type, and for the constant False."""
    return isinstance(e, IntImm) and e.value == 0


def is_one(e: Expr) -> bool:
    """True for the constant 1 of an integer type, and for the constant True."""
    return isinstance(e, IntImm) and e.value == 1


def whole_number(e: Expr) -> int | None:
    """The value of `e` if it is an integer constant, or a broadcast of one; else None."""
    if isinstance(e, Broadcast):
        e = e.value
    return e.value if isinstance(e, IntImm) else None


def is_negative(e: Expr) -> bool:
    """Whether `e` is an integer constant below 0."""
    return isinstance(e, IntImm) and e.value < 0


def is_whole(e: Expr) -> bool:
    """Whether `e` is a single integer, constant or not."""
    return e.dtype.is_integral and not e.dtype.is_bool and e.dtype.lanes == 1
