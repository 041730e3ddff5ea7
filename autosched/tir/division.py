"""Which divisions of an expression may divide by zero, as far as the node alone tells."""

from __future__ import annotations

from autosched.tir.expr import Div, Expr, FloorDiv, FloorMod, IntImm, Mod


def divides_by_variable(e: Expr) -> bool:
    """Whether `e` itself divides by anything but an integer constant, which might be zero.

    Coarser than `divides_by_unknown` of transform/expressions/unsafe_values.py, which lets floats
    and proven divisors pass; and not what codegen asks, which also refuses a constant zero.
    """
    return isinstance(e, Div | Mod | FloorDiv | FloorMod) and not isinstance(e.b, IntImm)
