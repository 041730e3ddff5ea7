"""The constants that passes look for."""

from __future__ import annotations

from autosched.tir.expr import Expr, IntImm


def is_zero(e: Expr) -> bool:
    """True for the constant 0 of an integer type, and for False."""
    return isinstance(e, IntImm) and e.value == 0


def is_one(e: Expr) -> bool:
    """True for the constant 1 of an integer type, and for True."""
    return isinstance(e, IntImm) and e.value == 1
