"""Estimate how many vector instructions a value takes."""

from __future__ import annotations

from autosched.tir.expr import Add, Broadcast, BufferLoad, Call, Expr, IntImm, Mul, Ramp, Var
from autosched.tir.intrin import UNARY_MATH

_MATH_CALL = 20.0


def instructions(value: Expr) -> float:
    """Vector instructions of one step of `value` without loads; a multiply and an add are one."""
    total, stack = 0.0, [value]
    while stack:
        e = stack.pop()
        if isinstance(e, BufferLoad | IntImm | Var):
            continue
        children = e.children()
        stack.extend(children)
        if isinstance(e, Broadcast | Ramp):
            continue
        total += 1
        if isinstance(e, Add):
            total -= any(isinstance(c, Mul) for c in children)
        elif isinstance(e, Call) and e.op in UNARY_MATH:
            total += _MATH_CALL
    return total


def step_weight(value: Expr) -> float:
    """The instructions of a step of a reduction, or of a store: at least one."""
    return max(1.0, instructions(value))
