"""Axes of stages whose loops mix them: texts in place of forms.

Threads that fetch a tile share it as one row of elements, so the axes are digits of o * 56 +
thread, say. Where 56 is no multiple of the tile's rows, such axes are no sums of digits of the
loops. The stage's indices are then written out, once for each set of numbers: by rule
(`fetched.py`), or by lowering a stage with the same loops by itself. In the forms, the axis is a
loop of its own, its `virtual` slot, and the variable of that loop stands for the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autosched.features.batched.axis_text import AxisText, StageText
from autosched.features.batched.fetched import fetched
from autosched.features.batched.forms import Flags, Form, Forms, Ints, Term, masked, uses_slot
from autosched.features.batched.plan import Loops
from autosched.features.batched.stage_alone import differing, written_out
from autosched.state.iterator import Annotation
from autosched.tir.constants import is_zero
from autosched.tir.walk import free_vars

if TYPE_CHECKING:
    from autosched.features.batched.loops import Group

_MOST_KNOWN = 20_000


@dataclass(frozen=True, eq=False)
class Mixed:
    """The candidates `where` whose axes are texts: `entries[which]` has the text of each.

    `slots` stand for the axes, `leaves` are the slots of the stage's `loops`. An axis that is a
    loop by itself stays a form. `past` tells for each axis where the loops reach beyond it.
    """

    where: Flags
    which: Ints
    entries: list[StageText]
    slots: tuple[int, ...]
    leaves: tuple[int, ...]
    loops: Loops
    past: Sequence[Flags]

    @property
    def mixing(self) -> list[int]:
        """The slots of the loops that are no axis by themselves."""
        pairs = zip(self.leaves, self.loops.leaves, strict=True)
        return [slot for slot, leaf in pairs if leaf >= self.loops.axes]

    def beyond(self, axis: int) -> Flags:
        """Where the text of an axis alone reaches beyond it, and only conditions keep it inside."""
        if not self.entries:
            return self.past[axis]
        return self._whose(lambda entry: entry.axes[axis].ends[0][1] >= entry.key[axis])

    def last(self, axis: int) -> Ints:
        """The largest value of the text of an axis alone, for the candidates `where`."""
        ends = [entry.axes[axis].ends[0][1] for entry in self.entries]
        return np.asarray(np.array(ends, np.int64)[self.which])

    def hidden(self, axis: int, k: int) -> Flags:
        """Where conditions make an axis 0 that the loop at position k moves."""
        return self._whose(
            lambda entry: (
                is_zero(entry.axes[axis].text)
                and entry.variables[k] in free_vars(entry.axes[axis].raw)
            )
        )

    def differs(self, axis: int, as_ansor: bool) -> Flags:
        """Where an axis is written otherwise in the regions of stages computed in this one."""
        return self._whose(lambda entry: differing(self.loops, entry, axis, as_ansor))

    @property
    def vanishing(self) -> Flags:
        """Where the text of an axis is 0, perhaps because of the conditions around it."""
        return self._whose(
            lambda entry: entry.conditions != () and any(axis.vanishes for axis in entry.axes)
        )

    def _whose(self, holds: Callable[[StageText], bool]) -> Flags:
        """The candidates for whose text `holds` is true."""
        if not self.entries:
            return np.zeros_like(self.where)
        some = np.array([holds(entry) for entry in self.entries])
        return np.asarray(self.where & some[self.which])

    def of(self, n: int) -> StageText:
        """The text of the stage for candidate n."""
        return self.entries[int(self.which[n])]


class Texts:
    """The texts of the stages of a program, kept from call to call.

    They are simplified `as_ansor`, or as autosched's own pass does. With `blank`, no text is made:
    regions need only know that there would be one.
    """

    def __init__(self, *, blank: bool = False, as_ansor: bool = True) -> None:
        self._blank = blank
        self._as_ansor = as_ansor
        self._known: dict[tuple[Loops, tuple[int, ...]], StageText] = {}

    def mixed(
        self,
        forms: Forms,
        group: Group,
        axes: Sequence[Ints],
        leaves: tuple[int, ...],
        where: Flags,
        sizes: Sequence[Ints],
        past: Sequence[Flags],
    ) -> Mixed:
        """The texts of the candidates `where`, for a stage whose axes have the extents `axes`.

        `sizes` are the extents of its loops by position, `past` is that of `Mixed`.
        """
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        slots = tuple(forms.slot(axis) for axis in axes)
        if self._blank:
            return Mixed(where, forms.zero, [], slots, leaves, group.loops, past)
        rows = np.flatnonzero(where)
        numbers = [axis[rows] for axis in axes] + [factor[rows] for factor in group.factors]
        table = np.stack(numbers, axis=1)
        different, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        entries = []
        for row, n in zip(different.tolist(), rows[first], strict=True):
            key = group.loops, tuple(row)
            found = self._known.get(key)
            if found is None:
                own = [int(size[n]) for size in sizes]
                found = self._known[key] = self._text(group.loops, row, own)
            entries.append(found)
        every = forms.full(0)
        every[rows] = which.reshape(-1)
        return Mixed(where, every, entries, slots, leaves, group.loops, past)

    def _text(self, loops: Loops, numbers: Sequence[int], sizes: Sequence[int]) -> StageText:
        found = fetched(loops, numbers, sizes, self._as_ansor)
        return found or written_out(loops, numbers, sizes, self._as_ansor)


def mixed_values(forms: Forms, mixed: Mixed, values: Sequence[Form]) -> tuple[Form, ...]:
    """The values of the axes; for the candidates in `mixed`, they are virtual slots."""
    found = []
    for k, (form, slot) in enumerate(zip(values, mixed.slots, strict=True)):
        if k in mixed.loops.leaves:
            found.append(form)
            continue
        forms.virtual[slot] = mixed, k
        last = [_last(entry.axes[k], mixed.loops, entry.key[k]) for entry in mixed.entries]
        if any(last):
            forms.beyond[slot] = np.where(mixed.where, np.array(last)[mixed.which], 0)
        if mixed.entries and mixed.beyond(k).any():
            forms.alone[slot] = np.where(mixed.beyond(k), mixed.last(k), 0)
        scale = mixed.where.astype(np.int64)
        if mixed.entries:
            some = np.array([not is_zero(entry.axes[k].text) for entry in mixed.entries])
            scale *= some[mixed.which]
        else:
            scale *= forms.extents[slot] > 1
        first = (scale != 0) & (forms.extents[slot] == 1)
        if first.any():
            forms.first[slot] = first
        vanishes = [entry.axes[k].vanishes for entry in mixed.entries]
        if any(vanishes):
            forms.vanished[slot] = mixed.where & np.array(vanishes)[mixed.which]
        terms = {other: masked(~mixed.where, own) for other, own in form.terms.items()}
        terms[slot] = (Term(forms.one, forms.whole, scale),)
        base, joined = (np.where(mixed.where, 0, known) for known in (form.base, form.joined))
        found.append(Form(terms, base, joined))
    return tuple(found)


def reaches_beyond(forms: Forms, low: Form) -> Flags:
    """Where a region starts at an axis of the stage around whose text alone reaches beyond it.

    A condition keeps it inside the axis there, and in the region, too.
    """
    found: Flags = np.zeros(forms.count, bool)
    for slot, terms in low.terms.items():
        if slot in forms.virtual:
            mixed, axis = forms.virtual[slot]
            found = found | (mixed.beyond(axis) & uses_slot(terms))
    return found


def excess(forms: Forms, low: Form) -> Ints:
    """How far beyond the axes of the stage around a region can start by their texts alone."""
    found = forms.zero
    for slot, terms in low.terms.items():
        mixed, axis = forms.virtual.get(slot, (None, 0))
        if mixed is None or not mixed.entries:
            continue
        last, beyond = mixed.last(axis), mixed.beyond(axis)
        for term in terms:
            digit = np.minimum(term.upper - 1, last) // np.maximum(term.lower, 1)
            more = term.scale * (digit - forms.largest(slot, term))
            found = found + np.where(beyond, np.maximum(more, 0), 0)
    return found


def _last(axis: AxisText, loops: Loops, extent: int) -> int:
    """The largest value of an axis if it is beyond the axis, else 0.

    That happens with vector lanes: conditions on whole vectors say nothing about a sum of vectors
    and lanes.
    """
    lanes = [
        own and kind == Annotation.VECTORIZE
        for own, kind in zip(axis.used, loops.kinds, strict=True)
    ]
    last = axis.ends[0][1]
    return last if any(lanes) and last >= extent else 0
