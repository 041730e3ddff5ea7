"""Indices that are no forms for some candidates: read from their text, as the walk reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autosched.features.ansor.stride import stride_along
from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.one import alike, same_loads, signature, simplified
from autosched.features.walk.count import NUM_COUNTERS, count_ops
from autosched.features.walk.regions import IndexBounds
from autosched.features.walk.scope import Loop
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Var

Ends = tuple[Ints, Ints]
_NO_LOOP = Var("none")


@dataclass(frozen=True, eq=False)
class Written:
    """An index of the candidates `where`: its bounds, and the coefficients of the loop variables.

    `start` are the bounds while no loop runs; `ends` has by slot those while the loop and all
    inside it run. A coefficient in `strides` is 0 where the variable is not in the index.
    """

    where: Flags
    start: Ends
    ends: dict[int, Ends]
    strides: dict[int, Ints]


@dataclass(frozen=True, slots=True)
class _Row:
    """The facts read from the index of one candidate; `ends` and `strides` are by slot."""

    start: tuple[int, int]
    ends: dict[int, tuple[int, int]]
    strides: dict[int, int]
    counts: list[int]


def either(a: Written, b: Written, order: Mapping[int, int]) -> Written:
    """`a` for its candidates, `b` for all others; `order` has the loop positions, outermost first.

    A loop that one of them does not have leaves its bounds as the loops inside have made them. A
    loop that is around no store of the candidates moves nothing.
    """
    ends = []
    slots = sorted({*a.ends, *b.ends}, key=lambda slot: -order.get(slot, len(order)))
    ours, theirs = a.start, b.start
    for slot in slots:
        ours, theirs = a.ends.get(slot, ours), b.ends.get(slot, theirs)
        ends.append(_joined(a.where, ours, theirs))
    none = np.zeros_like(a.start[0])
    return Written(
        a.where | b.where,
        _joined(a.where, a.start, b.start),
        dict(zip(slots, ends, strict=True)),
        {s: np.where(a.where, a.strides.get(s, none), b.strides.get(s, none)) for s in slots},
    )


def _joined(where: Flags, ours: Ends, theirs: Ends) -> Ends:
    low, high = (np.where(where, x, y) for x, y in zip(ours, theirs, strict=True))
    return low, high


def written_index(
    forms: Forms,
    text: Text,
    place: tuple[int, int] | None,
    order: Mapping[int, int],
    where: Flags,
    as_ansor: bool = True,
) -> tuple[Written, Ints]:
    """The index in `text` for the candidates `where`, and the operations in it.

    With `place`, it is the index at dimension place[1] of load place[0] of the value `text`; else
    `text` is the index. `order` has the positions of the loops by slot, outermost first. Refuses
    candidates whose value loses a load.
    """
    axes = text.axes
    first, which = alike(forms, axes)
    slots = {slot for form in axes.values() for slot in form.terms if slot in order}
    for form in axes.values():
        for mixed, _ in (forms.virtual[slot] for slot in form.terms if slot in forms.virtual):
            slots |= {leaf for leaf in mixed.leaves if leaf in order}
    inner_first = sorted(slots, key=lambda slot: -order[slot])
    needed = set(which[where & ~forms.bad].tolist())
    rows: dict[int, _Row] = {}
    known: dict[tuple[int, ...], _Row | None] = {}
    for k in needed:
        n = int(first[k])
        key = signature(forms, axes, n, order, text.own)
        if key not in known:
            known[key] = _one(forms, text, place, order, n, as_ansor)
        row = known[key]
        if row is None:
            forms.refuse(which == k, "a value in which simplification removes a load")
        else:
            rows[k] = row
    table = np.zeros((2 + 3 * len(slots) + NUM_COUNTERS, len(first)), np.int64)
    for k, row in rows.items():
        low, high = table[:2, k] = row.start
        table[-NUM_COUNTERS:, k] = row.counts
        for i, slot in enumerate(inner_first):
            low, high = row.ends.get(slot, (low, high))
            table[2 + 3 * i : 5 + 3 * i, k] = low, high, row.strides.get(slot, 0)
    full = table[:, which]
    found = Written(
        where,
        (full[0], full[1]),
        {slot: (full[2 + 3 * i], full[3 + 3 * i]) for i, slot in enumerate(inner_first)},
        {slot: full[4 + 3 * i] for i, slot in enumerate(inner_first)},
    )
    return found, full[-NUM_COUNTERS:]


def _one(
    forms: Forms,
    text: Text,
    place: tuple[int, int] | None,
    order: Mapping[int, int],
    n: int,
    as_ansor: bool,
) -> _Row | None:
    index, variables = simplified(forms, text, n, as_ansor)
    if place is not None:
        if not same_loads(index, text.value):
            return None
        index = tensor_loads(index)[place[0]].indices[place[1]]
    slots = sorted(variables.keys() & order.keys(), key=lambda slot: order[slot])
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
    ends = dict(zip(slots, levels, strict=True))
    return _Row(start, ends, strides, count_ops(index))
