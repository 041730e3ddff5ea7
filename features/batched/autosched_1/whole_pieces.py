"""The stores of candidates none of whose loops is cut but those of copies with a border."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.features.batched.autosched_1.borders import (
    PLACES,
    KnownBorders,
    border_pieces,
    is_padded,
)
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.sparse_sums import without_zeros
from autosched.features.batched.autosched_1.surroundings import Surroundings, surroundings_of
from autosched.features.batched.autosched_1.windows import with_borders
from autosched.features.batched.forms import Flags

SEVERAL = "several copies with borders"


def whole_pieces(ready: Ready, borders: KnownBorders) -> list[Piece]:
    """The stores as they are, and the pieces of copies with a border.

    Candidates with conditions around stores are not among them (`cut_pieces.py`), nor those that
    keep values in an output (`kept.py`).
    """
    forms = ready.nest.forms
    forms.bad = ~ready.left
    padded = [is_padded(store) for store in ready.stores]
    if sum(padded) > 1:  # what is added to a program is limited, and simplified in all of it
        forms.refuse(np.ones(forms.count, bool), SEVERAL)
    stores = ready.stores
    if any(padded):
        stores = [replace(store, place=store.place * PLACES) for store in stores]
    around = [surroundings_of(ready.nest, ready.population, store) for store in stores]
    every = np.ones(forms.count, bool)
    found: list[Piece] = []
    number: dict[int, int] = {}
    for n, store in enumerate(stores):
        number[n] = len(found)
        if padded[n]:
            found += border_pieces(forms, store, around[n], borders, every)
        else:
            beside = tuple([k for k, other in enumerate(stores) if other.stage is store.stage])
            together = _together(forms.count, beside, around)
            found.append(Piece(store, around[n], beside, together))
    for piece in found:
        piece.beside = tuple([number[n] for n in piece.beside])
    return with_borders(forms, without_zeros(forms, found))


def _together(count: int, beside: tuple[int, ...], around: list[Surroundings]) -> Flags:
    """Where the stores are all that is in their sequence: a reduction's start and its steps."""
    found: Flags = np.full(count, len(beside) > 1)
    for n in beside:
        found = found & around[n].of_reduction & (around[n].count == len(beside))
    return found
