"""Indices that consist of an axis whose loops are mixed, and of terms of the loops around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from autosched.features.ansor.stride import stride_along
from autosched.features.batched.axis_text import AxisText
from autosched.features.batched.forms import WHOLE, Flags, Form, Forms, Ints, uses_slot
from autosched.features.batched.mixed import Mixed
from autosched.features.batched.written import Ends, Written, either
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var

_UNKNOWN = -1
"""A nonzero stand-in for the stride along a loop outside of the stage; no row needs its value."""


def mixed_index(
    forms: Forms,
    form: Form,
    order: Mapping[int, int],
    own: Collection[int],
    as_ansor: bool,
) -> tuple[Written | None, Flags]:
    """The index as the walk reads it, and where it must be read from the whole text instead.

    The first is None where no axis in the index is a text. `order` has the positions of the loops
    by slot, outermost first; `own` are the slots of the stage. Strides are Ansor's guesses; unless
    `as_ansor`, they only say which loops are in the index.
    """
    deep = deep_in(forms, form, own, as_ansor)
    found = []
    for slot, terms in form.terms.items():
        if slot in forms.virtual:
            some = uses_slot(terms)
            if some.any():
                found.append((slot, some))
                for other in _inside(form, forms.virtual[slot][0], order):
                    deep |= some & uses_slot(form.terms[other])
    text: Written | None = None
    for slot, some in found:
        one = _written(forms, form, slot, some & ~deep, order, as_ansor)
        text = one if text is None else either(one, text, order)
    return text, deep


def deep_in(forms: Forms, form: Form, own: Collection[int], as_ansor: bool) -> Flags:
    """Where the index is not simply one axis that is a text plus terms of the loops around.

    Another loop of the same stage, such as that of a window, is not one of the loops around.
    """
    deep, where = deeper_in(forms, form, own, as_ansor), np.zeros(forms.count, bool)
    for slot, terms in form.terms.items():
        if slot in forms.virtual:
            mixed, _ = forms.virtual[slot]
            inside = np.zeros(forms.count, bool)
            for leaf in mixed.leaves:
                if leaf in form.terms:
                    inside |= uses_slot(form.terms[leaf])
            for term in terms:
                deep |= (term.scale != 0) & inside
                there = term.scale != 0
                plain = (term.scale == 1) & (term.lower == 1) & (term.upper >= WHOLE)
                deep |= there & (where | ~plain)
                where |= there
    return deep


def deeper_in(forms: Forms, form: Form, own: Collection[int], as_ansor: bool) -> Flags:
    """Where an axis of a stage around the loops `own` is written otherwise in its region."""
    found = np.zeros(forms.count, bool)
    for slot, terms in form.terms.items():
        if slot in forms.virtual:
            mixed, axis = forms.virtual[slot]
            if not set(own) & set(mixed.leaves):
                found |= uses_slot(terms) & mixed.differs(axis, as_ansor)
    return found


def _inside(form: Form, mixed: Mixed, order: Mapping[int, int]) -> list[int]:
    """The loops in the index that are inside the outermost loop of the text."""
    first = min((order[leaf] for leaf in mixed.leaves if leaf in order), default=len(order))
    others = form.terms.keys() & order.keys() - set(mixed.leaves)
    return [other for other in others if order[other] > first]


def _written(
    forms: Forms,
    form: Form,
    slot: int,
    where: Flags,
    order: Mapping[int, int],
    as_ansor: bool,
) -> Written:
    mixed, k = forms.virtual[slot]
    axes = [entry.axes[k] for entry in mixed.entries]
    which = mixed.which
    low, high = _gathered([axis.start for axis in axes], which)
    start = form.base + low, form.base + high
    ends: dict[int, Ends] = {}
    strides: dict[int, Ints] = {}
    inner_first = range(len(mixed.leaves) - 1, -1, -1)
    for position in inner_first:
        leaf = mixed.leaves[position]
        low, high = _gathered([axis.ends[position] for axis in axes], which)
        ends[leaf] = form.base + low, form.base + high
    if as_ansor:
        for position, stride in _strides(forms, form, mixed, k, where).items():
            strides[mixed.leaves[position]] = stride
    else:
        used = np.array([axis.used for axis in axes], np.int64)[which] * where[:, None]
        strides.update(zip(mixed.leaves, used.T, strict=True))
    now = ends[mixed.leaves[0]]
    outside = form.terms.keys() & order.keys() - ends.keys() - set(_inside(form, mixed, order))
    for other in sorted(outside, key=lambda s: -order[s]):
        there = np.zeros(forms.count, bool)
        for term in form.terms[other]:
            reach = term.scale * forms.largest(other, term)
            now = now[0] + np.minimum(reach, 0), now[1] + np.maximum(reach, 0)
            there |= term.scale != 0
        ends[other] = now
        strides[other] = np.where(there, _UNKNOWN, 0)
    return Written(where, start, ends, strides)


def _gathered(bounds: list[tuple[int, int]], which: Ints) -> Ends:
    table = np.array(bounds, np.int64)[which]
    return table[:, 0], table[:, 1]


def _strides(forms: Forms, form: Form, mixed: Mixed, k: int, where: Flags) -> dict[int, Ints]:
    """The guessed strides along the stage's loops, by position."""
    others = []
    for slot, term in form.every():
        if slot not in forms.virtual:
            upper = np.where(term.upper < forms.extents[slot], term.upper, WHOLE)
            numbers = term.scale, np.maximum(term.lower, 1), upper
            others += [np.where(term.scale != 0, number, 0) for number in numbers]
    table = np.stack([mixed.which, np.sign(form.base), *others], axis=1)
    rows = np.flatnonzero(where)
    different, which = np.unique(table[rows], axis=0, return_inverse=True)
    guesses = np.zeros((len(mixed.leaves), len(different)), np.int64)
    for n, (entry, sign, *rest) in enumerate(different.tolist()):
        text = mixed.entries[entry]
        expr = _sum(text.axes[k], list(zip(*[iter(rest)] * 3, strict=True)), sign)
        for position, var in enumerate(text.variables):
            if var is not None and text.axes[k].used[position]:
                guesses[position, n] = stride_along([(expr,)], (1,), var)
    found: dict[int, Ints] = {}
    for position in range(len(mixed.leaves)):
        every = forms.full(0)
        every[rows] = guesses[position][which.reshape(-1)]
        found[position] = every
    return found


def _sum(axis: AxisText, outside: list[tuple[int, ...]], sign: int) -> Expr:
    """The text of the axis plus terms (scale, lower, upper) and a constant of this sign.

    The terms are in the order of canonical sums (`arith/sum_form.py`).
    """
    other = Var("outside")
    terms = [(_order(term), term) for term in axis.terms]
    for scale, lower, upper in outside:
        if scale > 0:
            product = other if scale == 1 else Mul(other, IntImm(scale))
            terms.append(((-scale, -lower, -upper), product))
    terms.sort(key=lambda each: each[0])
    found: Expr | None = None
    for _, term in terms:
        found = term if found is None else Add(found, term)
    assert found is not None
    if sign > 0:
        found = Add(found, IntImm(3))
    for scale, _, _ in outside:
        if scale < 0:
            found = Sub(found, other if scale == -1 else Mul(other, IntImm(-scale)))
    return Sub(found, IntImm(3)) if sign < 0 else found


def _order(term: Expr) -> tuple[int, int, int]:
    scale, lower, upper = 1, 1, WHOLE
    match term:
        case Mul(inside, IntImm(value)):
            term, scale = inside, value
    match term:
        case FloorDiv(inside, IntImm(value)):
            term, lower = inside, value
    match term:
        case FloorMod(_, IntImm(value)):
            upper = value
    return -scale, -lower, -upper
