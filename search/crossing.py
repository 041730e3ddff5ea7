"""Crossover of rows of one sketch: each split takes the lengths of one parent or of the other.

Moving factors cannot reach every size from the sizes that a sample began with: 11 rows of a
register tile become 1 or 33, never 8, and a tile for blocks of 512 columns is not tried in blocks
of 256. Other samples of the sketch have these sizes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.search.initial import Rng
from autosched.search.population import Numbers, Rows, Structures


def crossed(structures: Structures, rows: Rows, rng: Rng) -> Rows:
    """Replace some splits and unroll limits of each row by those of another row of its sketch.

    Fused loops, annotations and compute locations stay. A split inside a block takes the lengths
    that fit the block: (4, 48) of 256 columns becomes (3, 48) in a block of 128.
    """
    tables = structures.tables()
    mine = rows.padded(tables.part.shape[1])
    other = mine.take(_partners(tables.kin[mine.structures], rng))
    part = tables.part[mine.structures]
    whole = rng.random((len(mine), part.shape[1])) < rng.random((len(mine), 1))
    taken = np.take_along_axis(whole, part, 1)
    numbers = np.where(taken, other.numbers, mine.numbers)
    extents = tables.extents[mine.structures]
    cut = taken & (extents != tables.extents[other.structures])
    return Rows(mine.structures, _cut_to_fit(numbers, part, extents, cut))


def _partners(kin: Numbers, rng: Rng) -> Numbers:
    """Draw for each position one with the same number in `kin`, perhaps itself."""
    order = np.argsort(kin, kind="stable")
    first = np.searchsorted(kin[order], kin)
    drawn = rng.random(len(kin)) * np.bincount(kin)[kin]
    partners: Numbers = order[first + drawn.astype(np.int64)]
    return partners


def _cut_to_fit(
    numbers: Numbers, part: Numbers, extents: Numbers, cut: npt.NDArray[np.bool_]
) -> Numbers:
    """`numbers`, with the lengths in the mask `cut` reduced to fit the extent of their split.

    From the innermost length outwards, each is at most what is left of the extent.
    """
    numbers = numbers.copy()
    ends = np.column_stack([part[:, 1:] != part[:, :-1], np.ones(len(part), bool)])
    left = inside = np.ones(len(part), np.int64)
    for column in reversed(range(part.shape[1])):
        left = np.where(ends[:, column], extents[:, column], left)
        inside = np.where(ends[:, column], 1, inside)
        length = np.minimum(numbers[:, column], left)
        outermost = part[:, column] == column
        fitting = np.where(outermost, extents[:, column] // inside, length)
        numbers[:, column] = np.where(cut[:, column], fitting, numbers[:, column])
        inside = inside * np.maximum(1, length)
        left = -(-left // np.maximum(1, length))
    return numbers
