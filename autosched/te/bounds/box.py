"""Conditions that bound each variable by itself: where they hold is a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from autosched.arith.facts import conjuncts_of
from autosched.tir.expr import EQ, GE, GT, LE, LT, Expr
from autosched.tir.linear import combine, linear

Ends = tuple[int, int]
Box = dict[Expr, Ends]
"""The first and the last value of variables that are independent of each other."""


def box_of(conditions: Sequence[Expr], ends: Mapping[Expr, Ends]) -> Box | None:
    """The values within `ends` for which all conditions hold.

    None where they say more than bounds of single variables do, of a variable without `ends`, or
    never hold.

    >>> from autosched.tir.expr import And, Var
    >>> i, j = Var("i"), Var("j")
    >>> box_of([And(i >= 2, j < 5)], {i: (0, 9), j: (0, 9)})
    {i: (2, 9), j: (0, 4)}
    >>> box_of([i < j], {i: (0, 9), j: (0, 9)})  # no box
    """
    box = dict(ends)
    for conjunct in chain.from_iterable(map(conjuncts_of, conditions)):
        if not _narrow(box, conjunct):
            return None
    return box if all(first <= last for first, last in box.values()) else None


def scaled(ends: Ends, factor: int) -> Ends:
    """The least and the largest multiple."""
    first, last = ends[0] * factor, ends[1] * factor
    return min(first, last), max(first, last)


def _narrow(box: Box, conjunct: Expr) -> bool:
    """Leave of the variable what the comparison allows; False where it is none of one variable."""
    match conjunct:
        case LT(a, b):
            bounds = [(b, a, -1)]
        case LE(a, b):
            bounds = [(b, a, 0)]
        case GT(a, b):
            bounds = [(a, b, -1)]
        case GE(a, b):
            bounds = [(a, b, 0)]
        case EQ(a, b):
            bounds = [(a, b, 0), (b, a, 0)]
        case _:
            return False
    for larger, smaller, less in bounds:
        if not larger.dtype.is_index:
            return False
        constant, terms = combine(linear(larger), linear(smaller), -1)
        if len(terms) != 1:
            return False
        ((var, factor),) = terms.items()
        if var not in box:
            return False
        first, last = box[var]
        if factor > 0:  # factor * var + constant + less >= 0
            box[var] = max(first, -((constant + less) // factor)), last
        else:
            box[var] = first, min(last, (constant + less) // -factor)
    return True
