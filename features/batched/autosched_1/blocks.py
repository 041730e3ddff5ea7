"""How loops move an index that has digits of them (`vector/index_steps.py`), as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from autosched.features.batched.forms import WHOLE, Forms, Ints
from autosched.features.batched.stores import Touched
from autosched.features.walk.strides import flat_terms
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.transform.vector.index_steps import step_along


def steps_along(
    forms: Forms, access: Touched, storage: Sequence[Ints], slot: int
) -> tuple[Ints, Ints]:
    """How far the first place of an access moves with a step of the loop, and the length of the
    blocks inside which all steps are the same, 0 where all of them are."""
    extent = forms.extents[slot]
    parts: list[Ints] = []
    for d, form in enumerate(access.tuples[0]):
        for term in form.terms.get(slot, ()):
            there = term.scale != 0
            upper = np.where(term.upper < extent, term.upper, WHOLE)
            parts += [
                forms.full(d),
                np.where(there, term.scale, 0),
                np.where(there, term.lower, 1),
                np.where(there, upper, WHOLE),
            ]
    if not parts:
        return forms.zero, forms.zero
    table = np.stack([*storage, *parts], axis=1)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    found = [_step(tuple(row[: len(storage)]), tuple(row[len(storage) :])) for row in rows.tolist()]
    steps: Ints = np.array(found, np.int64)[which.reshape(-1)]
    return steps[:, 0], steps[:, 1]


@lru_cache(maxsize=10_000)
def _step(storage: tuple[int, ...], parts: tuple[int, ...]) -> tuple[int, int]:
    var = Var("loop")
    index: list[Expr] = [const(0)] * len(storage)
    for d, scale, lower, upper in zip(*[iter(parts)] * 4, strict=True):
        if scale:
            digit: Expr = var if upper == WHOLE else floormod(var, IntImm(upper))
            index[d] = add(index[d], mul(floordiv(digit, lower), scale))
    return step_along(flat_terms(tuple(index), storage), var)
