"""Turns conditions on single variables into a box: a closed interval for each variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from autosched.arith.facts import conjuncts_of
from autosched.tir.expr import EQ, GE, GT, LE, LT, Expr
from autosched.tir.linear import combine, linear

Ends = tuple[int, int]
Box = dict[Expr, Ends]
"""The first and the last value of each variable; the variables are independent of each other."""


def box_of(conditions: Sequence[Expr], ends: Mapping[Expr, Ends]) -> Box | None:
    """The intervals of the variables, within `ends`, in which all `conditions` hold.

    None when a condition is no bound on a single variable, when it bounds a variable that `ends`
    lacks, and when the conditions hold nowhere.

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
    """The interval of `factor` times the values within `ends`."""
    first, last = ends[0] * factor, ends[1] * factor
    return min(first, last), max(first, last)


def _narrow(box: Box, conjunct: Expr) -> bool:
    """Intersect `box` with `conjunct`; False unless that is a bound on one variable of `box`."""
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
        if factor > 0:  # solve factor * var + constant + less >= 0 for var
            box[var] = max(first, -((constant + less) // factor)), last
        else:
            box[var] = first, min(last, (constant + less) // -factor)
    return True
