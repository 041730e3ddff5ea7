"""Ansor's guess of the stride of an access along a loop (`ansor.stride`), from forms.

The guess depends on the text of an index: terms with positive scales come first, by falling scale;
a positive constant comes before the subtracted terms. A variable whose term is a product gets the
last factor written in the index. A variable whose term is no product gets 1, unless only
subtractions follow. If a variable has two terms and the last one is no product, it gets 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.features.batched.forms import Flags, Form, Forms, Ints, uses_slot
from autosched.features.batched.stores import Touched

_LARGE = 1 << 60


@dataclass(slots=True)
class _Scales:
    """The scales in an index: the smallest above 1, the largest subtracted (`taken`), and whether
    several terms are added.

    `taken` is None where nothing is subtracted.
    """

    smallest: Ints
    taken: Ints | None
    several: Flags


def _scales_of(forms: Forms, index: Form) -> _Scales:
    smallest, taken, positive = forms.full(_LARGE), forms.zero, forms.zero
    for _, term in index.every():
        scale = term.scale
        smallest = np.where(scale > 1, np.minimum(smallest, scale), smallest)
        taken = np.maximum(taken, -scale)
        positive = positive + (scale > 0)
    several = (positive > 1) | (index.base > 0)
    return _Scales(smallest, taken if taken.any() else None, several)


class Strides:
    """The strides of one access along loops."""

    def __init__(self, forms: Forms, access: Touched, shape: list[Ints]) -> None:
        self._forms, self._access, self._shape = forms, access, shape
        self._scales: dict[Form, _Scales] = {}

    def along(self, slot: int) -> Ints:
        """Elements between iterations of the loop; 0 where it is in no index.

        The smallest over all index tuples. A buffer without dimensions has stride 1 along every
        loop.
        """
        forms = self._forms
        if not self._shape:
            return forms.one
        best: Ints | None = None
        for k in range(len(self._access.tuples)):
            found = self._of(k, slot)
            if best is None:
                best = found
            else:
                both = np.minimum(best, found)
                best = np.where(found == 0, best, np.where(best == 0, found, both))
        return forms.zero if best is None else best

    def _of(self, k: int, slot: int) -> Ints:
        indices = self._access.tuples[k]
        scale: Ints | None = None
        found, left = self._forms.zero, None
        for d in range(len(indices) - 1, -1, -1):
            value = self._coefficient(k, d, slot)
            if value is not None:
                here = value != 0
                if left is not None:
                    here = here & left
                found = np.where(here, value if scale is None else value * scale, found)
                left = ~here if left is None else left & ~here
            if d:
                scale = self._shape[d] if scale is None else scale * self._shape[d]
        return found

    def _coefficient(self, k: int, d: int, slot: int) -> Ints | None:
        """The coefficient in one index, 0 where the variable is not in it; None if it never is."""
        index, text = self._access.tuples[k][d], self._access.written.get((k, d))
        found: Ints | None = None
        if slot in index.terms:
            found = np.where(uses_slot(index.terms[slot]), self._guess(index, slot), 0)
        if text is not None:
            stride = text.strides.get(slot, self._forms.zero)
            found = np.where(text.where, stride, self._forms.zero if found is None else found)
        return found

    def _guess(self, index: Form, slot: int) -> Ints:
        own = index.terms[slot]
        if len(index.terms) == len(own) == 1 and not index.base.any():
            return np.abs(own[0].scale)
        known = self._scales.get(index)
        if known is None:
            known = self._scales[index] = _scales_of(self._forms, index)
        if len(own) == 1:
            last = first = own[0].scale
        else:
            last, first = self._forms.full(_LARGE), self._forms.zero  # of the scales that are not 0
            there = np.count_nonzero([term.scale for term in own], axis=0)
            for term in own:
                last = np.where(term.scale != 0, np.minimum(last, term.scale), last)
                first = np.maximum(first, term.scale)
            self._forms.refuse((last < 0) & (there > 1), "an index with one loop minus another")
        found: Ints
        if known.taken is None:
            product = known.smallest if last is first else np.where(last > 1, known.smallest, 2)
            found = np.where(first > 1, product, 1)
            return found
        one = np.where(known.several, 1, np.maximum(known.taken, 1))
        product = np.where(known.taken > 1, known.taken, np.where(last > 1, known.smallest, 2))
        found = np.where(last < 0, known.taken, np.where(first > 1, product, one))
        return found
