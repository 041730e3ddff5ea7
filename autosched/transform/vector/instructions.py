"""Estimate how many vector instructions a value takes."""

from __future__ import annotations

from autosched.nest.total import total
from autosched.tir.expr import Add, Broadcast, BufferLoad, Call, Expr, IntImm, Mul, Ramp, Var
from autosched.tir.intrin import UNARY_MATH

_MATH_CALL = 20.0


def instructions(value: Expr) -> float:
    """Vector instructions of one step of `value` without loads; a multiply and an add are one."""
    return _counted(value, {})


def _counted(e: Expr, known: dict[Expr, float]) -> float:
    if isinstance(e, BufferLoad | IntImm | Var):
        return 0.0
    found = known.get(e)
    if found is None:
        children = e.children()
        found = total(_counted(c, known) for c in children)
        if not isinstance(e, Broadcast | Ramp):
            found += 1
            if isinstance(e, Add):
                found -= any(isinstance(c, Mul) for c in children)
            elif isinstance(e, Call) and e.op in UNARY_MATH:
                found += _MATH_CALL
        known[e] = found
    return found


def step_weight(value: Expr) -> float:
    """The instructions of a step of a reduction, or of a store: at least one."""
    return max(1.0, instructions(value))
