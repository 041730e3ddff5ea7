"""Indices that are no forms for some candidates: read from their text, as the walk does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.features.ansor.stride import stride_along
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.one import (
    Axes,
    alike,
    axes_in,
    same_loads,
    signature,
    simplified,
)
from autosched.features.batched.ops import loads_of
from autosched.features.walk.regions import IndexBounds
from autosched.features.walk.scope import Loop
from autosched.tir.expr import Expr, Var

Ends = tuple[Ints, Ints]
_NO_LOOP = Var("none")


@dataclass(frozen=True, eq=False)
class Written:
    """An index of the candidates `where`: its ends, and coefficients of the loops' variables.

    `start` are the ends when no loop runs, `ends` by slot those when the loop and what is inside
    it run; a coefficient is 0 where the variable is not in the index.
    """

    where: Flags
    start: Ends
    ends: dict[int, Ends]
    strides: dict[int, Ints]


_Row = tuple[tuple[int, int], dict[int, tuple[int, int]], dict[int, int]]


def written_index(
    forms: Forms,
    every: Axes,
    value: Expr,
    place: tuple[int, int],
    order: Mapping[int, int],
    where: Flags,
) -> Written:
    """The index at dimension place[1] of load place[0] of `value`, for the candidates `where`.

    `order` has the positions of the loops by slot, outermost first. Candidates whose value loses
    a load are marked bad.
    """
    axes = axes_in(value, every)
    first, which = alike(forms, axes)
    slots = {slot for form in axes.values() for slot in form.terms if slot in order}
    inner_first = sorted(slots, key=lambda slot: -order[slot])
    needed = set(which[where].tolist())
    rows: dict[int, _Row] = {}
    known: dict[tuple[int, ...], _Row | None] = {}
    for k in needed:
        n = int(first[k])
        key = signature(forms, axes, n, order)
        if key not in known:
            known[key] = _one(forms, axes, value, place, order, n)
        row = known[key]
        if row is None:
            forms.refuse(which == k, "a value that loses a load")
        else:
            rows[k] = row
    table = np.zeros((2 + 3 * len(slots), len(first)), np.int64)
    for k, (start, ends, strides) in rows.items():
        low, high = table[:2, k] = start
        for i, slot in enumerate(inner_first):
            low, high = ends.get(slot, (low, high))
            table[2 + 3 * i : 5 + 3 * i, k] = low, high, strides.get(slot, 0)
    full = table[:, which]
    return Written(
        where,
        (full[0], full[1]),
        {slot: (full[2 + 3 * i], full[3 + 3 * i]) for i, slot in enumerate(inner_first)},
        {slot: full[4 + 3 * i] for i, slot in enumerate(inner_first)},
    )


def _one(
    forms: Forms,
    axes: Axes,
    value: Expr,
    place: tuple[int, int],
    order: Mapping[int, int],
    n: int,
) -> _Row | None:
    simple, variables = simplified(forms, axes, value, n)
    if not same_loads(simple, value):
        return None
    index = loads_of(simple)[place[0]].indices[place[1]]
    slots = sorted(variables, key=lambda slot: order[slot])
    loops = []
    for slot in slots:
        extent = int(forms.extents[slot][n])
        loops.append(Loop(variables[slot], extent, (0, 0), (0, extent - 1), {}))
    still = [Loop(loop.var, 1, (0, 0), (0, 0), {}) for loop in loops] or [
        Loop(next(iter(variables.values()), _NO_LOOP), 1, (0, 0), (0, 0), {})
    ]
    start = IndexBounds(still).levels(index)[0]
    levels = IndexBounds(loops).levels(index) if loops else []
    strides = {slot: stride_along([(index,)], (1,), variables[slot]) for slot in slots}
    return start, dict(zip(slots, levels, strict=True)), strides
