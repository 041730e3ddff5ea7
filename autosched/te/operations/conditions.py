"""Short-circuit conditions: each is evaluated only where those before it hold.

An `and` evaluates both of its sides. Where a schedule makes loops longer than an axis, the user's
condition of a reduction must not be evaluated beyond the axis: it may read out of bounds there.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.constants import is_zero
from autosched.tir.division import divides_by_variable
from autosched.tir.dtype import bool_
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Expr,
    IntImm,
    ProducerLoad,
)
from autosched.tir.op import all_, if_then_else, likely
from autosched.tir.walk import distinct


def within(predicates: Sequence[Expr], condition: Expr) -> Expr:
    """`condition` where all `predicates` hold; elsewhere it is false and not evaluated."""
    if not predicates:
        return condition
    return if_then_else(likely(all_(*predicates)), condition, IntImm(0, bool_))


def in_turn(condition: Expr) -> list[Expr]:
    """The conditions of nested `if` statements that are equivalent to one `if` with `condition`."""
    parts = []
    while (
        isinstance(condition, Call)
        and condition.op == "if_then_else"
        and is_zero(condition.args[2])
    ):
        parts += in_turn(condition.args[0])
        condition = condition.args[1]
    return [*parts, condition]


def may_fail(condition: Expr) -> bool:
    """Whether `condition` reads memory, calls a function, or divides by a non-constant."""
    return any(map(_fails, distinct(condition)))


def _fails(e: Expr) -> bool:
    calls = isinstance(e, Call) and e.op != "likely"
    return divides_by_variable(e) or isinstance(e, BufferLoad | ProducerLoad) or calls
