"""The stores of CPU candidates with their surroundings, as they are inside of all borders.

See `autosched_1/within_bounds.py`.
"""

from __future__ import annotations

import numpy as np

from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.sparse_sums import without_zeros
from autosched.features.batched.autosched_1.surroundings import Surroundings, surroundings_of
from autosched.features.batched.forms import Flags


def pieces_of(ready: Ready) -> list[Piece]:
    """The stores of the candidates that are left, with their surroundings; marks all others bad.

    Candidates that keep values in an output are not left (`kept.py`).
    """
    forms, stores = ready.nest.forms, ready.stores
    forms.bad = ~ready.left
    around = [surroundings_of(ready.nest, ready.population, store) for store in stores]
    found = []
    for store, own in zip(stores, around, strict=True):
        beside = tuple([n for n, other in enumerate(stores) if other.stage is store.stage])
        found.append(Piece(store, own, beside, _together(forms.count, beside, around)))
    without_zeros(forms, found)
    return found


def _together(count: int, beside: tuple[int, ...], around: list[Surroundings]) -> Flags:
    """Where these stores are their whole sequence: a reduction's initialisation and update."""
    found: Flags = np.full(count, len(beside) > 1)
    for n in beside:
        found = found & around[n].of_reduction & (around[n].count == len(beside))
    return found
