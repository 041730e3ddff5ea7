"""Side effects of expressions, and which node types occur in them."""

from __future__ import annotations

from collections.abc import Callable

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Call, Expr, ProducerLoad
from autosched.tir.intrin import EFFECTS, Effect
from autosched.tir.kinds import bits_of, kinds, loads_in
from autosched.tir.walk import distinct

_HARMLESS = (Effect.PURE, Effect.ANNOTATION)
_CALLS = bits_of(Call)
_UNSURE = bits_of(Call, BufferLoad, ProducerLoad)


def is_lasting(e: Expr) -> bool:
    """True if the value of `e` depends only on its variables: no loads, only pure calls."""
    if not kinds(e) & _UNSURE:
        return True
    for node in distinct(e):
        if isinstance(node, Call):
            if EFFECTS.get(node.op) not in _HARMLESS:
                return False
        elif isinstance(node, BufferLoad | ProducerLoad):
            return False
    return True


def has_side_effect(e: Expr) -> bool:
    """True if evaluating `e` may change state; loads do not count."""
    if not kinds(e) & _CALLS:
        return False
    for node in distinct(e):
        if isinstance(node, Call) and EFFECTS.get(node.op, Effect.OPAQUE) is Effect.OPAQUE:
            return True
    return False


def mentions(*types: type[Expr]) -> Callable[[Expr], bool]:
    """A predicate: whether an expression contains a node of one of `types`."""
    wanted = bits_of(*types)
    return lambda e: bool(kinds(e) & wanted)


def loads_elsewhere(value: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    """True if `value` loads from the memory of `buffer`, except from `buffer` at `indices`."""
    return any(
        load.buffer.data is buffer.data and (load.buffer is not buffer or load.indices != indices)
        for load in loads_in(value)
    )
