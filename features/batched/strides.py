"""Ansor's guess of the stride of an access along a loop (`ansor.stride`), from forms.

The guess depends on the text of an index: terms with positive scales by falling scale, the
constant before the subtracted terms if it is positive. A variable whose term is a product gets the
last factor written in the index; one that is not gets 1, unless only subtractions follow. Of two
terms of one variable, a last one that is no product makes it 2.
"""

from __future__ import annotations

import numpy as np

from autosched.features.batched.forms import Form, Forms, Ints
from autosched.features.batched.stores import Touched

_LARGE = 1 << 60


def stride_along(forms: Forms, access: Touched, shape: list[Ints], slot: int) -> Ints:
    """Elements between iterations of the loop; 0 where it is in no index.

    The smallest of all index tuples; a buffer without dimensions has stride 1 along every loop.
    """
    if not shape:
        return forms.one
    best = forms.zero
    for indices in access.tuples:
        scale, found = forms.one, forms.zero
        left = np.ones(forms.count, bool)
        for d in range(len(indices) - 1, -1, -1):
            terms = indices[d].terms.get(slot)
            if terms is not None:
                here = left & (sum(np.abs(term.scale) for term in terms) != 0)
                if here.any():
                    found = np.where(here, _coefficient(forms, indices[d], slot) * scale, found)
                    left = left & ~here
            scale = scale * shape[d]
        both = np.minimum(best, found)
        best = np.where(found == 0, best, np.where(best == 0, found, both))
    return best


def _coefficient(forms: Forms, index: Form, slot: int) -> Ints:
    own = index.terms[slot]
    if len(index.terms) == len(own) == 1 and not index.base.any():
        return np.abs(own[0].scale)
    smallest, taken, positive = forms.full(_LARGE), forms.zero, forms.zero
    for _, term in index.every():
        scale = term.scale
        smallest = np.where(scale > 1, np.minimum(smallest, scale), smallest)
        taken = np.maximum(taken, -scale)
        positive = positive + (scale > 0)
    last, first = forms.full(_LARGE), forms.zero  # of the variable's own scales, but those of 0
    for term in own:
        last = np.where(term.scale != 0, np.minimum(last, term.scale), last)
        first = np.where(term.scale != 0, np.maximum(first, np.abs(term.scale)), first)
    one = np.where((positive > 1) | (index.base > 0), 1, np.maximum(taken, 1))
    product = np.where(taken > 1, taken, np.where(last > 1, smallest, 2))
    found: Ints = np.where(last < 0, taken, np.where(first > 1, product, one))
    return found
