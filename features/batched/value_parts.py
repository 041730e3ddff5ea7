"""Inspect a stored value as it is declared: its loads, its choices, and the divisions in it."""

from __future__ import annotations

from typing import NamedTuple

from autosched.arith import Analyzer
from autosched.te.operations.operation import tensor_loads
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    ProducerLoad,
    Select,
    Var,
)
from autosched.tir.op import all_
from autosched.tir.walk import free_vars, map_expr_children, pre_order, rewrite_expr, substitute
from autosched.transform.loops.known_zeros import residues


def clamps(index: Expr) -> list[type[Expr]]:
    """The minima and maxima in an index, by type.

    Simplification takes several of one kind one by one, and conditions around a value may remove
    them.
    """
    return [type(node) for node in pre_order(index) if isinstance(node, Min | Max)]


def axes_outside_loads(value: Expr) -> frozenset[Var]:
    """The variables of `value` outside of loads."""
    if isinstance(value, ProducerLoad):
        return frozenset()
    children = value.children()
    if not children:
        return free_vars(value)
    return frozenset[Var]().union(*map(axes_outside_loads, children))


def parts_of_axes(value: Expr) -> tuple[Expr, ...]:
    """The value for each axis alone, where the axes are independent of each other; else nothing.

        if_then_else(1 <= h and h < 9 and 1 <= w, X[c, h - 1, w], 0.0)
        -> if_then_else(1 <= h and h < 9, X[h - 1], 0.0), if_then_else(1 <= w, X[w], 0.0)

    Comparisons of different axes with constants have nothing in common that simplification could
    use.
    """
    if not (isinstance(value, Call) and value.op == "if_then_else"):
        return ()
    condition, load, other = value.args
    if not isinstance(load, ProducerLoad) or free_vars(other) or tensor_loads(other):
        return ()
    by_axis: dict[Var, list[Expr]] = {}
    for part in _conjuncts(condition):
        axes = free_vars(part)
        if not isinstance(part, LT | LE | GT | GE | EQ) or len(axes) != 1:
            return ()
        by_axis.setdefault(next(iter(axes)), []).append(part)
    found = []
    for axis, conditions in by_axis.items():
        indices = tuple(index for index in load.indices if axis in free_vars(index))
        if any(len(free_vars(index)) > 1 for index in indices):
            return ()
        alone = ProducerLoad(load.producer, indices)
        found.append(Call(value.dtype, value.op, (all_(*conditions), alone, other)))
    return tuple(found)


def simplified_value(value: Expr, as_ansor: bool) -> Expr:
    """The value simplified, except for quotients and remainders in the indices of its loads.

    A[(8 * i + 3) % 64] stays as it is. Simplification would make i % 8 * 8 + 3 of it, but does not
    find that where a sum of loops takes the place of i.
    """
    left: dict[Expr, Var] = {}

    def stand_in(index: Expr) -> Expr:
        return index if undivided(index) else left.setdefault(index, Var("index", index.dtype))

    def without(e: Expr) -> Expr:
        if isinstance(e, ProducerLoad) and not all(map(undivided, e.indices)):
            return ProducerLoad(e.producer, tuple(map(stand_in, e.indices)))
        return map_expr_children(e, without)

    simple = Analyzer(as_ansor).simplify(without(value))
    return substitute(simple, {var: index for index, var in left.items()}) if left else simple


def own_at(value: Expr, own: Tensor, indices: tuple[Expr, ...]) -> Expr:
    """The value with its loads of `own` moved to `indices`.

    C[i, j] + A[i, k] -> C[0] + A[i, k], for a sum that a thread keeps in one element.
    """

    def moved(e: Expr) -> Expr | None:
        if isinstance(e, ProducerLoad) and e.producer is own:
            return ProducerLoad(own, indices)
        return None

    return rewrite_expr(value, moved)


def asks_for_remainders(value: Expr) -> bool:
    """Whether a condition in the value depends on the remainder of an index."""
    conditions = [e.children()[0] for e in pre_order(value) if _is_choice(e)]
    return any(any(residues(condition)) for condition in conditions)


def _is_choice(e: Expr) -> bool:
    return isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else")


def factors(e: Expr) -> list[ProducerLoad]:
    """The loads that are factors of `e`: it is zero where one of them is."""
    match e:
        case Mul(a, b):
            return [*factors(a), *factors(b)]
        case Cast(a):
            return factors(a)
        case ProducerLoad():
            return [e]
    return []


def undivided(e: Expr) -> bool:
    """Whether `e` has no quotient or remainder."""
    return not any(isinstance(x, FloorDiv | FloorMod) for x in pre_order(e))


def _conjuncts(e: Expr) -> list[Expr]:
    return [*_conjuncts(e.a), *_conjuncts(e.b)] if isinstance(e, And) else [e]


class Border(NamedTuple):
    """first <= value and value < end, in the condition of a choice; None for a missing limit."""

    value: Expr
    first: int | None
    end: int | None


def borders_of(value: Expr) -> tuple[Border, ...]:
    """The index expressions that conditions of choices compare with constants, with their limits.

    if_then_else(1 <= h and h < 57, X[h - 1], 0.0)    ->    h, 1, 57
    """
    found: dict[Expr, tuple[int | None, int | None]] = {}
    for choice in filter(_is_choice, pre_order(value)):
        for condition in _conjuncts(choice.children()[0]):
            limits: tuple[int | None, int | None]
            match condition:
                case LE(IntImm(first), e) | GE(e, IntImm(first)):
                    limits = first, None
                case LT(IntImm(below), e) | GT(e, IntImm(below)):
                    limits = below + 1, None
                case LT(e, IntImm(end)) | GT(IntImm(end), e):
                    limits = None, end
                case LE(e, IntImm(last)) | GE(IntImm(last), e):
                    limits = None, last + 1
                case _:
                    continue
            if not tensor_loads(e):
                before = found.get(e, (None, None))
                least, most = (b if a is None else a for a, b in zip(limits, before, strict=True))
                found[e] = least, most
    return tuple([Border(e, *limits) for e, limits in found.items()])
