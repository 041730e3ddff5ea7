"""Indices that a branch simplifies, as forms.

    if tile < 5: P[h, tile * 4 + i]      where it was P[tile // 5 * 4 + h, tile % 5 * 4 + i]

What simplification makes of them is read from the text of one candidate, and holds for all that
have its numbers in all indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from autosched.features.batched.forms import WHOLE, Flags, Form, Ints, Term
from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Var
from autosched.tir.linear import linear

Digit = tuple[str, int, int, int]
"""The name of a variable, and the lower, the upper and the scale of its term."""
Place = tuple[tuple[int, tuple[Digit, ...]], ...]
"""By dimension what no loop changes, and the digits."""


def place_of(indices: Sequence[Expr]) -> Place | None:
    """The indices as sums of digits; None where one is none."""
    found = []
    for index in indices:
        constant, terms = linear(index)
        digits = []
        for term, scale in terms.items():
            digit = _digit(term)
            if digit is None:
                return None
            digits.append((*digit, scale))
        found.append((constant, tuple(digits)))
    return tuple(found)


def _digit(term: Expr) -> tuple[str, int, int] | None:
    match term:
        case Var(name):
            return name, 1, WHOLE
        case FloorDiv(Var(name), IntImm(lower)):
            return name, lower, WHOLE
        case FloorMod(Var(name), IntImm(upper)):
            return name, 1, upper
        case FloorDiv(FloorMod(Var(name), IntImm(upper)), IntImm(lower)):
            return name, lower, upper
        case FloorMod(FloorDiv(Var(name), IntImm(lower)), IntImm(upper)):
            return name, lower, lower * upper
    return None


def replaced(
    forms: Sequence[Form],
    where: Flags,
    places: Sequence[Place],
    slots: Sequence[Mapping[str, int]],
    by_candidate: Callable[[Sequence[int]], Ints],
) -> list[Form]:
    """`forms`, but `where` those of the places, each with the slots of its variables; the numbers
    of places are spread with `by_candidate`."""
    found = []
    for d, form in enumerate(forms):
        terms = {
            slot: tuple([Term(t.lower, t.upper, np.where(where, 0, t.scale)) for t in own])
            for slot, own in form.terms.items()
        }
        numbers: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for k, (place, slot_of) in enumerate(zip(places, slots, strict=True)):
            seen: dict[int, int] = {}
            for name, *digit in place[d][1] if place else ():
                slot = slot_of[name]
                ordinal = seen[slot] = seen.get(slot, -1) + 1
                every = numbers.setdefault((slot, ordinal), [(1, WHOLE, 0)] * len(places))
                every[k] = (digit[0], digit[1], digit[2])
        for (slot, _), every in numbers.items():
            lower, upper, scale = (by_candidate(column) for column in zip(*every, strict=True))
            there = where & (scale != 0)
            one = Term(
                np.where(there, lower, 1), np.where(there, upper, WHOLE), np.where(there, scale, 0)
            )
            terms[slot] = (*terms.get(slot, ()), one)
        constant = by_candidate([place[d][0] if place else 0 for place in places])
        found.append(Form(terms, np.where(where, constant, form.base)))
    return found
