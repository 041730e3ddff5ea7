"""What a padded load counts by rule is what simplification leaves of it."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.features.batched.autosched_1.plain_parts import plain_part
from autosched.features.batched.autosched_1.values import KnownChoices, _one_part
from autosched.features.batched.context import Text
from autosched.features.batched.counts import part_counts
from autosched.features.batched.forms import WHOLE, Flags, Form, Forms, Ints, Term
from autosched.features.batched.loops import Group, make_loops
from autosched.features.batched.mixed import Texts
from autosched.features.batched.one import simplified
from autosched.features.batched.padding import Padding, padding_of, plain_counts
from autosched.features.walk.count import count_ops
from autosched.te.operations.compute import placeholder
from autosched.tir.expr import Expr, ProducerLoad, Var
from autosched.tir.op import and_ as both
from autosched.tir.op import const, if_then_else
from kit.fetching_loops import fetching_loops

AXIS, COUNT = Var("h"), 20
SEEDS = 3
LOAD = ProducerLoad(placeholder((64,), name="X"), (AXIS - 1,))


def _part(first: int | None, end: int | None, moved: int = 0) -> Expr:
    """With `moved` as it is often written: h - 1 >= 0 and h - 1 < 56."""
    conditions: list[Expr] = [] if first is None else [AXIS - moved >= const(first - moved)]
    conditions += [] if end is None else [const(end - moved) > AXIS - moved]
    return if_then_else(both(*conditions) if len(conditions) > 1 else conditions[0], LOAD, 0.0)


def _assert_weighed(forms: Forms, text: Text, padding: Padding, good: Flags) -> None:
    """`autosched-1` has the same by rule as by simplifying as far as autosched does."""
    counts, weight, choice, plain = plain_part(forms, text, padding)
    for n in np.flatnonzero(good & plain).tolist():
        found = counts[:, n].tolist(), weight[n], choice[n]
        wanted = _one_part(forms, text, n, KnownChoices())
        assert wanted is not None, text.axes[AXIS]
        assert found == (list(wanted.counts), wanted.weight, wanted.chooses), text.axes[AXIS]


def _form(forms: Forms, rng: np.random.Generator) -> Form:
    """A sum of one to three loops, each with one or two digits of it in random candidates."""
    few = np.array([1, 2, 3, 4, 6, 8, 12, 16])

    def some(chance: float) -> Ints:
        return (rng.random(COUNT) < chance).astype(np.int64)

    def term(slot: int, lower: Ints, upper: Ints, scale: Ints) -> Form:
        there = np.minimum(upper, forms.extents[slot]) > lower
        return Form({slot: (Term(lower, upper, np.where(there, scale, 0)),)}, forms.zero)

    total = Form({}, np.where(some(0.2), rng.integers(-3, 4, COUNT), 0))
    for _ in range(rng.integers(1, 4)):
        inner, outer = rng.choice(few, COUNT), rng.choice(few, COUNT)
        slot = forms.slot(inner * outer * rng.choice(few, COUNT))
        lower = np.where(some(0.5), inner, 1)
        upper = np.where(some(0.5), inner * outer, WHOLE)
        scale = rng.choice([1, 1, 2, 3, 4, 5, 7, 8, 14, 28], COUNT) * some(0.9)
        total = forms.add(total, term(slot, lower, upper, scale))
        below = np.maximum(lower // rng.choice([1, 2, 3], COUNT), 1)
        if rng.random() < 0.4:
            more = rng.choice([1, 1, 2, 4], COUNT) * some(0.7)
            total = forms.add(total, term(slot, np.ones_like(lower), below, more))
    return total


@pytest.mark.parametrize(
    ("first", "end", "moved"),
    [
        *((1, 57, 0), (1, 8, 0), (2, 30, 0), (1, None, 0), (None, 12, 0), (3, 5, 0), (1, 2, 0)),
        *((0, 24, 0), (1, 57, 1), (2, 58, 2), (4, 30, 4)),
    ],
)
def test_counts_are_those_of_what_simplification_leaves(
    first: int | None, end: int | None, moved: int
) -> None:
    part = _part(first, end, moved)
    padding = padding_of(part)
    assert (padding is None) == ((first, end) == (1, 2))
    for seed in range(SEEDS):
        forms = Forms(COUNT)
        form = _form(forms, np.random.default_rng(seed))
        text = Text(part, {AXIS: form}, (), frozenset())
        forms.refuse(np.logical_not(form.base >= 0) | forms.bad, "no index")
        bad = forms.bad
        counts = part_counts(forms, text, part, padding, {})
        for n in np.flatnonzero(~bad):
            assert counts[:, n].tolist() == count_ops(simplified(forms, text, int(n))[0])
        if padding is not None:
            _assert_weighed(forms, text, padding, ~bad)


def test_most_are_known_by_rule() -> None:
    padding = padding_of(_part(1, 57))
    assert padding is not None
    plain = []
    for seed in range(10):
        forms = Forms(COUNT)
        text = Text(
            _part(1, 57), {AXIS: _form(forms, np.random.default_rng(seed))}, (), frozenset()
        )
        plain.append(plain_counts(forms, text, padding)[2].mean())
    assert np.mean(plain) > 0.3


def test_axes_that_loops_mix() -> None:
    """Rows and columns of a fetched tile, with loops around it or without."""
    loops = fetching_loops(3)
    rng = np.random.default_rng(1)
    by_rule = 0
    for axis, moved in ((1, 0), (2, 1), (2, 0)):
        part = _part(1, 57, moved)
        padding = padding_of(part)
        assert padding is not None
        forms = Forms(COUNT)
        axes = [rng.choice(some, COUNT) for some in ([1, 4, 16], [1, 4, 30, 58], [3, 8, 28, 57])]
        width = rng.choice([8, 28, 56, 96], COUNT)
        group = Group(loops, np.arange(COUNT), np.stack([forms.one, width]))
        own = make_loops(forms, [group], 3, axes, Texts())
        tile = own.values[axis]
        around = forms.slot(rng.choice([1, 2, 7, 12], COUNT))
        scale = rng.choice([0, 1, 2, 3, 14, 28], COUNT) * (forms.extents[around] > 1)
        outside = Form({around: (Term(forms.one, forms.whole, scale),)}, forms.zero)
        text = Text(part, {AXIS: forms.add(tile, outside)}, (), frozenset(own.slots))
        by_rule += int(plain_counts(forms, text, padding)[2].sum())
        counts = part_counts(forms, text, part, padding, {})
        for n in np.flatnonzero(~forms.bad):
            assert counts[:, n].tolist() == count_ops(simplified(forms, text, int(n))[0])
        own = make_loops(forms, [group], 3, axes, Texts(as_ansor=False))
        tile = own.values[axis]
        text = Text(part, {AXIS: forms.add(tile, outside)}, (), frozenset(own.slots))
        _assert_weighed(forms, text, padding, ~forms.bad)
    assert by_rule > COUNT


def test_an_axis_that_several_axes_cut() -> None:
    """Of (o * 3 + t) % 360 // 72 a difference has o % 120 // 24."""
    part = _part(3, 11, 1)
    padding = padding_of(part)
    assert padding is not None
    forms = Forms(2)
    axes = [forms.full(extent) for extent in (2, 5, 9, 8)]
    width = np.array([3, 4])
    group = Group(fetching_loops(4), forms.every, np.stack([forms.one, width]))
    own = make_loops(forms, [group], 4, axes, Texts())
    tile = own.values[1]
    around = forms.slot(forms.full(10))
    text = Text(part, {AXIS: forms.add(tile, forms.variable(around))}, (), frozenset(own.slots))
    counts = part_counts(forms, text, part, padding, {})
    for n in range(2):
        assert counts[:, n].tolist() == count_ops(simplified(forms, text, n)[0])
    assert not forms.bad.any()
