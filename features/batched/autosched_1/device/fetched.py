"""Accesses whose indices are axes that loops mix (`batched/mixed.py`): tiles that threads fetch.

Terms of the loops around are added to such an axis, so its text alone says how the stage's own
loops move it:

    A_shared[(o * 56 + t) // 8, (o * 56 + t) % 8] = A[i * 32 + (o * 56 + t) // 8, (o * 56 + t) % 8]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from autosched.features.batched.autosched_1.texts import TextAccess, extents
from autosched.features.batched.axis_text import StageText
from autosched.features.batched.forms import Flags, Form, Forms, Ints, uses_slot
from autosched.features.batched.mixed import Mixed
from autosched.features.batched.mixed_index import deep_in
from autosched.features.batched.plan import FIRST_THREAD
from autosched.features.batched.stores import Store, Touched
from autosched.features.batched.written import Written
from autosched.features.walk.scope import Loop
from autosched.features.walk.strides import Strides, flat_terms
from autosched.tir.expr import Expr, IntImm, Var
from autosched.transform.vector.index_steps import step_along

_Dims = tuple[int | None, ...]
"""For each dimension of an access, the axis of a stage that is its text, or None."""


def fetched_access(
    store: Store, access: Touched, storage: Sequence[Ints]
) -> tuple[TextAccess | None, Flags]:
    """The access of the candidates that have such axes in it, and which others have a text in it.

    The first is None where no candidate has such an axis. The others have an index that is not just
    one axis plus added terms.
    """
    forms, slots = store.stage.context.forms, store.stage.loops.slots
    where: Flags = np.zeros(forms.count, bool)
    rest: Flags = np.zeros(forms.count, bool)
    axes = [0] * len(storage)
    has: list[Flags] = [where] * len(storage)
    mixed: Mixed | None = None
    for (k, d), written in access.written.items():
        form = access.tuples[k][d]
        for slot, own in form.terms.items():
            used = uses_slot(own)
            if slot not in forms.virtual or not used.any():
                continue
            other, axis = forms.virtual[slot]
            if (mixed is not None and other is not mixed) or (has[d].any() and axis != axes[d]):
                rest = rest | used
            else:
                mixed, axes[d], has[d] = other, axis, has[d] | used
        rest = rest | (written.where & (~has[d] | deep_in(forms, form, slots, False)))
        where = where | written.where
    for (number, _), (lost, _) in store.texts.items():
        if store.ops.loads[number][0] == access.buffer:
            rest = rest | (where & lost)
    for place in access.tuples[1:]:
        pairs = zip(access.tuples[0], place, strict=True)
        alike = [forms.same(_mixed_part(forms, a), _mixed_part(forms, b)) for a, b in pairs]
        rest = rest | (where & ~np.all(alike, axis=0))
    where = where & ~rest & ~forms.bad
    if mixed is None or not where.any():
        return None, rest
    rows = np.flatnonzero(where)
    columns = [mixed.which, *storage, *(flags.astype(np.int64) for flags in has)]
    different, which = np.unique(
        np.stack([column[rows] for column in columns], axis=1), axis=0, return_inverse=True
    )
    inner = _inside_threads(mixed)
    moves = []
    for entry, *numbers in different.tolist():
        sizes, there = numbers[: len(axes)], numbers[len(axes) :]
        dims = [axis if flag else None for axis, flag in zip(axes, there, strict=True)]
        moves.append(_moves(mixed.entries[entry], tuple(dims), tuple(sizes), inner))
    table = np.array(moves, np.int64)[which.reshape(-1)]  # (row, position, number)
    along = np.zeros((4, len(store.loops), forms.count), np.int64)
    for position, leaf in enumerate(mixed.leaves):
        j = store.at.get(leaf)
        if j is not None:
            along[:, j, rows] = table[:, position].T
    places = range(len(access.tuples))
    texts = [[access.written.get((k, d)) for k in places] for d in range(len(axes))]
    regions = [_region(store, own, forms.one) for own in texts]
    none = np.zeros(forms.count, bool)
    inside = [none if own[0] is None else own[0].where for own in texts]
    shape = (len(places), *along.shape[1:])
    strides, steps, blocks = (np.broadcast_to(part, shape) for part in along[:3])
    found = TextAccess(where, strides, steps, blocks, along[3] > 0, regions, inside, where)
    return found, rest


def _inside_threads(mixed: Mixed) -> int:
    """The position of the first loop inside all threads: the nest of the code begins there."""
    kinds = mixed.loops.kinds
    return max([k + 1 for k, kind in enumerate(kinds) if kind >= FIRST_THREAD], default=0)


@lru_cache(maxsize=20_000)
def _moves(
    text: StageText, dims: _Dims, storage: tuple[int, ...], inner: int
) -> tuple[tuple[int, int, int, int], ...]:
    """By position of the stage's loops: stride, step, block and 1 where uneven.

    Steps and blocks are only right for the loops from `inner` on.
    """
    total: dict[Var, int] = {}
    uneven = frozenset[Var]()
    scale = 1
    for axis, extent in zip(reversed(dims), reversed(storage), strict=True):
        if axis is not None:
            along, parts = _coefficients(text, axis)
            uneven |= parts
            for var, value in along.items():
                total[var] = total.get(var, 0) + scale * value
        scale *= extent or 1
    found = []
    for position, own in enumerate(text.variables):
        if own is None:
            found.append((0, 0, 0, 0))
            continue
        stride = total.get(own, 0)
        step, block = stride, 0
        if own in uneven and position >= inner:
            index: list[Expr] = [IntImm(0) if d is None else text.axes[d].text for d in dims]
            step, block = step_along(flat_terms(tuple(index), storage), own)
        found.append((stride, step, block, int(own in uneven)))
    return tuple(found)


@lru_cache(maxsize=50_000)
def _coefficients(text: StageText, axis: int) -> tuple[dict[Var, int], frozenset[Var]]:
    """The strides of an axis along the stage's loops, and the variables of uneven strides."""
    there = [var for var in text.variables if var is not None]
    around = [Loop(var, 2, (0, 0), (0, 1), {}) for var in there]  # no text has a loop of extent 1
    along, uneven, _ = Strides(around, {}).coefficients(text.axes[axis].text)
    return along, uneven


def _mixed_part(forms: Forms, form: Form) -> Form:
    """The terms of an index that stand for texts."""
    mixed = {slot: own for slot, own in form.terms.items() if slot in forms.virtual}
    return Form(mixed, forms.zero)


def _region(store: Store, places: Sequence[Written | None], one: Ints) -> Ints:
    """The extents of an index by level, over all its places; 1 for an index that is no text."""
    texts = [written for written in places if written is not None]
    if not texts:
        return np.ones((len(store.loops) + 1, len(one)), np.int64)
    return extents(store, [_ends(store, written) for written in texts])


def _ends(store: Store, written: Written) -> Ints:
    """The bounds of an index by level and side."""
    found = np.empty((len(store.loops) + 1, 2, len(written.where)), np.int64)
    found[-1] = written.start
    for j in range(len(store.loops) - 1, -1, -1):
        found[j] = written.ends.get(store.loops[j].slot, found[j + 1])
    return found
