"""Strides of indices that have digits of loops (`vector/index_steps.py`), as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from autosched.features.batched.along_loops import taken
from autosched.features.batched.forms import WHOLE, Flags, Form, Forms, Ints
from autosched.features.walk.strides import flat_terms
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
    if len(factor) == 1:
        return _counted(np.stack(lower), np.stack(upper), np.stack(factor))
    digits = np.stack(lower), np.stack(upper), np.stack(factor)
    clash = _clash(*digits)
    step, block = _counted(*_joined(*digits))
    for n in clash.nonzero()[0].tolist():
        step[n], block[n] = _step(tuple([tuple(own[:, n].tolist()) for own in digits]))
    return step, block


def _clash(lower: Ints, upper: Ints, factor: Ints) -> Flags:
    """Where two digits begin at the same place and end at different ones."""
    found: Flags = np.zeros(lower.shape[1], bool)
    part = (factor != 0) & ((lower > 1) | (upper < WHOLE))
    for k in range(1, len(lower)):
        same = part[k] & part[:k] & (lower[:k] == lower[k]) & (upper[:k] != upper[k])
        found = found | same.any(axis=0)
    return found


def _joined(lower: Ints, upper: Ints, factor: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge digits that make up a longer one (`walk.strides.flat_terms`)."""
    order = np.argsort(-lower, axis=0, kind="stable")
    lower, upper, factor = (taken(own, order) for own in (lower, upper, factor))
    for k in range(1, len(lower)):
        for other in range(k):
            same = (lower[other] == lower[k]) & (upper[other] == upper[k])
            factor[k] += np.where(same, factor[other], 0)
            factor[other] = np.where(same, 0, factor[other])
    for k in range(1, len(lower)):
        part = (lower[k] > 1) | (upper[k] < WHOLE)
        for above in range(k):
            follows = (factor[k] != 0) & (factor[above] != 0) & part & (lower[above] == upper[k])
            follows &= factor[above] * lower[k] == factor[k] * upper[k]
            upper[k] = np.where(follows, upper[above], upper[k])
            factor[above] = np.where(follows, 0, factor[above])
    return lower, upper, factor


def _counted(lower: Ints, upper: Ints, factor: Ints) -> tuple[Ints, Ints]:
    """The stride and the block length of a sum of digits (`index_steps.step_along`)."""
    there, low, whole = factor != 0, lower == 1, upper == WHOLE
    step: Ints = np.where(there & low, factor, 0).sum(axis=0)
    length = np.where(low, upper, np.where(whole, lower, 1))
    block: Ints = np.gcd.reduce(np.where(there & ~(low & whole), length, 0), axis=0)
    return step, block


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
