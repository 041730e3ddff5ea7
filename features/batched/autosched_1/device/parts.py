"""Loads chosen by conditions on axes, with an index that is a text: one dimension after the other.

    if_then_else(h % 2 == 0 and w % 2 == 0, X[h // 2, w // 2], 0.0)

What simplification makes of a dimension depends only on the conditions on its axis. It is read once
for all candidates with the same numbers in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.features.batched.autosched_1.texts import TEXT, TextAccess
from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.one import alike, same_loads, signature, simplified
from autosched.features.batched.stores import Place, Store, Touched, stored_text, text_of
from autosched.features.walk.regions import IndexBounds
from autosched.features.walk.scope import Loop
from autosched.features.walk.strides import Strides
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Expr, Var

_ENDLESS = 1 << 30


@dataclass(frozen=True, slots=True)
class _Moves:
    """How loops move one dimension, by position of the loop.

    `along` has the stride and whether it is uneven, `extents` the extent while the loop and the
    loops inside it run.
    """

    along: dict[int, tuple[int, int]]
    extents: dict[int, int]


def part_access(
    store: Store, access: Touched, storage: Sequence[Ints], where: Flags
) -> TextAccess | None:
    """The access of the candidates `where`; None where there are none.

    Refuses candidates of which a load vanishes, and those with an uneven stride inside all threads.
    """
    forms = store.stage.context.forms
    if not where.any():
        return None
    number = [k for k, (buffer, _) in enumerate(store.ops.loads) if buffer == access.buffer]
    stored = access is store.touched[-1]
    if len(number) != 1 - stored:
        forms.refuse(where, TEXT)
        return None
    texts = [
        stored_text(store, d) if stored else text_of(store, number[0], d, as_ansor=False)
        for d in range(len(storage))
    ]
    rows = np.flatnonzero(where & ~forms.bad)
    count, size = len(store.loops), forms.count
    strides = np.zeros((count, size), np.int64)
    uneven: Flags = np.zeros((count, size), bool)
    regions: list[Ints] = []
    lost = np.zeros(size, bool)
    scale: Ints = forms.one
    for d in range(len(storage) - 1, -1, -1):
        along, parts, region, gone = _dimension(forms, store, *texts[d], rows)
        strides += along * scale
        uneven |= parts
        regions.append(region)
        lost |= gone
        scale = scale * np.maximum(storage[d], 1)
    forms.refuse(lost, "a value in which simplification removes a load")
    inner = max([j + 1 for j, loop in enumerate(store.loops) if loop.thread], default=0)
    forms.refuse(where & uneven[inner:].any(axis=0), TEXT)
    none = np.zeros(size, bool)
    inside = [where] * len(storage)
    along = strides[np.newaxis]
    return TextAccess(
        where, along, along, np.zeros_like(along), uneven, regions[::-1], inside, none
    )


def _dimension(
    forms: Forms, store: Store, text: Text, place: Place | None, rows: Ints
) -> tuple[Ints, Flags, Ints, Flags]:
    """One dimension of the access.

    By loop, the strides and whether they are uneven; the extents by level, one more than loops; and
    where the load is lost.
    """
    first, which = alike(forms, text.axes, rows)
    count = len(store.loops)
    along = np.zeros((2, count, len(first)), np.int64)
    region = np.ones((count + 1, len(first)), np.int64)
    lost = np.zeros(len(first), bool)
    known: dict[tuple[int, ...], _Moves | None] = {}
    for k, n in enumerate(first.tolist()):
        key = signature(forms, text.axes, n, store.at, text.own)
        if key not in known:
            simple, variables = simplified(forms, text, n, as_ansor=False)
            kept = place is None or same_loads(simple, text.value)
            if kept and place is not None:
                simple = tensor_loads(simple)[place[0]].indices[place[1]]
            known[key] = _moves(forms, store, n, simple, variables) if kept else None
        moves = known[key]
        if moves is None:
            lost[k] = True
            continue
        for j in range(count - 1, -1, -1):
            region[j, k] = moves.extents.get(j, region[j + 1, k])
            along[:, j, k] = moves.along.get(j, 0)
    found = np.zeros((2, count, forms.count), np.int64)
    found[..., rows] = along[..., which]
    every = np.ones((count + 1, forms.count), np.int64)
    every[:, rows] = region[:, which]
    gone = np.zeros(forms.count, bool)
    gone[rows] = lost[which]
    return found[0], found[1] > 0, every, gone


def _moves(forms: Forms, store: Store, n: int, index: Expr, variables: dict[int, Var]) -> _Moves:
    inner = sorted(variables, key=lambda slot: store.at.get(slot, _ENDLESS))
    there = [slot for slot in inner if slot in store.at]
    loops = [
        Loop(variables[s], e, (0, 0), (0, e - 1), {})
        for s, e in ((s, int(forms.extents[s][n])) for s in there)
    ]
    strides, uneven, _ = Strides(loops, {}).coefficients(index)
    levels = IndexBounds(loops).levels(index) if loops else []
    along, extents = {}, {}
    for slot, loop, (low, high) in zip(there, loops, levels, strict=False):
        j = store.at[slot]
        along[j] = strides.get(loop.var, 0), int(loop.var in uneven)
        extents[j] = max(high - low + 1, 1)
    return _Moves(along, extents)
