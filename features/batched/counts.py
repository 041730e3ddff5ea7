"""Count the operations of stored values (`walk.count`) for many candidates.

The counts of indices that are forms are known. A value that depends on the axes outside of loads,
such as the conditions of a padding, is simplified for one candidate of each set of numbers in it,
unless rules say what simplification leaves (`padding.py`).
"""

from __future__ import annotations

import numpy as np

from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.one import Rows, alike, same_loads, signature, simplified
from autosched.features.batched.padding import Padding, plain_counts
from autosched.features.batched.stores import Store, own_indices
from autosched.features.walk.count import NUM_COUNTERS, count_ops
from autosched.tir.expr import Expr, Var
from autosched.tir.walk import free_vars

_MATHFUNC, _INT_ADDSUB, _INT_MUL, _INT_DIVMOD, _INT_MATHFUNC, _BOOL_OP = 5, 8, 9, 10, 12, 14
_MOST_KNOWN = 100_000
Known = dict[tuple[Expr, tuple[int, ...]], tuple[int, ...] | None]


def count_store(forms: Forms, store: Store, known: Known) -> Ints:
    """(16, candidates): the counters of one evaluation of the stored value.

    `known` caches what was simplified for this value. A candidate whose value loses a load is
    marked bad.
    """
    if store.ops.conditional:
        if store.ops.is_padding:
            return _by_parts(forms, store, known)
        return _simplified(forms, store.stage.context.text(store.ops.original), known)
    counts = np.repeat(np.array(store.ops.counts, np.int64)[:, None], forms.count, axis=1)
    for form in own_indices(forms, store) * store.ops.updates:
        add_index(forms, form, counts)
    for number, indices in enumerate(store.ops.loads):
        for d in range(len(indices[1])):
            _add_loaded(forms, store, number, d, counts)
    return counts


def _add_loaded(forms: Forms, store: Store, number: int, d: int, counts: Ints) -> None:
    """Add the operations of the index in dimension d of load `number` to `counts`."""
    text = store.texts.get((number, d))
    if text is None:
        add_index(forms, store.loaded[number][d], counts)
        return
    where, known_counts = text
    here = np.zeros_like(counts)
    add_index(forms, store.loaded[number][d], here, ~where)
    counts += np.where(where, known_counts, here)


def add_index(forms: Forms, form: Form, counts: Ints, needed: Flags | bool = True) -> None:
    """Add the operations of an index that is a form to `counts`.

    Refuses candidates that are `needed` and whose index begins with a minus.
    """
    terms, positive = forms.zero, form.base > 0
    for slot, term in form.every():
        there = term.scale != 0
        terms, positive = terms + there, positive | (term.scale > 0)
        counts[_INT_MUL] += there & (np.abs(term.scale) != 1)
        if slot in forms.virtual:
            mixed, axis = forms.virtual[slot]
            of = np.array([entry.axes[axis].counts for entry in mixed.entries], np.int64)
            counts += np.where(there, of[mixed.which].T, 0)
        if term.lower is not forms.one:
            counts[_INT_DIVMOD] += there & (term.lower > 1)
        if term.upper is not forms.whole:
            counts[_INT_DIVMOD] += there & (term.upper < forms.extents[slot])
    forms.refuse(~positive & (terms > 0) & needed, "an index whose first term is negative")
    counts[_INT_ADDSUB] += np.maximum(terms + (form.base != 0) - 1, 0)


def _by_parts(forms: Forms, store: Store, known: Known) -> Ints:
    """The counts of a padding: those of its parts, and of the other indices of its one load."""
    counts = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    conditions = forms.zero
    for part, padding in zip(store.ops.parts, store.ops.paddings, strict=True):
        own = part_counts(forms, store.stage.context.text(part), part, padding, known)
        kept = own[_MATHFUNC] + own[_INT_MATHFUNC]  # the if_then_else itself
        counts += own
        conditions = conditions + kept
    for slot in (_MATHFUNC, _INT_MATHFUNC):
        counts[slot] = np.minimum(counts[slot], 1)
    counts[_BOOL_OP] += np.maximum(conditions - 1, 0)
    ((_, indices),) = store.ops.loads
    free = frozenset[Var]().union(*map(free_vars, store.ops.parts))
    for d, e in enumerate(indices):
        if free_vars(e).isdisjoint(free):
            _add_loaded(forms, store, 0, d, counts)
    return counts


def part_counts(
    forms: Forms, text: Text, part: Expr, padding: Padding | None, known: Known
) -> Ints:
    """The counts of `part`, which is `text` in context: by rule, else by simplification."""
    if padding is None or text.value is not part:
        return _simplified(forms, text, known)
    counts, comparisons, plain = plain_counts(forms, text, padding)
    index = np.zeros_like(counts)
    form = text.axes[padding.axis]
    add_index(forms, form, index, needed=False)
    counts += index * comparisons
    for e in padding.indices:
        add_index(forms, index_form(forms, e, text.axes), counts, needed=plain)
    rest = np.flatnonzero(~plain)
    if len(rest):
        counts[:, rest] = _simplified(forms, text, known, rest)
    return counts


def _simplified(forms: Forms, text: Text, known: Known, rows: Rows | None = None) -> Ints:
    """The counts of a value, simplified for one candidate of each set of numbers in it.

    With `rows`, only of these candidates.
    """
    value = text.value
    first, which = alike(forms, text.axes, rows)
    counts = np.zeros((len(first), NUM_COUNTERS), np.int64)
    lost = np.zeros(len(first), bool)
    for k, n in enumerate(first):
        key = value, signature(forms, text.axes, int(n), own=text.own)
        if key not in known:
            if len(known) > _MOST_KNOWN:
                known.clear()
            simple = simplified(forms, text, int(n))[0]
            known[key] = tuple(count_ops(simple)) if same_loads(simple, text.value) else None
        found = known[key]
        if found is None:
            lost[k] = True
        else:
            counts[k] = found
    if lost.any():
        bad = np.zeros(forms.count, bool)
        bad[slice(None) if rows is None else rows] = lost[which]
        forms.refuse(bad, "a value in which simplification removes a load")
    return np.ascontiguousarray(counts[which].T)
