"""What a stored value says of its code, whatever the loops around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.autosched_1.cut_texts import CutText
from autosched.features.batched.autosched_1.plain_parts import is_plain, plain_part
from autosched.features.batched.context import Text
from autosched.features.batched.counts import add_index
from autosched.features.batched.forms import Flags, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.one import Rows, alike, same_loads, signature, simplified
from autosched.features.batched.ops import StageOps, StoreOps, loads_of
from autosched.features.batched.plan import UnsupportedError
from autosched.features.batched.stores import Floats, Store
from autosched.features.walk.count import NUM_COUNTERS, count_mads, count_ops
from autosched.tir.expr import Add, Call, Expr, Max, Min, ProducerLoad, Var
from autosched.tir.walk import free_vars
from autosched.transform.vector.instructions import instructions, step_weight

_MATHFUNC, _INT_CMP, _INT_MATHFUNC, _BOOL_OP = 5, 11, 12, 14
COMPARED = "a comparison in a loop that is cut, of other than loops"
_CHOICE = 2.0
"""Instructions of an if_then_else besides its condition and what it chooses: it and a constant."""


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Its multiply-adds, the vector instructions of one iteration besides loads, whether it reads
    the element that is stored to, and whether it only adds something to that, or takes the larger
    or smaller."""

    mads: int
    weight: float
    updates: bool
    folds: bool


def value_facts(ops: StoreOps, stage: StageOps, on_device: bool = False) -> ValueFacts:
    """Those of one store, of a choice by axes as if it were never made (`chosen_by_axes`).

    Raises UnsupportedError where they depend on the candidate in other ways; so does what passes
    make of remainders, which is nothing `on_device`.
    """
    known = bool(ops.parts) if on_device else ops.is_padding
    if ops.conditional and (ops.is_init or not known):
        raise UnsupportedError("a value with conditions that is no choice by axes")
    value = ops.value
    own = _own_loads(ops)
    axes = stage.origin or stage.axes
    if any(load.indices != axes[: len(load.indices)] for load in own):
        raise UnsupportedError("an element read of the stored buffer that is another one")
    sides = (value.a, value.b) if isinstance(value, Add | Max | Min) else ()
    folds = len(own) == 1 and any(side is own[0] for side in sides)
    return ValueFacts(count_mads(value), step_weight(_bare(value)), bool(own), folds)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Of a value that conditions on axes choose: by candidate the counters of `walk.count`, the
    vector instructions, and by loop around the store whether what a condition guards varies, and
    whether a condition does, where that is known."""

    counts: Ints
    weight: npt.NDArray[np.float64]
    conditional: Flags
    asked: Flags | None = None


_ChosenKey = tuple[Expr, tuple[int, ...]]
KnownChoices = dict[_ChosenKey, tuple[tuple[int, ...], float, bool] | None]
_MOST_KNOWN = 100_000


def chosen_by_axes(
    forms: Forms, store: Store, known: KnownChoices, compared: Mapping[Var, CutText] | None = None
) -> Chosen:
    """The parts of the value, simplified for each set of numbers in them, put together.

    `known` remembers them from call to call; candidates whose value loses its load are refused.
    `compared` says what is other in the comparisons of some axes.
    """
    counts = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    weight, conditions = np.zeros(forms.count), forms.zero
    for part, padding in zip(store.ops.parts, store.ops.paddings, strict=True):
        text = store.stage.context.text(part)
        table = np.zeros((NUM_COUNTERS + 2, forms.count))
        rest: Rows = np.arange(forms.count)
        if padding is not None and text.value is part:
            own, instructions, choice, plain = plain_part(forms, text, padding)
            table[:NUM_COUNTERS], table[-2], table[-1] = own, instructions, choice
            rest = np.flatnonzero(~plain)
        if len(rest):
            table[:, rest] = _simplified(forms, text, rest, known)
        cut = None if padding is None or compared is None else compared.get(padding.axis)
        if cut is not None and padding is not None:
            number = table[_INT_CMP].astype(np.int64)
            other = np.zeros(forms.count, bool)
            other[rest] = True
            other &= ~is_plain(forms, text, padding, number, table[:NUM_COUNTERS])
            forms.refuse(cut.where & (number > 0) & (other | cut.gone), COMPARED)
            counts += cut.counts * number
            weight += cut.weight * number
        counts += table[:NUM_COUNTERS].astype(np.int64)
        weight += table[-2]
        conditions = conditions + table[-1].astype(np.int64)
    some: Flags = conditions > 0
    for slot in (_MATHFUNC, _INT_MATHFUNC):
        counts[slot] = np.minimum(counts[slot], 1)
    counts[_BOOL_OP] += np.maximum(conditions - 1, 0)
    ((_, indices),) = store.ops.loads
    free = frozenset[Var]().union(*map(free_vars, store.ops.parts))
    for e in indices:
        if free_vars(e).isdisjoint(free):
            add_index(forms, index_form(forms, e, store.stage.axes), counts)
    both = _CHOICE * some + np.maximum(conditions - 1, 0)
    along = some & along_reads(store, forms.count)
    return Chosen(counts, np.maximum(1.0, weight + both), along)


def _simplified(forms: Forms, text: Text, rows: Rows, known: KnownChoices) -> Floats:
    """The part of the candidates `rows`, one of each set of numbers simplified: counters,
    instructions and whether there is a choice. Those that lose their load are refused."""
    first, which = alike(forms, text.axes, rows)
    table = np.zeros((NUM_COUNTERS + 2, len(first)))
    lost = np.zeros(len(first), bool)
    for k, n in enumerate(first.tolist()):
        found = _one_part(forms, text, n, known)
        if found is None:
            lost[k] = True
        else:
            table[:, k] = *found[0], found[1], found[2]
    bad = np.zeros(forms.count, bool)
    bad[rows] = lost[which]
    forms.refuse(bad, "a value that loses a load")
    return table[:, which]


def along_reads(store: Store, count: int) -> Flags:
    """By loop around the store, where it is in the index of a read."""
    found: Flags = np.zeros((len(store.loops), count), bool)
    for j, loop in enumerate(store.loops):
        for access in store.touched[:-1]:
            found[j] |= access.uses(loop.slot, count)
    return found


def _one_part(
    forms: Forms, text: Text, n: int, known: KnownChoices
) -> tuple[tuple[int, ...], float, bool] | None:
    """Counters, instructions but those of the choice itself, and whether there is one."""
    key = text.value, signature(forms, text.axes, n)
    if key not in known:
        if len(known) > _MOST_KNOWN:
            known.clear()
        simple = simplified(forms, text, n, as_ansor=False)[0]
        choice = isinstance(simple, Call)
        if not same_loads(simple, text.value):
            known[key] = None
        else:
            weight = instructions(_bare(simple)) - (_CHOICE if choice else 0)
            known[key] = tuple(count_ops(simple)), weight, choice
    return known[key]


def _own_loads(ops: StoreOps) -> list[ProducerLoad]:
    """The loads of the buffer that is stored to."""
    found = []
    others = [indices for _, indices in ops.loads]
    for load in loads_of(ops.value):
        if others and load.indices is others[0]:
            del others[0]
        else:
            found.append(load)
    return found


def _bare(value: Expr) -> Expr:
    """The value with a variable for each load."""
    if isinstance(value, ProducerLoad):
        return Var("load", value.dtype)
    children = value.children()
    return value.with_children(tuple(map(_bare, children))) if children else value
