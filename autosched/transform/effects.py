"""What evaluating an expression does besides giving a value."""

from __future__ import annotations

from autosched.tir.expr import BufferLoad, Call, Expr, ProducerLoad
from autosched.tir.intrin import EFFECTS, Effect
from autosched.tir.walk import pre_order

_HARMLESS = (Effect.PURE, Effect.ANNOTATION)


def is_lasting(e: Expr) -> bool:
    """True when `e` has the same value wherever its variables do: no loads, only pure calls."""
    for node in pre_order(e):
        if isinstance(node, Call):
            if EFFECTS.get(node.op) not in _HARMLESS:
                return False
        elif isinstance(node, BufferLoad | ProducerLoad):
            return False
    return True


def has_side_effect(e: Expr) -> bool:
    """True when evaluating `e` may change something; loads do not."""
    for node in pre_order(e):
        if isinstance(node, Call) and EFFECTS.get(node.op, Effect.OPAQUE) is Effect.OPAQUE:
            return True
    return False
