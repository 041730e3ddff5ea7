"""The constants that passes look for."""

from __future__ import annotations

from autosched.tir.expr import Broadcast, Expr, IntImm


def is_zero(e: Expr) -> bool:
    """True for the constant 0 of an integer type, and for False."""
    return isinstance(e, IntImm) and e.value == 0


def is_one(e: Expr) -> bool:
    """True for the constant 1 of an integer type, and for True."""
    return isinstance(e, IntImm) and e.value == 1


def whole_number(e: Expr) -> int | None:
    """The constant of an integer type that `e` is, in all lanes; None where it is none."""
    if isinstance(e, Broadcast):
        e = e.value
    return e.value if isinstance(e, IntImm) else None
