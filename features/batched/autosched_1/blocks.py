"""Strides of indices that have digits of loops (`vector/index_steps.py`), as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from autosched.features.batched.forms import WHOLE, Form, Forms, Ints
from autosched.features.walk.strides import flat_terms
from autosched.runtime.compiled_loops import compiled
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.transform.vector.index_steps import step_along


def steps_along(
    forms: Forms, index: Sequence[Form], storage: Sequence[Ints], slot: int
) -> tuple[Ints, Ints]:
    """The stride of an index along the loop, and the length of the blocks in which it is even.

    The length is 0 where the stride is even throughout.
    """
    extent = forms.extents[slot]
    lower, upper, factor = [], [], []
    scale: Ints | int = 1
    for form, elements in zip(reversed(index), reversed(storage), strict=True):
        for term in form.terms.get(slot, ()):
            lower.append(term.lower)
            upper.append(np.where(term.upper < extent, term.upper, WHOLE))
            factor.append(term.scale * scale)
        scale = scale * np.maximum(elements, 1)
    if not factor:
        return forms.zero, forms.zero
    step, block, clash = np.empty((3, forms.count), np.int64)
    _add_up(np.stack(lower), np.stack(upper), np.stack(factor), step, block, clash)
    for n in clash.nonzero()[0].tolist():
        digits = [tuple([int(own[n]) for own in every]) for every in (lower, upper, factor)]
        step[n], block[n] = _step(tuple(digits))
    return step, block


@compiled
def _add_up(lower: Ints, upper: Ints, factor: Ints, step: Ints, block: Ints, clash: Ints) -> None:
    """The stride and the block length of each sum of digits (`index_steps.step_along`), and where
    two digits begin at the same place and end at different ones. Changes the digits."""
    for n in range(len(step)):
        clash[n] = 0
        for k in range(1, len(lower)):
            for other in range(k):
                part = lower[k, n] > 1 or max(upper[k, n], upper[other, n]) < WHOLE
                there = factor[k, n] != 0 and factor[other, n] != 0
                if part and there and lower[k, n] == lower[other, n]:
                    clash[n] |= upper[k, n] != upper[other, n]
        _sort_digits(lower, upper, factor, n)
        _join_digits(lower, upper, factor, n)
        step[n] = 0
        block[n] = 0
        for k in range(len(lower)):
            if factor[k, n] != 0 and lower[k, n] == 1:
                step[n] += factor[k, n]
            if factor[k, n] != 0 and (lower[k, n] != 1 or upper[k, n] != WHOLE):
                length = 1
                if lower[k, n] == 1:
                    length = upper[k, n]
                elif upper[k, n] == WHOLE:
                    length = lower[k, n]
                while length != 0:  # the greatest common divisor
                    rest = block[n] % length
                    block[n] = length
                    length = rest


@compiled
def _sort_digits(lower: Ints, upper: Ints, factor: Ints, n: int) -> None:
    """The digits that begin last come first."""
    for k in range(1, len(lower)):
        low = lower[k, n]
        up = upper[k, n]
        own = factor[k, n]
        at = k
        while at > 0 and lower[at - 1, n] < low:
            lower[at, n] = lower[at - 1, n]
            upper[at, n] = upper[at - 1, n]
            factor[at, n] = factor[at - 1, n]
            at -= 1
        lower[at, n] = low
        upper[at, n] = up
        factor[at, n] = own


@compiled
def _join_digits(lower: Ints, upper: Ints, factor: Ints, n: int) -> None:
    """Merge digits that make up a longer one (`walk.strides.flat_terms`)."""
    for k in range(1, len(lower)):
        for other in range(k):
            if lower[other, n] == lower[k, n] and upper[other, n] == upper[k, n]:
                factor[k, n] += factor[other, n]
                factor[other, n] = 0
    for k in range(1, len(lower)):
        part = lower[k, n] > 1 or upper[k, n] < WHOLE
        for above in range(k):
            follows = part and factor[k, n] != 0 and factor[above, n] != 0
            follows = follows and lower[above, n] == upper[k, n]
            if follows and factor[above, n] * lower[k, n] == factor[k, n] * upper[k, n]:
                upper[k, n] = upper[above, n]
                factor[above, n] = 0


@lru_cache(maxsize=10_000)
def _step(digits: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """The stride and the block length of one sum of digits, written out as an expression."""
    var = Var("loop")
    index: Expr = const(0)
    for lower, upper, factor in zip(*digits, strict=True):
        if factor:
            digit: Expr = var if upper == WHOLE else floormod(var, IntImm(upper))
            index = add(index, mul(floordiv(digit, lower), factor))
    return step_along(flat_terms((index,), (1,)), var)
