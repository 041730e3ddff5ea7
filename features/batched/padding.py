"""Count the operations of a padded load along one axis where its comparisons stay as written.

In if_then_else(1 <= h and h < 57, X[h - 1], 0.0) with h = i * 4 + j % 4, each comparison is either
always true, and then gone, or counts as it is written with the form of h. Anything else that can
happen to a comparison (it is never true, or divided by a common factor of its numbers) is left to
simplification itself, and so are candidates with conditions around the value. The same holds where
j is an axis that loops mix (`mixed.py`), if what simplification may think that it reaches decides
nothing. The rules follow from `arith/canonical.py`, `arith/rewrite_logic.py` and the rules of
comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from autosched.arith import Analyzer
from autosched.features.batched.forms import WHOLE, Flags, Form, Forms, Ints, Term, uses_slot
from autosched.features.batched.mixed_index import deeper_in
from autosched.features.walk.count import NUM_COUNTERS, count_ops
from autosched.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    Expr,
    FloatImm,
    IntImm,
    ProducerLoad,
    Var,
)
from autosched.tir.op import if_then_else
from autosched.tir.walk import pre_order

if TYPE_CHECKING:
    from autosched.features.batched.context import Text


class Padding(NamedTuple):
    """if_then_else(first <= axis and axis < end, load, constant); None for a missing limit.

    `moved` tells that the first one is written as axis - first >= 0, in which more factors are
    common. `counts` are the operations of the call without its arguments, `compared` those of a
    comparison, `joined` those of `and`.
    """

    axis: Var
    first: int | None
    end: int | None
    indices: tuple[Expr, ...]
    counts: Ints
    compared: Ints
    joined: Ints
    moved: bool


def padding_of(written: Expr) -> Padding | None:
    """`written` as a part of a padding; None where it is none."""
    value = Analyzer(as_ansor=True).simplify(written)
    if not (isinstance(value, Call) and value.op == "if_then_else"):
        return None
    condition, load, other = value.args
    if not isinstance(load, ProducerLoad) or not isinstance(other, FloatImm | IntImm):
        return None
    both = (condition.a, condition.b) if isinstance(condition, And) else (condition,)
    first: int | None = None
    end: int | None = None
    axes = set()
    for part in both:
        match part:
            case LE(IntImm(limit), Var() as axis) if first is None:
                first = limit
            case LT(Var() as axis, IntImm(limit)) if end is None:
                end = limit
            case _:
                return None
        axes.add(axis)
    if len(axes) != 1 or (first is not None and end is not None and end - first < 2):
        return None
    (axis,) = axes
    flag = Var("flag")
    plain = [
        np.array(count_ops(e), np.int64)
        for e in (if_then_else(flag < 1, other, other), flag < 1, And(flag < 1, flag < 2))
    ]
    return Padding(
        axis,
        first,
        end,
        load.indices,
        plain[0] - plain[1],
        plain[1],
        plain[2] - 2 * plain[1],
        not _bare(written, axis),
    )


def _bare(written: Expr, axis: Var) -> bool:
    """Whether every comparison has the axis itself as one of its sides."""
    compared = (e for e in pre_order(written) if isinstance(e, LE | LT | GE | GT))
    return all(e.a is axis or e.b is axis for e in compared)


def plain_counts(
    forms: Forms, text: Text, known: Padding, as_ansor: bool = True
) -> tuple[Ints, Ints, Flags]:
    """The counts without those of indices, the number of comparisons, and where both are right.

    The index in each comparison is the form of the axis. Indices are simplified `as_ansor`, or as
    autosched's own pass does.
    """
    first, end, free = comparisons(forms, text, known, as_ansor)
    stays = first.astype(np.int64) + end
    return counts_of(forms, known, stays), stays, free


def counts_of(forms: Forms, known: Padding, stays: Ints) -> Ints:
    """The counts of `stays` comparisons and of the choice, without those of indices."""
    some = (stays > 0).astype(np.int64)
    counts = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    for each, times in ((known.counts, some), (known.compared, stays)):
        for slot in np.flatnonzero(each):
            counts[slot] += each[slot] * times
    for slot in np.flatnonzero(known.joined):
        counts[slot] += known.joined[slot] * np.maximum(stays - 1, 0)
    return counts


def comparisons(
    forms: Forms, text: Text, known: Padding, as_ansor: bool
) -> tuple[Flags, Flags, Flags]:
    """Where the comparisons with `first` and `end` stay as written, and where this is certain."""
    form = text.axes[known.axis]
    low, high = forms.ends(form)
    free = np.ones(forms.count, bool)
    for flag, _ in text.given:
        free &= text.axes[flag].base == 0
    plain, every, larger, over = _canonical(forms, form, whole=known.moved and as_ansor)
    plain = plain & ~deeper_in(forms, form, text.own, as_ansor)
    none = np.zeros(forms.count, bool)
    first = end = none
    if known.first is not None:
        first = low < known.first
        shared = np.gcd(larger if known.moved else every, known.first)
        free &= ~first | (plain & (high >= known.first) & (shared == 1))
    if known.end is not None:
        end = high + over >= known.end
        within = (low < known.end) & (high >= known.end)
        free &= ~end | (plain & within & (np.gcd(larger, known.end) == 1))
    return first, end, free


def _canonical(forms: Forms, form: Form, whole: bool) -> tuple[Flags, Ints, Ints, Ints]:
    """Where a comparison with a constant keeps the form, if its numbers have no common factor.

    With `whole`, not where an axis that loops mix is a digit of a sum. Also returns the common
    factor of all scales; the common factor of the scales above 1 (1 where there is none); and by
    how much simplification may overestimate the largest value of an axis that loops mix.
    """
    terms, every, larger = forms.zero, forms.zero, forms.zero
    plain = form.base == 0
    divided, mixed = np.zeros(forms.count, bool), np.zeros(forms.count, bool)
    several, over = np.zeros(forms.count, bool), forms.zero
    scales: list[Ints] = []
    for slot, own in form.terms.items():
        ones, digits = forms.zero, forms.zero
        for term in own:
            there = term.scale != 0
            if slot in forms.virtual:
                text = _Text.of(forms, form, slot, term)
                keeps = text.plain & ~text.cut if whole else text.plain
                plain = plain & (~there | (keeps & ~mixed))
                mixed = mixed | there
                over = np.where(there, text.last - forms.largest(slot, term), over)
                every = np.where(there, np.gcd(every, text.every), every)
                larger = np.where(there, np.gcd(larger, text.larger), larger)
                terms = terms + np.where(there, text.terms, 0)
                divided = divided | (there & text.divided)
                above = [np.where(there, scale, 0) for scale in text.above]
            else:
                one = term.scale == 1
                above = [np.where(one, 0, term.scale)]
                terms, ones, digits = terms + there, ones + one, digits + there
                every, larger = np.gcd(every, term.scale), np.gcd(larger, above[0])
                plain = plain & (term.scale >= 0)
                if term.lower is not forms.one:
                    divided = divided | (there & (term.lower > 1))
            for scale in above:
                for other in scales:  # i * 7 + j * 7 is (i + j) * 7
                    plain = plain & ((scale == 0) | (scale != other))
            scales += above
        plain = plain & (ones < 2)  # i // 2 + i % 2 is (i + 1) // 2
        several = several | (digits > 1)
    plain = plain & ((terms > 1) | ((every == 1) & ~divided)) & ~(mixed & several)
    return plain, every, np.where(larger == 0, 1, larger), over


class _Text(NamedTuple):
    """The facts of an axis that loops mix that `_canonical` needs: terms, scales, largest value."""

    plain: Flags
    terms: Ints
    every: Ints
    larger: Ints
    divided: Flags
    cut: Flags
    last: Ints
    above: list[Ints]

    @staticmethod
    def of(forms: Forms, form: Form, slot: int, term: Term) -> _Text:
        mixed, axis = forms.virtual[slot]
        axes = [entry.axes[axis] for entry in mixed.entries]
        most = max(len(each.scales) for each in axes)
        table = np.array([(*each.scales, *[0] * (most - len(each.scales))) for each in axes])
        table = table.reshape(len(axes), most).astype(np.int64)
        above = np.where(table == 1, 0, table)
        plain = (term.scale == 1) & (term.lower == 1) & (term.upper >= WHOLE)
        for leaf in mixed.leaves:
            if leaf in form.terms:
                plain = plain & ~uses_slot(form.terms[leaf])
        which = mixed.which
        count = (table > 0).sum(axis=1)
        return _Text(
            plain & (count > 0)[which],
            count[which],
            np.gcd.reduce(table, axis=1)[which],
            np.gcd.reduce(above, axis=1)[which],
            np.array([each.divided for each in axes])[which],
            np.array([each.cut for each in axes])[which],
            np.array([each.ends[0][1] for each in axes], np.int64)[which],
            [column[which] for column in above.T],
        )
