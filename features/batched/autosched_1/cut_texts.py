"""What the constants that cut loops leave change in texts (`cut_pieces.py`).

    i * 22 + j * 9 + k     ->    44 + (j + 2) * 9 + k       (i is 2, j starts at 2)

So they are in indices, unless the program is simplified afterwards, and in comparisons: a copy in
conditions of its own is no border that is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autosched.features.batched.forms import Flags, Ints
from autosched.features.walk.count import NUM_COUNTERS

_INT_ADDSUB, _INT_MUL = 8, 9


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


class IndexTexts(NamedTuple):
    """What changes in the counters of indices, and what it is where the program is simplified
    afterwards; and where it is hard to tell unless that is so."""

    counts: Ints
    simplified: Ints
    unsure: Flags

    def plus(self, other: IndexTexts) -> IndexTexts:
        """Of both."""
        unsure = self.unsure | other.unsure
        return IndexTexts(self.counts + other.counts, self.simplified + other.simplified, unsure)


def no_texts(count: int) -> IndexTexts:
    """Where nothing changes."""
    none = np.zeros((NUM_COUNTERS, count), np.int64)
    return IndexTexts(none, none, np.zeros(count, bool))


def index_texts(terms: Sequence[CutTerm], base: Ints) -> IndexTexts:
    """Those of an index of these terms and a constant."""
    found = no_texts(len(base))
    if not terms:
        return found
    scale, there, stays, added = _stacked(terms)
    loops, gone = (there & stays).sum(axis=0), there & ~stays
    counts = np.zeros((NUM_COUNTERS, len(base)), np.int64)
    counts[_INT_MUL] = -(gone & (np.abs(scale) != 1)).sum(axis=0)
    simplified = counts.copy()
    before = np.maximum(there.sum(axis=0) + (base != 0) - 1, 0)
    constants, unsure = _constants_in(scale, there, stays, added)
    shifted = (there & stays & (added != 0)).sum(axis=0)
    now = np.where(loops > 0, loops + (base != 0) + constants - 1, 0)
    counts[_INT_ADDSUB] = now + shifted - before
    constant = base + (np.where(there, added, 0) * scale).sum(axis=0)
    now = np.where(loops > 0, loops + (constant != 0) - 1, 0)
    simplified[_INT_ADDSUB] = now - before
    return IndexTexts(counts, simplified, unsure)


def _constants_in(scale: Ints, there: Flags, stays: Flags, added: Ints) -> tuple[Ints, Flags]:
    """How many constants a sum has: those before its first loop are one. Where several are, and one
    has the scale of a loop, it is hard to tell which stands first."""
    number, loop = there & ~stays & (added * scale != 0), there & stays
    order = np.argsort(-scale, axis=0, kind="stable")
    number, loop, scale = (np.take_along_axis(own, order, axis=0) for own in (number, loop, scale))
    begun = np.cumsum(loop, axis=0) > 0
    found: Ints = (number & begun).sum(axis=0) + (number & ~begun).any(axis=0)
    level = np.zeros(number.shape[1], bool)
    for k in range(1, len(scale)):
        both = (number[k] & loop[:k]) | (loop[k] & number[:k])
        level = level | (both & (scale[:k] == scale[k])).any(axis=0)
    unsure = level | ((scale < 0) & there).any(axis=0)
    return found, unsure & (number.sum(axis=0) > 1)


def _stacked(terms: Sequence[CutTerm]) -> tuple[Ints, Flags, Flags, Ints]:
    scale = np.stack([np.where(term.there, term.scale, 0) for term in terms])
    there, stays = (np.stack([getattr(t, name) for t in terms]) for name in ("there", "stays"))
    return scale, there, stays, np.stack([term.added for term in terms])


def _fused(terms: Sequence[CutTerm], cut: bool) -> Ints:
    """How many additions have a product: each takes one instruction with it. Terms stand in the
    order of their scales."""
    scale, there, stays, added = _stacked(terms)
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
