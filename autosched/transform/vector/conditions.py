"""Limits that conditions in a value set to the lanes that its loops can become."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from autosched.tir.expr import BufferLoad, Call, Expr, ProducerLoad, Var
from autosched.tir.walk import distinct, free_vars
from autosched.transform.vector.vectorize_expr import conjuncts

Load = BufferLoad | ProducerLoad
Blocks = Callable[[Load, Var], int]
"""Length of the blocks in which a load's index moves evenly along a variable; 0 if everywhere."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a value along one variable.

    `conditional` says whether a guarded part of the value varies along it. `lanes` limits the
    numbers of lanes that the value has a vector form for, as `InnerLoop.lanes` does: 0 allows any,
    another value its divisors.
    """

    conditional: bool = False
    lanes: int = 0


UNCONDITIONAL = Conditions()


def guarded_parts(value: Expr) -> list[Expr]:
    """The parts of `value` that conditions guard: every if_then_else and every masked load."""
    return [
        e
        for e in distinct(value, lambda e: () if isinstance(e, Load) else e.children())
        if (isinstance(e, BufferLoad) and e.predicate is not None)
        or (isinstance(e, Call) and e.op == "if_then_else")
    ]


def conditions_along(parts: Iterable[Expr], var: Var, blocks: Blocks) -> Conditions:
    """The conditions of a value with the guarded `parts` along `var`."""
    conditional, lanes = False, 0
    for part in parts:
        if var not in free_vars(part):
            continue
        conditional = True
        if isinstance(part, Call):
            for length in _masked_blocks(part, var, blocks):
                lanes = math.gcd(lanes, length)
    return Conditions(conditional, lanes) if conditional else UNCONDITIONAL


def _masked_blocks(part: Call, var: Var, blocks: Blocks) -> Iterator[int]:
    """The block lengths that limit the lanes of an if_then_else that VectorizeLoop masks.

    A load under a condition that differs between lanes must be contiguous. A load of the same
    element for all lanes may be out of bounds where the condition is false for some of them.
    """
    vector: set[Var] = set()
    scalar = False
    for condition in conjuncts(part.args[0]):
        used = free_vars(condition)
        vector |= used if var in used else set()
        scalar |= var not in used
    if not vector:
        return
    for arm in part.args[1:]:
        for e in distinct(arm):
            if not isinstance(e, Load):
                continue
            if var in free_vars(e):
                yield blocks(e, var)
            elif not vector.isdisjoint(free_vars(e)):
                yield 1
    if scalar and any(isinstance(e, Load | Call) for e in distinct(part.args[2])):
        yield 1
