"""What constants that cut loops leave change in the comparisons of a padded copy (`cut_pieces.py`).

    1 <= i * 22 + j * 9 + k     ->    1 <= 44 + (j + 2) * 9 + k       (i is 2, j starts at 2)

A copy in conditions of its own is no border that is cut: its comparisons stay, with what the pieces
of the loops around put in place of their variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autosched.features.batched.forms import Flags, Ints


class CutTerm(NamedTuple):
    """A term of an axis: where it is there, its scale, where its loop is still one, and what is
    added to the loop's variable, or stands for it."""

    there: Flags
    scale: Ints
    stays: Flags
    added: Ints


class CutText(NamedTuple):
    """An axis as it is compared: where pieces change its text, what that changes in the counters of
    one comparison, and in its instructions; and where no loop is left in it."""

    where: Flags
    counts: Ints
    weight: Ints
    gone: Flags


def cut_text(terms: Sequence[CutTerm], counts: Ints) -> CutText:
    """That of these terms; `counts` is what changes in the counters."""
    where, left = np.zeros((2, counts.shape[1]), bool)
    for term in terms:
        where = where | (term.there & (~term.stays | (term.added != 0)))
        left = left | (term.there & term.stays)
    weight: Ints = counts.sum(axis=0)
    if terms:
        weight = weight - (_fused(terms, cut=True) - _fused(terms, cut=False))
    return CutText(where, counts, weight, where & ~left)


def _fused(terms: Sequence[CutTerm], cut: bool) -> Ints:
    """How many additions have a product: each takes one instruction with it. Terms stand in the
    order of their scales."""
    scale = np.stack([np.where(term.there, term.scale, 0) for term in terms])
    there, stays, added = (
        np.stack([getattr(term, name) for term in terms]) for name in ("there", "stays", "added")
    )
    product, some = there & (np.abs(scale) != 1), there
    if cut:
        product, some = product & stays, there & (stays | (added != 0))
    order = np.argsort(-scale, axis=0, kind="stable")
    product, some = (np.take_along_axis(flags, order, axis=0) for flags in (product, some))
    number = np.cumsum(some, axis=0)
    begins = (product & (number == 1)).any(axis=0)
    added_to = (some & (number > 1) & product).sum(axis=0)
    second = (some & (number == 2) & ~product).any(axis=0)
    found: Ints = added_to + (begins & second)
    return found
