"""Steps and blocks of sums of digits are those of the sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.features.batched.autosched_1.blocks import steps_along
from autosched.features.batched.forms import WHOLE, Form, Forms, Term
from autosched.features.walk.strides import flat_terms
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.transform.vector.index_steps import step_along

COUNT = 40


@pytest.mark.parametrize("seed", range(10))
def test_random_sums_of_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forms = Forms(COUNT)
    slot = forms.slot(rng.choice([2, 4, 6, 8, 12, 24, 48], COUNT))
    storage = [rng.choice([1, 2, 3, 4, 8, 14], COUNT) for _ in range(1 + seed % 3)]
    index = []
    for _ in storage:
        terms = []
        for _ in range(int(rng.integers(0, 3))):
            lower = rng.choice([1, 1, 2, 3, 4, 8], COUNT)
            upper = np.where(rng.random(COUNT) < 0.5, lower * rng.choice([2, 3, 4], COUNT), WHOLE)
            terms.append(Term(lower, upper, rng.choice([0, 1, 1, 2, 3, 4, 8], COUNT)))
        index.append(Form({slot: tuple(terms)} if terms else {}, forms.zero))
    step, block = steps_along(forms, index, storage, slot)
    var = Var("loop")
    for n in range(COUNT):
        extent = int(forms.extents[slot][n])
        written: list[Expr] = []
        for form in index:
            total: Expr = const(0)
            for term in form.terms.get(slot, ()):
                low, high, scale = (int(x[n]) for x in (term.lower, term.upper, term.scale))
                digit: Expr = floormod(var, IntImm(high)) if high < extent else var
                total = add(total, mul(floordiv(digit, low), scale))
            written.append(total)
        terms_of = flat_terms(tuple(written), [int(own[n]) for own in storage])
        assert (step[n], block[n]) == step_along(terms_of, var), written
