"""The padded copies of many candidates as numbers (`border_trees.py`), each different one once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autosched.features.batched.autosched_1.border_trees import Axis, Border, Digit
from autosched.features.batched.autosched_1.plans.unique import different, keys_of
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.one import Rows
from autosched.features.batched.ops import loads_of
from autosched.features.batched.padding import comparisons
from autosched.features.batched.stores import Store
from autosched.tir.expr import GE, GT, And, Call, Expr, Var
from autosched.tir.linear import linear
from autosched.tir.walk import free_vars


class Numbered(NamedTuple):
    """A border, and the slots of its loops."""

    border: Border
    slots: tuple[int, ...]


class _Along(NamedTuple):
    """An axis: its form, what is compared with it, and by candidate which of both is asked for."""

    form: Form
    first: int | None
    end: int | None
    asked: tuple[Flags, Flags]


def borders_of(
    forms: Forms, store: Store, rows: Rows, placed: bool
) -> tuple[list[Numbered | None], Rows]:
    """The different borders of the candidates `rows`, None for those that have none by rule; and
    which each has. With `placed`, those with all axes and indices."""
    known = _axes_of(forms, store, placed)
    if known is None:
        return [None], np.zeros(len(rows), np.intp)
    axes, loaded, plain = known
    numbers = _Numbers(forms, store, axes)
    first, which = different(keys_of([plain[rows].astype(np.int64), *numbers.columns(rows)]))
    is_float = store.ops.original.dtype.is_float
    found = [
        numbers.border(row, loaded, is_float, placed) if good else None
        for row, good in zip(numbers.table(rows[first]), plain[rows[first]].tolist(), strict=True)
    ]
    return found, which


def _axes_of(
    forms: Forms, store: Store, placed: bool
) -> tuple[list[_Along], tuple[tuple[int, int], ...], Flags] | None:
    """The axes and indices, and for which candidates these are all that counts; None where another
    kind of index is loaded."""
    stage = store.stage
    plain = np.ones(forms.count, bool)
    never = np.zeros(forms.count, bool)
    by_axis: dict[Var, _Along] = {}
    indices: list[Expr] = []
    for part, padding in zip(store.ops.parts, store.ops.paddings, strict=True):
        if padding is None or not _lower_first(part, padding.axis):
            return None
        text = stage.context.text(part)
        if text.value is not part:
            return None
        lower, upper, free = comparisons(forms, text, padding._replace(moved=True))
        form = text.axes[padding.axis]
        by_axis[padding.axis] = _Along(form, padding.first, padding.end, (lower, upper))
        indices += padding.indices
        plain &= free
    if placed:
        ((load,),) = (loads_of(store.ops.original),)
        indices = list(load.indices)
        for var in stage.ops.axes[: stage.ops.data]:
            if var not in by_axis:
                by_axis[var] = _Along(stage.axes[var], None, None, (never, never))
        order = stage.ops.axes[: stage.ops.data]
    else:
        order = tuple(by_axis)
    loaded = _loaded(indices, order)
    if loaded is None:
        return None
    return [by_axis[var] for var in order], loaded, plain


def _lower_first(part: Expr, axis: Var) -> bool:
    """Whether what the axis is at least is asked before what it is at most."""
    assert isinstance(part, Call)
    condition = part.args[0]
    if not isinstance(condition, And):
        return True
    first = condition.a
    return isinstance(first, GE | GT) is (axis in free_vars(first.children()[0]))


def _loaded(indices: Sequence[Expr], axes: Sequence[Var]) -> tuple[tuple[int, int], ...] | None:
    """The indices as axes, by number, with something added; None where one is something else."""
    numbers: dict[Expr, int] = {axis: k for k, axis in enumerate(axes)}
    found = []
    for index in indices:
        constant, terms = linear(index)
        if list(terms.values()) != [1] or not terms.keys() <= numbers.keys():
            return None
        (axis,) = terms
        found.append((numbers[axis], constant))
    return tuple(found)


class _Numbers:
    """All numbers that borders are made of, by candidate."""

    def __init__(self, forms: Forms, store: Store, axes: Sequence[_Along]) -> None:
        self._forms, self._axes = forms, axes
        self._own = store.stage.loops.slots
        self._terms = [list(axis.form.every()) for axis in axes]
        self._columns: list[Ints] = []
        asked = {slot for terms in self._terms for slot, _ in terms}
        for k, slot in enumerate(self._own):
            extent = forms.extents[slot]
            known = extent if slot in asked else np.minimum(extent, 2)
            self._columns += [known, np.where(extent > 1, store.stage.loops.kinds[k], 0)]
        for axis, terms in zip(axes, self._terms, strict=True):
            self._columns += [axis.form.base, *[flags.astype(np.int64) for flags in axis.asked]]
            for slot, term in terms:
                extent = forms.extents[slot]
                there = term.scale != 0
                upper = np.where(term.upper < extent, term.upper, 0)
                self._columns += [
                    term.scale,
                    *[np.where(there, x, 0) for x in (term.lower, upper, extent)],
                ]

    def columns(self, rows: Rows) -> list[Ints]:
        """The numbers of the candidates `rows`."""
        return [column[rows] for column in self._columns]

    def table(self, rows: Rows) -> list[list[int]]:
        """The numbers of each of the candidates `rows`."""
        found: list[list[int]] = np.stack(self.columns(rows), axis=1).tolist()
        return found

    def border(
        self,
        row: Sequence[int],
        loaded: tuple[tuple[int, int], ...],
        is_float: bool,
        placed: bool,
    ) -> Numbered:
        """That of one candidate's numbers."""
        numbers = iter(row)
        slots = list(self._own)
        known = [(next(numbers), next(numbers)) for _ in self._own]
        extents, kinds = [extent for extent, _ in known], [kind for _, kind in known]
        axes = []
        for axis, terms in zip(self._axes, self._terms, strict=True):
            base, lower, upper = next(numbers), next(numbers), next(numbers)
            digits = []
            for slot, _ in terms:
                scale, low, high, extent = (
                    next(numbers),
                    next(numbers),
                    next(numbers),
                    next(numbers),
                )
                if not scale:
                    continue
                if slot not in slots:
                    slots.append(slot)
                    extents.append(extent)
                digits.append(Digit(slots.index(slot), low, high, scale))
            first, end = axis.first if lower else None, axis.end if upper else None
            axes.append(Axis(tuple(digits), base, first, end))
        border = Border(tuple(extents), tuple(kinds), tuple(axes), loaded, is_float, placed)
        return Numbered(border, tuple(slots))
