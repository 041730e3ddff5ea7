"""What an expression is made of, and what evaluating it does besides giving a value."""

from __future__ import annotations

from collections.abc import Callable

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


def mentions(*types: type[Expr]) -> Callable[[Expr], bool]:
    """A test whether an expression contains a node of one of `types`, remembering its answers."""
    wanted = frozenset(types)
    known: dict[Expr, bool] = {}

    def look(e: Expr) -> bool:
        found = known.get(e)
        if found is None:
            found = known[e] = type(e) in wanted or any(map(look, e.children()))
        return found

    return look
